package integration

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// Session locks whose renewal fails: lost at the end of validity, by the proxy's own clock.

// lostPush is what a RESP3 client is told.
func lostPush(key, token string) string {
	return ">4\r\n" + bulk("lock") + bulk("lost") + bulk(key) + bulk(token)
}

// lockFull sends LOCK ... FULL with more options, which must be granted.
func (c *client) lockFull(key, ttl string, options ...string) (token string, validity time.Duration) {
	c.t.Helper()
	reply := c.do(append([]string{"LOCK", key, ttl, "FULL"}, options...)...)
	parts := fields(reply)
	if !strings.HasPrefix(reply, "*3\r\n$57\r\n") || len(parts) != 3 {
		c.t.Fatalf("LOCK %s FULL: %q", key, reply)
	}
	ms, err := strconv.Atoi(parts[2])
	if err != nil {
		c.t.Fatal(err)
	}
	return parts[0], time.Duration(ms) * time.Millisecond
}

// TestSessionLost: when renewals cannot reach a majority the holder learns it by push no later than the end of validity,
// although the masters are only silent. Consul noticed minutes later (B26: Consul#18271, etcd#10811).
func TestSessionLost(t *testing.T) {
	t.Parallel()
	for name, renewed := range map[string]bool{"before the first renewal": false, "after renewals": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, relays := relayedPair(t)
			host, old := dial3(t, p.addr), dial(t, p.addr)
			token, validity := host.lockFull("job", "2s", "SESSION")
			end := time.Now().Add(validity)
			oldToken := old.lockSession("old", "2s")
			if renewed {
				pauseBetween(t, 900*time.Millisecond)
			}
			// What is left on the majority-th master is the most that validity can be, but for the way of the answers.
			if left := p.left(t, "job"); renewed {
				end = time.Now().Add(left[2])
			}
			for _, r := range relays[:3] {
				r.freeze()
			}
			host.timeout = 10 * time.Second
			push := host.frame()
			late := time.Since(end)
			t.Logf("told %v before the end of validity", -late)
			if push != lostPush("job", token) {
				t.Errorf("got %q, want that job is lost", push)
			}
			if late > 0 {
				t.Errorf("told %v after the end of validity", late)
			}
			if late < -1500*time.Millisecond {
				t.Errorf("told %v before the end of validity: it was not tried again", -late)
			}
			pauseBetween(t, 200*time.Millisecond) // until the other lock is lost, too
			for _, r := range relays {
				r.thaw()
			}
			waitFor(t, "a majority is back", patience, func() bool { return p.far.do("LOCKINFO", "job") == null2 })
			for _, c := range []*client{host, p.far} {
				waitFor(t, "EXTEND of a lost lock answers 0", patience, func() bool { return c.do("EXTEND", "job", token, "2s") == ":0\r\n" })
				c.wantDo(":0\r\n", "UNLOCK", "job", token)
			}
			old.wantDo(":0\r\n", "UNLOCK", "old", oldToken) // RESP2: no push before the reply
			host.wantDo("+PONG\r\n", "PING")
			p.wantNoStray(t)
		})
	}
}

// TestRenewalGoesOn: renewal stopped for ever after one failure, or never, in Redisson (B18: #775, #2515, #3194, #3714).
func TestRenewalGoesOn(t *testing.T) {
	t.Parallel()
	p, relays := relayedPair(t)
	host := dial3(t, p.addr)
	token := host.lockSession("job", "3s")
	pauseBetween(t, 800*time.Millisecond)
	for _, r := range relays[:3] { // over the renewal at 1s
		r.freeze()
	}
	pauseBetween(t, 600*time.Millisecond)
	for _, r := range relays[:3] {
		r.thaw()
	}
	for start := time.Now(); time.Since(start) < 3*time.Second; {
		if reply := p.far.do("LOCK", "job", "60s"); tokenOf(reply) != "" {
			t.Fatal("the lock was lost after one renewal had failed")
		}
		pauseBetween(t, 50*time.Millisecond)
	}
	host.unlock("job", token) // and no push came before
	renewals := func() int { return commandCounts(t, p.masters, "pexpire") }
	settle(t, p.masters, p.proxy, p.two)
	before := renewals()
	if before == 0 {
		t.Error("no PEXPIRE seen at all: this test asks nothing")
	}
	pauseBetween(t, 1500*time.Millisecond)
	if after := renewals(); after != before {
		t.Errorf("%d renewals after UNLOCK", after-before)
	}
	host.wantDo("+PONG\r\n", "PING") // and no push that the lock is lost
	p.wantNoStray(t)
}

// TestSessionMaxHold: renewal ends after session-max-hold; the holder is told, and the key runs out.
func TestSessionMaxHold(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--session-max-hold", "2s")
	host := dial3(t, p.addr)
	start := time.Now()
	token := host.lockSession("job", "1s")
	granted := p.far.later("LOCK", "job", "60s", "WAIT", "0")
	if push := host.frame(); push != lostPush("job", token) {
		t.Errorf("got %q, want that job is lost", push)
	}
	told := time.Since(start)
	if told < 2*time.Second || told > 3*time.Second+200*time.Millisecond*slack {
		t.Errorf("told after %v, want up to a ttl of 1s after 2s", told)
	}
	next, at := wantToken(t, "the next holder", granted)
	if free := at.Sub(start); free < told-10*time.Millisecond || free > 3*time.Second+300*time.Millisecond*slack {
		t.Errorf("free after %v, told after %v", free, told)
	}
	host.wantDo(":0\r\n", "UNLOCK", "job", token)
	p.far.unlock("job", next)
	p.wantNoStray(t)
}
