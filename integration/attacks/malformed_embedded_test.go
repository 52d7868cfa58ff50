package attacks

import (
	"testing"

	"lockproxy/integration/lab"
)

// TestEmbeddedSurvivesAttacks: miniredis panics on bytes that Redis refuses, so the proxy must not
// pass them on.
func TestEmbeddedSurvivesAttacks(t *testing.T) {
	t.Parallel()
	p := lab.StartEmbedded(t)
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			before := p.CPU(t)
			a.mount(t, p.Addr, a.whenIdle(p.Process))
			if !p.Running() {
				t.Fatalf("the process has ended: %v\n%s", p.Err, p.Log.Tail(3000))
			}
			wantCheap(t, p.Process, before)
			host := lab.Dial(t, p.Addr)
			host.WantDo("+PONG\r\n", "PING")
			host.Unlock("job", host.Lock("job", "60s"))
		})
	}
	wantMemoryBound(t, p.Process)
}
