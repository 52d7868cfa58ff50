package sessions

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// An accepted RESET releases a session lock at once, even if another lock command follows in the
// pipeline, and locks taken after it belong to the connection again.
func TestResetReleasesSessionLockInPipeline(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	host.Send(lab.Encode("LOCK", "a", "60s", "SESSION") + lab.Encode("RESET") + lab.Encode("LOCK", "a", "60s",
		"SESSION") + lab.Encode("LOCK", "b", "60s", "SESSION", "WAIT", "0"))
	first := lab.TokenOf(host.Frame())
	host.Want("+RESET\r\n")
	second, third := lab.TokenOf(host.Frame()), lab.TokenOf(host.Frame())
	if first == "" || second == "" || third == "" {
		t.Fatalf("got tokens %q, %q, %q", first, second, third)
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

// UNLOCK of a session lock's token under another name answers 0 and has no effect: renewal goes
// on.
func TestUnlockUnderOtherNameHasNoEffect(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	token := host.LockSession("job", "4s")
	host.WantDo(":0\r\n", "UNLOCK", "other", token)
	lab.Pass(t, 6*time.Second)
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", token)
	p.WantNoStray(t)
}

// EXTEND promised the client 20s of its session lock. Renewals that fail for longer than its ttl
// have no effect: no push comes, and the lock is held.
func TestExtendOutlivesFailedRenewals(t *testing.T) {
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
	for _, c := range []*lab.Client{lab.Dial(t, p.Addr), p.Far} {
		lab.WaitFor(t, "a majority is back", lab.Patience, func() bool {
			return !strings.HasPrefix(c.Do("LOCKINFO", "job"), "-")
		})
	}
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", token) // no push comes before the reply
	p.WantNoStray(t)
}
