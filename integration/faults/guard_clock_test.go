package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters whose clock is not what it was, that would throw locks away, or that are not what the
// list says.

// TestGuardClockStep: a step of a master's clock, forwards or back, is noticed at the next vote or
// within a second, and the master waits. Where two of three are stepped forwards their keys are
// gone; nobody gets the lock before its ttl is over.
func TestGuardClockStep(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Minute, -time.Hour, 400 * time.Millisecond} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			t.Parallel()
			const maxTTL = 2 * time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{Clocks: true})
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			l.Masters[2].Clock.Step(step)
			start := time.Now()
			lab.WaitReason(t, host, 2, "stepped its clock ")
			lab.UnlockSurely(t, host, "job", lab.LockSoon(t, host, "job")) // the others do without it
			lab.WaitAllVote(t, l, host)
			if out := time.Since(start); out < maxTTL {
				t.Errorf("it voted again %v after the step", out)
			}

			token := lab.LockSoon(t, host, "job", "2s")
			lab.WantHolders(t, l.Masters, "job", 3)
			start = time.Now()
			for _, s := range l.Masters[:2] {
				s.Clock.Step(step)
			}
			wantRefused(t, host, "other", start, maxTTL)
			if step < 0 { // its keys live on for an hour, unless somebody releases them
				lab.WaitAllVote(t, l, host)
				lab.UnlockSurely(t, host, "job", token)
			}
			if next := wantRefused(t, host, "job", start, maxTTL); next <= token {
				t.Errorf("token %s after %s", next, token)
			}
		})
	}
}

// TestGuardClockRate: a master whose clock runs faster than the allowance for drift is noticed;
// one within it is not.
func TestGuardClockRate(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 2*time.Second, lab.Config{Clocks: true})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	l.Masters[0].Clock.Rate(1.006)
	l.Masters[1].Clock.Rate(1.2)
	start := time.Now()
	lab.WaitReason(t, host, 1, "stepped its clock ")
	t.Logf("20 %% were noticed after %v", time.Since(start))
	l.Masters[1].Clock.Rate(1)
	lab.WaitAllVote(t, l, host)
	if os.Getenv("INTEGRATION_LONG") != "" {
		l.Masters[1].Clock.Rate(1.02)
		start = time.Now()
		lab.WaitFor(t, "2 % noticed", 30*time.Second, func() bool { return strings.Contains(lab.ReasonOf(host, 1), "stepped its clock ") })
		t.Logf("2 %% were noticed after %v", time.Since(start))
	}
	for start = time.Now(); time.Since(start) < 2*time.Second; {
		if reason := lab.ReasonOf(host, 0); reason != "" {
			t.Fatalf("at 0.6 %%: %q", reason)
		}
		lab.Pass(t, 20*time.Millisecond)
	}
}

// TestGuardEviction: a master that may throw keys away to save memory does not vote, unless that
// is allowed; then it loses its vote when it has done so.
func TestGuardEviction(t *testing.T) {
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
	if reply := host.Do("LOCK", "job", "1s"); !strings.HasPrefix(reply, "-NOQUORUM 1 of 3 ") || strings.Count(reply, says) != 2 {
		t.Errorf("LOCK: %q, want %q", reply, says)
	}
	l.Masters[0].Must(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	lab.WaitStates(t, host, lab.Patience, "voting", "refused", "voting")

	lenient := lab.Dial(t, l.StartProxy(t, "--allow-eviction", "true").Addr)
	lab.WaitAllVote(t, l, lenient)
	s := l.Masters[1]
	s.Must(t, "CONFIG", "SET", "maxmemory", fmt.Sprint(lab.Number(t, s.Info(t, "memory", "used_memory"))+1<<20))
	for i := 0; s.Info(t, "stats", "evicted_keys") == "0"; i++ {
		s.Must(t, "SET", fmt.Sprint("filler-", i), strings.Repeat("x", 100<<10), "EX", "100")
	}
	lab.WaitReason(t, lenient, 1, "evicted keys ")
	start := time.Now()
	lab.WaitAllVote(t, l, lenient)
	if out := time.Since(start); out < maxTTL*3/4 {
		t.Errorf("it voted again after %v", out)
	}
}

// TestGuardSameServer: a server that is named twice has one vote.
func TestGuardSameServer(t *testing.T) {
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
			t.Errorf("reason %q", reason)
		}
	}
	if votes != 2 {
		t.Errorf("%d votes of two servers: %q", votes, host.Do("LOCKPROXY", "MASTERS"))
	}
	servers[1].Kill()
	lab.WaitFor(t, "NOQUORUM", lab.Patience, func() bool { return strings.HasPrefix(host.Do("LOCK", "other", "1s"), "-NOQUORUM 1 of 3 ") })
}
