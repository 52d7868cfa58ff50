package sessions

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Session locks whose renewal fails are lost at the end of validity, by the proxy's own clock.

// lostPush returns the push to a RESP3 client.
func lostPush(key, token string) string {
	return ">4\r\n" + lab.Bulk("lock") + lab.Bulk("lost") + lab.Bulk(key) + lab.Bulk(token)
}

// If renewals cannot reach a majority, the holder gets a push by the end of validity, even if the
// masters are merely silent. Consul noticed minutes later (B26: Consul#18271, etcd#10811).
func TestSessionLossIsPushedInTime(t *testing.T) {
	t.Parallel()
	for name, renewed := range map[string]bool{"before the first renewal": false, "after renewals": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, relays := lab.StartTwoRelayed(t)
			lag := lab.Lag(t)
			host, old := lab.Dial3(t, p.Addr), lab.Dial(t, p.Addr)
			token, validity := host.LockFull("job", "6s", "SESSION")
			end := time.Now().Add(validity)
			oldToken := old.LockSession("old", "6s")
			if renewed {
				lab.Pass(t, 2700*time.Millisecond) // the next is due after 4s
			}
			// The validity is at most the ttl left on the majority-th master.
			if left := p.Left(t, "job"); renewed {
				end = time.Now().Add(left[2])
			}
			for _, r := range relays[:3] {
				r.Freeze()
			}
			both := time.Now().Add(6 * time.Second) // are lost by then
			wantPushInTime(t, host, lostPush("job", token), end, lag)
			lab.Pass(t, time.Until(both))
			for _, r := range relays {
				r.Thaw()
			}
			lab.WaitFor(t, "a majority is back", lab.Patience, func() bool { return p.Far.Do("LOCKINFO", "job") == lab.Null2 })
			for _, c := range []*lab.Client{host, p.Far} {
				lab.WaitFor(t, "EXTEND of a lost lock answers 0", lab.Patience, func() bool {
					return c.Do("EXTEND", "job", token, "2s") == ":0\r\n"
				})
				c.WantDo(":0\r\n", "UNLOCK", "job", token)
			}
			old.WantDo(":0\r\n", "UNLOCK", "old", oldToken) // RESP2: no push before the reply
			host.WantDo("+PONG\r\n", "PING")
			p.WantNoStray(t)
		})
	}
}

// wantPushInTime: the next push comes before the end of validity, but not so long before it that
// the renewal cannot have been retried. On a machine that wakes this process late, the proxy and
// the push are late, too.
func wantPushInTime(t *testing.T, host *lab.Client, want string, end time.Time, lag func() time.Duration) {
	t.Helper()
	host.Timeout = 10 * time.Second
	push := host.Frame()
	late := time.Since(end)
	t.Logf("push %v before the end of validity, on a machine that was %v late", -late, lag())
	if push != want {
		t.Errorf("got %q, want the push that the lock is lost, %q", push, want)
	}
	if late > 10*lag() {
		t.Errorf("got the push %v after the end of validity, want it before (the machine was %v late)", late, lag())
	}
	if late < -1500*time.Millisecond {
		t.Errorf("got the push %v before the end of validity, so the renewal was not retried", -late)
	}
}

// One failed renewal does not stop the next ones, and UNLOCK does. In Redisson renewal stopped
// for ever after one failure, or never (B18: #775, #2515, #3194, #3714).
func TestRenewalSurvivesOneFailure(t *testing.T) {
	t.Parallel()
	p, relays := lab.StartTwoRelayed(t)
	host := lab.Dial3(t, p.Addr)
	token := host.LockSession("job", "9s")
	lab.Pass(t, 2800*time.Millisecond)
	for _, r := range relays[:3] { // during the renewal at 3s
		r.Freeze()
	}
	lab.Pass(t, 600*time.Millisecond)
	for _, r := range relays[:3] {
		r.Thaw()
	}
	for start := time.Now(); time.Since(start) < 9*time.Second; {
		if reply := p.Far.Do("LOCK", "job", "60s"); lab.TokenOf(reply) != "" {
			t.Fatal("the lock was lost after one failed renewal")
		}
		lab.Pass(t, 50*time.Millisecond)
	}
	host.Unlock("job", token) // no push comes before the reply
	renewals := func() int { return lab.CommandCounts(t, p.Masters, "pexpire") }
	lab.Settle(t, p.Masters, p.Proxy, p.Second)
	before := renewals()
	if before == 0 {
		t.Error("got no PEXPIRE on the masters, so the test proves nothing")
	}
	lab.Pass(t, 4*time.Second)
	if after := renewals(); after != before {
		t.Errorf("got %d renewals after UNLOCK, want none", after-before)
	}
	host.WantDo("+PONG\r\n", "PING") // no push that the lock is lost comes before the reply
	p.WantNoStray(t)
}

// A session lock lives on while the masters confirm each renewal, but slowly.
func TestSlowMasters(t *testing.T) {
	t.Parallel()
	p, relays := lab.StartTwoRelayed(t)
	host := lab.Dial3(t, p.Addr)
	token := host.LockSession("job", "9s")
	for _, r := range relays {
		r.Slow(80 * time.Millisecond) // each way
	}
	lab.Pass(t, 10*time.Second)
	for _, r := range relays {
		r.Slow(0)
	}
	lab.Pass(t, 500*time.Millisecond)
	lab.WaitFor(t, "masters that answer", lab.Patience, func() bool {
		return !strings.HasPrefix(host.Do("LOCKINFO", "job"), "-")
	})
	host.Unlock("job", token)
	p.WantNoStray(t)
}

// Renewal ends after session-max-hold; the holder gets a push, and the key runs out.
func TestSessionMaxHoldEndsRenewal(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--session-max-hold", "5s")
	host := lab.Dial3(t, p.Addr)
	host.Timeout = lab.Patience
	start := time.Now()
	token := host.LockSession("job", "4s")
	granted := p.Far.Later("LOCK", "job", "60s", "WAIT", "0")
	if push := host.Frame(); push != lostPush("job", token) {
		t.Errorf("got %q, want the push that job is lost", push)
	}
	took := time.Since(start)
	if took < 5*time.Second {
		t.Errorf("got the push after %v, want at least 5s", took)
	}
	next, _ := lab.WantToken(t, "the next holder", granted)
	host.WantDo(":0\r\n", "UNLOCK", "job", token)
	p.Far.Unlock("job", next)
	p.WantNoStray(t)
}
