package sessions

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A command through another proxy changes a session lock on the masters. The session's proxy
// notices at its next renewal at the earliest, and the end of the session ends the lock in any
// case.
func TestSessionFollowsOtherProxy(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	token := host.LockSession("extended", "3s")
	p.Far.WantDo(":1\r\n", "EXTEND", "extended", token, "60s")
	lab.Pass(t, 1500*time.Millisecond) // a renewal of 3s at 1s does not lower it
	if left := p.Left(t, "extended"); left[2] < 50*time.Second {
		t.Errorf("left after a renewal: got %v, want at least 50s of the 60s of EXTEND", left)
	}
	host.Close()
	p.Far.WantFree("extended") // long before the 60s of EXTEND

	host = lab.Dial3(t, p.Addr)
	token = host.LockSession("unlocked", "3s")
	p.Far.Unlock("unlocked", token)
	p.Far.Unlock("unlocked", p.Far.Lock("unlocked", "60s")) // it is free for others at once
	if got := host.Frame(); got != lostPush("unlocked", token) {
		t.Errorf("got %q, want the push after a renewal", got)
	}
	p.WantNoStray(t)
}
