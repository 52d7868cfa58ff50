package sessions

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// EXTEND with SESSION moves a lock to a connection of another proxy, which renews it and releases
// it at its end.
func TestSessionMovesBetweenProxies(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host, next := lab.Dial(t, p.Addr), lab.Dial(t, p.Second.Addr)
	token := host.Lock("job", "4s")
	next.WantDo(":1\r\n", "EXTEND", "job", token, "4s", "SESSION")
	host.Close() // it was no session lock before
	lab.Pass(t, 6*time.Second)
	p.Near.WantDo(lab.Null2, "LOCK", "job", "60s")
	next.Close()
	p.Near.WantFree("job")
	next = lab.Dial(t, p.Second.Addr)
	next.WantDo(":0\r\n", "EXTEND", "job", token, "1s", "SESSION")
	next.Close()
	p.WantNoStray(t)
}

// EXTEND with SESSION moves a lock to another connection of the same proxy. The first connection
// no longer owns it and gets no push of its loss.
func TestSessionMovesBetweenConnections(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host, next := lab.Dial3(t, p.Addr), lab.Dial3(t, p.Addr)
	token := host.LockSession("job", "4s")
	next.WantDo(":1\r\n", "EXTEND", "job", token, "5s", "SESSION")
	lab.Pass(t, 5*time.Second)
	host.WantDo("+PONG\r\n", "PING") // no push comes before the reply
	host.Close()
	lab.Pass(t, 6*time.Second)
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	p.Far.Unlock("job", token)
	next.Timeout = 10 * time.Second
	if got := next.Frame(); got != lostPush("job", token) {
		t.Errorf("got %q, want the push that job is lost", got)
	}
	p.WantNoStray(t)
}

// A paused proxy finds, when it resumes, that its renewal is late. It leaves the lock to the
// proxy that took over.
func TestPausedProxyLeavesSessionToOther(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host, next := lab.Dial(t, p.Addr), lab.Dial(t, p.Second.Addr)
	token := host.LockSession("job", "6s")
	p.Proxy.Pause(t)
	next.WantDo(":1\r\n", "EXTEND", "job", token, "6s", "SESSION")
	lab.Pass(t, 7*time.Second)
	p.Proxy.Resume()
	lab.Pass(t, time.Second)
	p.Near.WantDo(lab.Null2, "LOCK", "job", "60s")
	next.Unlock("job", token)
	host.WantDo("+PONG\r\n", "PING")
	p.WantNoStray(t)
}
