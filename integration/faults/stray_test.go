package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A master that hung, or was cut off by the network, must keep no lock key once it is back.
// redsync leaves one in 40 of 40 pairs. All locks here have the longest ttl, so that expiry hides
// no key.

// lockAndUnlockBetween locks and unlocks n keys while a master is away. It unlocks every second
// key through another proxy.
func lockAndUnlockBetween(t testing.TB, name string, n int, first, second *lab.Client) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("%s-%d", name, i)
		token := lab.Grant(t, first, key)
		unlockHeld(t, []*lab.Client{first, second}[i%2], key, token)
	}
}

// unlockHeld unlocks a held lock. On a busy machine a majority may answer too late; the release
// then goes on, and the next UNLOCK may answer 0. It returns how often it repeated the UNLOCK.
func unlockHeld(t testing.TB, c *lab.Client, key, token string) (repeats int) {
	t.Helper()
	want := []string{":1\r\n"}
	reply := ""
	if !lab.Poll(lab.Patience, func() bool {
		reply = c.Do("UNLOCK", key, token)
		if refusedNow(reply, false) {
			want = []string{":1\r\n", ":0\r\n"}
			repeats++
			return false
		}
		return true
	}) || !slices.Contains(want, reply) {
		t.Fatalf("UNLOCK %s: got %q, want one of %q", key, reply, want)
	}
	return repeats
}

// TestPausedMasterKeepsNoKey pauses each of the masters in turn, for 30 pairs each. There are five
// if INTEGRATION_LONG is set.
func TestPausedMasterKeepsNoKey(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, lab.Long(3, 5))
	two := c.Another(t)
	first, second := lab.Dial(t, c.Addr), lab.Dial(t, two.Addr)
	for i, s := range c.Masters {
		s.Pause(t)
		lockAndUnlockBetween(t, fmt.Sprintf("round-%d", i), 30, first, second)
		s.Resume()
		lab.WantNoStray(t, c.Masters, c.Proxy, two)
	}
}

// TestTwoPausedMastersKeepNoKey pauses two masters for longer than a lane lives without an answer.
func TestTwoPausedMastersKeepNoKey(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	two := c.Another(t)
	first, second := lab.Dial(t, c.Addr), lab.Dial(t, two.Addr)
	for _, s := range c.Masters[1:3] {
		s.Pause(t)
	}
	for i, start := 0, time.Now(); time.Since(start) < 4*time.Second; i++ {
		lockAndUnlockBetween(t, fmt.Sprintf("round-%d", i), lab.Long(5, 10), first, second)
		lab.Pass(t, 200*time.Millisecond)
	}
	for _, s := range c.Masters[1:3] {
		s.Resume()
	}
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

// strayCluster starts n masters and two proxies that reach them through relays.
func strayCluster(t testing.TB, n int) (masters []*lab.Redis, relays []*lab.Relay, one, two *lab.Proxy) {
	t.Helper()
	servers := lab.StartMasters(t, n+1)
	masters = servers[1:]
	relays, list := lab.StartRelays(t, masters)
	flags := []string{"--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off"}
	one, two = lab.StartProxy(t, flags...), lab.StartProxy(t, flags...)
	one.WaitVoting(t)
	two.WaitVoting(t)
	return masters, relays, one, two
}

// TestMasterBehindCutLinkKeepsNoKey freezes the links to each master in turn and then cuts them,
// so that the requests inside are lost.
func TestMasterBehindCutLinkKeepsNoKey(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t, lab.Long(3, 5))
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

// TestMasterWhoseAnswersAreLostKeepsNoKey loses the answers only: the master has executed the SET,
// and the proxy never learns of it.
func TestMasterWhoseAnswersAreLostKeepsNoKey(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t, lab.Long(3, 5))
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	for i, r := range relays {
		r.FreezeAnswers()
		lockAndUnlockBetween(t, fmt.Sprintf("unanswered-%d", i), 20, first, second)
		r.CutAll()
		r.Thaw()
		lab.WantNoStray(t, masters, one, two)
	}
}

// TestRequestsOfDeadLaneAreNotExecuted: the network delivers the requests of a dead lane after the
// next lane has sent the releases. Only the end of the old connection on the master (CLIENT KILL
// ID) keeps the master from executing them. The relay holds 40 SETs of each proxy.
func TestRequestsOfDeadLaneAreNotExecuted(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t, lab.Long(3, 5))
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	r := relays[2]
	before := r.Connections()
	r.Freeze()
	tokens := map[string]string{}
	for i := range 40 {
		key := fmt.Sprintf("late-%d", i)
		tokens[key], tokens["too-"+key] = lab.Grant(t, first, key), lab.Grant(t, second, "too-"+key)
	}
	r.ThawNew()
	lab.WaitFor(t, "a new lane of each proxy", 3*lab.Patience, func() bool { return r.Connections() >= before+2 })
	lab.Settle(t, masters, one, two)
	for key, token := range tokens {
		unlockHeld(t, first, key, token)
	}
	lab.WantNoStray(t, masters, one, two)
	r.Thaw()
	if lab.Poll(300*time.Millisecond, func() bool { return len(lab.Census(t, masters[2:3])) > 0 }) {
		t.Errorf("keys of requests of a dead lane: got %v, want none", lab.Census(t, masters))
	}
}
