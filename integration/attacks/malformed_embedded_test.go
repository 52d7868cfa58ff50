package attacks

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestEmbeddedAttacks: miniredis ends the process on bytes that Redis refuses, unless they never
// reach it.
func TestEmbeddedAttacks(t *testing.T) {
	t.Parallel()
	p := lab.StartEmbedded(t)
	for _, a := range attacks() {
		before := p.CPU(t)
		a.mount(t, p.Addr, nil)
		if !p.Running() {
			t.Fatalf("%s: the process is gone: %v\n%s", a.name, p.Err, p.Log.Tail(3000))
		}
		if used := p.CPU(t) - before; used > 400*time.Millisecond*lab.Slack {
			t.Errorf("%s: cost %v of processor time", a.name, used)
		}
		host := lab.Dial(t, p.Addr)
		host.WantDo("+PONG\r\n", "PING")
		host.Unlock("job", host.Lock("job", "5s"))
		host.Close()
	}
	if peak := p.Memory(t, "VmHWM"); peak > lab.MemoryBound {
		t.Errorf("the process used up to %d MB, want under %d", peak, lab.MemoryBound)
	}
}
