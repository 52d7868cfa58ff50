package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These masters have clocks that step or run fast, may evict locks, or are named twice in the
// list.

// TestSteppedClockCostsTheVote: a master whose clock steps forwards or back waits for max-ttl. If
// the clocks of two of three masters step forwards, their keys are gone; no client gets the lock
// before its ttl ends.
func TestSteppedClockCostsTheVote(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Clocks: true})
	steps := []time.Duration{time.Minute, -time.Hour, 400 * time.Millisecond}
	for _, step := range steps[:lab.Long(2, 3)] { // TestFastClockCostsTheVote gains even less at a time
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			start := time.Now()
			l.Masters[2].Clock.Step(step)
			lab.WaitReason(t, host, 2, "stepped its clock ")
			lab.UnlockSurely(t, host, "job", lab.LockSoon(t, host, "job")) // the others are enough
			lab.WaitAllVote(t, l, host)
			if out := time.Since(start); out < maxTTL {
				t.Errorf("vote after a step: got it after %v, want it after %v at least", out, maxTTL)
			}

			token := lab.LockSoon(t, host, "job", "2s")
			lab.WantHolders(t, l.Masters, "job", 3)
			start = time.Now()
			for _, s := range l.Masters[:2] {
				s.Clock.Step(step)
			}
			wantRefused(t, host, "other", start, maxTTL)
			if step < 0 { // the keys live on for an hour unless a client releases them
				lab.WaitAllVote(t, l, host)
				lab.UnlockSurely(t, host, "job", token)
			}
			if next := wantRefused(t, host, "job", start, maxTTL); next <= token {
				t.Errorf("got token %s, want one above %s", next, token)
			}
		})
	}
}

// TestFastClockCostsTheVote: a master loses its vote if its clock gains more than the allowance
// for drift, and keeps it otherwise.
func TestFastClockCostsTheVote(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 2*time.Second, lab.Config{Clocks: true})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	l.Masters[0].Clock.Rate(1.006)
	l.Masters[1].Clock.Rate(1.2)
	lab.WaitReason(t, host, 1, "stepped its clock ")
	l.Masters[1].Clock.Rate(1)
	lab.WaitAllVote(t, l, host)
	if os.Getenv("INTEGRATION_LONG") != "" {
		l.Masters[1].Clock.Rate(1.02)
		lab.WaitFor(t, "notice of a clock that gains 2 %", 2*lab.Patience, func() bool {
			return strings.Contains(lab.ReasonOf(host, 1), "stepped its clock ")
		})
	}
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		if reason := lab.ReasonOf(host, 0); reason != "" {
			t.Fatalf("clock that gains 0.6 %%: got reason %q, want none", reason)
		}
		lab.Pass(t, 20*time.Millisecond)
	}
}

// TestEvictionCostsTheVote: a master that may evict keys to save memory does not vote, unless
// allow-eviction is set. Then it loses its vote once it has evicted a key.
func TestEvictionCostsTheVote(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	for _, s := range l.Masters[:2] {
		s.Must(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru")
	}
	lab.WaitStates(t, host, lab.Patience, "refused", "refused", "voting")
	const says = " may evict locks (maxmemory-policy volatile-lru, not noeviction)"
	reply := ""
	if !lab.Poll(lab.Patience, func() bool {
		reply = host.Do("LOCK", "job", "1s") // 0 of 3 if the third takes longer than an attempt of 250 ms
		return strings.HasPrefix(reply, "-NOQUORUM 1 of 3 ") && strings.Count(reply, says) == 2
	}) {
		t.Errorf("LOCK: got %q, want %q twice", reply, says)
	}
	l.Masters[0].Must(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	lab.WaitStates(t, host, lab.Patience, "voting", "refused", "voting")

	lenient := lab.Dial(t, l.StartProxy(t, "--allow-eviction", "true").Addr)
	lab.WaitAllVote(t, l, lenient)
	s := l.Masters[1]
	s.Must(t, "CONFIG", "SET", "maxmemory", fmt.Sprint(lab.Number(t, s.Info(t, "memory", "used_memory"))+1<<20))
	var start time.Time // of the SET that evicts
	for i := 0; s.Info(t, "stats", "evicted_keys") == "0"; i++ {
		start = time.Now()
		s.Must(t, "SET", fmt.Sprint("filler-", i), strings.Repeat("x", 100<<10), "EX", "100")
	}
	lab.WaitReason(t, lenient, 1, "evicted keys ")
	lab.WaitAllVote(t, l, lenient)
	if out := time.Since(start); out < maxTTL {
		t.Errorf("vote after an eviction: got it after %v, want it after %v at least", out, maxTTL)
	}
}

// TestServerNamedTwiceHasOneVote: two names in the list lead to one server, which votes once.
func TestServerNamedTwiceHasOneVote(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 3)
	_, port, _ := strings.Cut(servers[0].Addr, ":")
	twice := []string{"a@" + servers[0].Addr, "b@localhost:" + port, "c@" + servers[1].Addr}
	p := lab.StartProxy(t, "--upstream", servers[2].Addr, "--masters", strings.Join(twice, ","), "--max-ttl", "1s")
	host := lab.Dial(t, p.Addr)
	lab.LockSoon(t, host, "job")
	votes := 0
	for i := range twice {
		if reason := lab.ReasonOf(host, i); reason == "" {
			votes++
		} else if !strings.Contains(reason, "same server") {
			t.Errorf("got reason %q, want the same server in it", reason)
		}
	}
	if votes != 2 {
		t.Errorf("votes of two servers: got %d, want 2: %q", votes, host.Do("LOCKPROXY", "MASTERS"))
	}
	servers[1].Kill()
	lab.WaitFor(t, "NOQUORUM", lab.Patience, func() bool {
		return strings.HasPrefix(host.Do("LOCK", "other", "1s"),
			"-NOQUORUM 1 of 3 ")
	})
}
