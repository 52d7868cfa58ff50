package sessions

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestResetInPipeline: RESET releases a session lock at once if it is accepted, also where another
// lock command of the same pipeline follows, and what is locked behind it belongs to the
// connection again.
func TestResetInPipeline(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	host.Send(lab.Encode("LOCK", "a", "60s", "SESSION") + lab.Encode("RESET") + lab.Encode("LOCK", "a", "60s", "SESSION") + lab.Encode("LOCK", "b", "60s", "SESSION", "WAIT", "0"))
	first := lab.TokenOf(host.Frame())
	host.Want("+RESET\r\n")
	second, third := lab.TokenOf(host.Frame()), lab.TokenOf(host.Frame())
	if first == "" || second == "" || third == "" {
		t.Fatalf("tokens %q, %q, %q", first, second, third)
	}
	p.Near.WantDo(":0\r\n", "UNLOCK", "a", first)
	for _, key := range []string{"a", "b"} {
		p.Far.WantDo(lab.Null2, "LOCK", key, "60s")
	}
	host.Reset()
	for _, key := range []string{"a", "b"} {
		p.Far.WantFree(key)
	}
	p.WantNoStray(t)
}

// TestUnlockOtherName: UNLOCK of a session lock's token under another name answers 0 and changes
// nothing: the lock is renewed on.
func TestUnlockOtherName(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	token := host.LockSession("job", "1s")
	host.WantDo(":0\r\n", "UNLOCK", "other", token)
	lab.Pass(t, 2*time.Second)
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", token)
	p.WantNoStray(t)
}

// TestExtendedSession: EXTEND told the client that it holds its session lock for 20s. That
// renewals fail for longer than its ttl changes nothing: no push, and the lock is there.
func TestExtendedSession(t *testing.T) {
	t.Parallel()
	p, relays := lab.StartTwoRelayed(t, "--master-timeout", "1s")
	host := lab.Dial3(t, p.Addr)
	token := host.LockSession("job", "2s")
	host.WantDo(":1\r\n", "EXTEND", "job", token, "30s")
	for _, r := range relays {
		r.Freeze()
	}
	lab.Pass(t, 4*time.Second)
	for _, r := range relays {
		r.Thaw()
	}
	lab.WaitFor(t, "a majority is back", lab.Patience, func() bool { return !strings.HasPrefix(p.Far.Do("LOCKINFO", "job"), "-") })
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", token) // and no push before the reply
	p.WantNoStray(t)
}
