package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The census: a master hung by SIGSTOP, or cut off by the network, must keep no lock key once it
// is back. redsync leaves one in 40 of 40 pairs. All locks here have the longest ttl, so nothing
// is hidden by expiry.

// lockAndUnlockBetween locks and unlocks n keys of their own, each first, third, ... through one
// proxy and the others unlocked through a second one, while a master is away.
func lockAndUnlockBetween(t testing.TB, name string, n int, first, second *lab.Client) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("%s-%d", name, i)
		token := first.Lock(key, "60s")
		if i%2 == 0 {
			first.Unlock(key, token)
		} else {
			second.Unlock(key, token)
		}
	}
}

// TestStrayPaused pauses each of five masters in turn: 150 pairs.
func TestStrayPaused(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	two := c.Another(t)
	first, second := lab.Dial(t, c.Addr), lab.Dial(t, two.Addr)
	for i, s := range c.Masters {
		s.Pause(t)
		lockAndUnlockBetween(t, fmt.Sprintf("round-%d", i), 30, first, second)
		s.Resume()
		lab.WantNoStray(t, c.Masters, c.Proxy, two)
	}
}

// TestStrayPausedTwo pauses two masters at once for longer than a lane lives without an answer.
func TestStrayPausedTwo(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	two := c.Another(t)
	first, second := lab.Dial(t, c.Addr), lab.Dial(t, two.Addr)
	for _, s := range c.Masters[1:3] {
		s.Pause(t)
	}
	for i, start := 0, time.Now(); time.Since(start) < 4*time.Second; i++ {
		lockAndUnlockBetween(t, fmt.Sprintf("round-%d", i), 10, first, second)
		lab.Pass(t, 200*time.Millisecond)
	}
	for _, s := range c.Masters[1:3] {
		s.Resume()
	}
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

// strayCluster is five masters, each behind a relay, with two proxies.
func strayCluster(t testing.TB) (masters []*lab.Redis, relays []*lab.Relay, one, two *lab.Proxy) {
	t.Helper()
	servers := lab.StartMasters(t, 6)
	masters = servers[1:]
	relays, list := lab.StartRelays(t, masters)
	flags := []string{"--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off"}
	one, two = lab.StartProxy(t, flags...), lab.StartProxy(t, flags...)
	one.WaitVoting(t)
	two.WaitVoting(t)
	return masters, relays, one, two
}

// TestStrayCut freezes the connection to each master in turn and then cuts it: what was inside is
// lost.
func TestStrayCut(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	for i, r := range relays {
		lockAndUnlockBetween(t, fmt.Sprintf("flowing-%d", i), 10, first, second)
		r.Freeze()
		lockAndUnlockBetween(t, fmt.Sprintf("frozen-%d", i), 20, first, second)
		r.Refuse(true)
		r.CutAll()
		lockAndUnlockBetween(t, fmt.Sprintf("cut-%d", i), 20, first, second)
		r.Thaw()
		r.Refuse(false)
		lab.WantNoStray(t, masters, one, two)
	}
}

// TestStrayCutAnswers cuts the way back only: the master executed the SET, the proxy never learns
// of it.
func TestStrayCutAnswers(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	for i, r := range relays {
		r.FreezeAnswers()
		lockAndUnlockBetween(t, fmt.Sprintf("unanswered-%d", i), 20, first, second)
		r.CutAll()
		r.Thaw()
		lab.WantNoStray(t, masters, one, two)
	}
}

// TestStrayLate lets the network deliver what a dead lane had sent, after the next lane is up and
// has carried the release: the worst case, which only ending the old connection on the master
// (CLIENT KILL ID) can stop. The relay has 40 SETs of each proxy at that time.
func TestStrayLate(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	r := relays[2]
	before := r.Connections()
	r.Freeze()
	tokens := map[string]string{}
	for i := range 40 {
		key := fmt.Sprintf("late-%d", i)
		tokens[key], tokens["too-"+key] = first.Lock(key, "60s"), second.Lock("too-"+key, "60s")
	}
	r.ThawNew()
	lab.WaitFor(t, "both lanes given up and made anew", 3*lab.Patience, func() bool { return r.Connections() >= before+2 })
	lab.Settle(t, masters, one, two)
	for key, token := range tokens {
		first.Unlock(key, token)
	}
	lab.WantNoStray(t, masters, one, two)
	r.Thaw()
	if lab.Poll(300*time.Millisecond, func() bool { return len(lab.Census(t, masters[2:3])) > 0 }) {
		t.Errorf("what a dead lane had sent was executed after the next one was up: %v", lab.Census(t, masters))
	}
}
