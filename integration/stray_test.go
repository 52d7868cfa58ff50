package integration

import (
	"fmt"
	"testing"
	"time"
)

// The census: a master hung by SIGSTOP, or cut off by the network, must keep no lock key once it is back.
// redsync leaves one in 40 of 40 pairs. All locks here have the longest ttl, so nothing is hidden by expiry.

// pairs locks and unlocks n keys of their own, each first, third, ... through one proxy and the others unlocked
// through a second one, while a master is away.
func pairs(t testing.TB, name string, n int, first, second *client) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("%s-%d", name, i)
		token := first.lock(key, "60s")
		if i%2 == 0 {
			first.unlock(key, token)
		} else {
			second.unlock(key, token)
		}
	}
}

// TestStrayPaused pauses each of five masters in turn: 150 pairs.
func TestStrayPaused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	two := c.another(t)
	first, second := dial(t, c.addr), dial(t, two.addr)
	for i, s := range c.masters {
		s.pause(t)
		pairs(t, fmt.Sprintf("round-%d", i), 30, first, second)
		s.resume()
		wantNoStray(t, c.masters, c.proxy, two)
	}
}

// TestStrayPausedTwo pauses two masters at once for longer than a lane lives without an answer.
func TestStrayPausedTwo(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	two := c.another(t)
	first, second := dial(t, c.addr), dial(t, two.addr)
	for _, s := range c.masters[1:3] {
		s.pause(t)
	}
	for i, start := 0, time.Now(); time.Since(start) < 4*time.Second; i++ {
		pairs(t, fmt.Sprintf("round-%d", i), 10, first, second)
		pauseBetween(t, 200*time.Millisecond)
	}
	for _, s := range c.masters[1:3] {
		s.resume()
	}
	wantNoStray(t, c.masters, c.proxy, two)
}

// pauseBetween lets time pass that a test needs to pass: for a fault to last, not for something to happen.
func pauseBetween(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// strayCluster is five masters, each behind a relay, with two proxies.
func strayCluster(t testing.TB) (masters []*redisServer, relays []*relay, one, two *proxy) {
	t.Helper()
	servers := startMasters(t, 6)
	masters = servers[1:]
	relays, list := startRelays(t, masters)
	flags := []string{"--upstream", servers[0].addr, "--masters", list, "--restart-guard", "off"}
	one, two = startProxy(t, flags...), startProxy(t, flags...)
	one.waitVoting(t)
	two.waitVoting(t)
	return masters, relays, one, two
}

// TestStrayCut freezes the connection to each master in turn and then cuts it: what was inside is lost.
func TestStrayCut(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := dial(t, one.addr), dial(t, two.addr)
	for i, r := range relays {
		pairs(t, fmt.Sprintf("flowing-%d", i), 10, first, second)
		r.freeze()
		pairs(t, fmt.Sprintf("frozen-%d", i), 20, first, second)
		r.refuse(true)
		r.cutAll()
		pairs(t, fmt.Sprintf("cut-%d", i), 20, first, second)
		r.thaw()
		r.refuse(false)
		wantNoStray(t, masters, one, two)
	}
}

// TestStrayCutAnswers cuts the way back only: the master executed the SET, the proxy never learns of it.
func TestStrayCutAnswers(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := dial(t, one.addr), dial(t, two.addr)
	for i, r := range relays {
		r.freezeAnswers()
		pairs(t, fmt.Sprintf("unanswered-%d", i), 20, first, second)
		r.cutAll()
		r.thaw()
		wantNoStray(t, masters, one, two)
	}
}

// TestStrayLate lets the network deliver what a dead lane had sent, after the next lane is up and has carried the
// release: the worst case, which only ending the old connection on the master (CLIENT KILL ID) can
// stop. The relay has 40 SETs of each proxy at that time.
func TestStrayLate(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := dial(t, one.addr), dial(t, two.addr)
	r := relays[2]
	before := r.connections()
	r.freeze()
	tokens := map[string]string{}
	for i := range 40 {
		key := fmt.Sprintf("late-%d", i)
		tokens[key], tokens["too-"+key] = first.lock(key, "60s"), second.lock("too-"+key, "60s")
	}
	r.thawNew()
	waitFor(t, "both lanes given up and made anew", 3*patience, func() bool { return r.connections() >= before+2 })
	settle(t, masters, one, two)
	for key, token := range tokens {
		first.unlock(key, token)
	}
	wantNoStray(t, masters, one, two)
	r.thaw()
	if poll(300*time.Millisecond, func() bool { return len(census(t, masters[2:3])) > 0 }) {
		t.Errorf("what a dead lane had sent was executed after the next one was up: %v", census(t, masters))
	}
}
