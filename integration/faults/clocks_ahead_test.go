package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These masters have clocks of their own (lab.Clock), which are far off or run too fast.

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// TestFencesRiseAfterClocksAreSetRight: clocks are ahead when a deployment begins. They are set
// right, and all masters start empty, while one proxy runs throughout. Its fences go on rising.
func TestFencesRiseAfterClocksAreSetRight(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		lead []time.Duration
	}{
		{"one by five days", []time.Duration{5 * day, 0, 0}},
		{"all by 20 hours", []time.Duration{20 * time.Hour, 20 * time.Hour, 20 * time.Hour}},
		{"one by 20 hours", []time.Duration{20 * time.Hour, 0, 0}},
	}[:lab.Long(2, 3)] {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			host, last := clocksSetRight(t, row.lead)
			wantFencesAbove(t, host, last)
		})
	}
}

// TestMastersRefuseRatherThanLowerFences: as TestFencesRiseAfterClocksAreSetRight, with all clocks
// ahead by five days. The counters then exceed their limit, so the masters refuse and give the
// reason. They never grant with a lower fence.
func TestMastersRefuseRatherThanLowerFences(t *testing.T) {
	t.Parallel()
	host, last := clocksSetRight(t, []time.Duration{5 * day, 5 * day, 5 * day})
	for key, token := range last {
		lab.WaitFor(t, "LOCK refused because of the counters", lab.Patience, func() bool {
			reply := host.Do("LOCK", key, "1s")
			if next := lab.TokenOf(reply); next != "" && next <= token {
				t.Fatalf("%s: got token %s, want one above %s", key, next, token)
			}
			return strings.HasPrefix(reply, "-NOQUORUM ") &&
				strings.Contains(reply, "a fencing counter is more than a day ahead of the clock")
		})
	}
}

// clocksSetRight starts masters whose clocks are ahead, and locks some keys. Then it sets the
// clocks right and restarts all masters empty. It returns the earlier tokens once all masters vote
// again.
func clocksSetRight(t *testing.T, lead []time.Duration) (host *lab.Client, last map[string]string) {
	t.Helper()
	l := lab.StartGuarded(t, time.Second, lab.Config{Clocks: true, Proxies: -1})
	for i, s := range l.Masters {
		s.Clock.Step(lead[i])
	}
	l.StartProxy(t)
	host = lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	last = map[string]string{}
	for i := range 20 {
		key := fmt.Sprint("job-", i)
		last[key] = lab.LockSoon(t, host, key)
		lab.UnlockSurely(t, host, key, last[key])
	}
	start := time.Now()
	for _, s := range l.Masters {
		s.Kill()
		s.Clock.Reset()
	}
	for _, s := range l.Masters {
		s.RestartEmpty(t)
	}
	admittedAnew(t, l, host, start, 3)
	return host, last
}

// wantFencesAbove locks every key of last, and fails if a token is not above the one in last.
func wantFencesAbove(t *testing.T, c *lab.Client, last map[string]string) {
	t.Helper()
	for key, token := range last {
		next := lab.LockSoon(t, c, key)
		if next <= token {
			t.Fatalf("%s: got token %s, want one above %s; the fence is %v less", key, next, token,
				time.Duration((fenceOf(t, token)-fenceOf(t, next))>>11)*time.Millisecond)
		}
		lab.UnlockSurely(t, c, key, next)
	}
}

// TestFencesRiseBesideClockOfAnotherCentury: the clock of one master is off by decades when a
// deployment begins. Tokens keep their form, UNLOCK accepts them, and fences rise. This holds
// after the other masters have started empty, and after all masters have.
func TestFencesRiseBesideClockOfAnotherCentury(t *testing.T) {
	t.Parallel()
	// By a clock that is 90 or 200 years ahead, fences exceed 2^53, and by the latter also 16
	// digits.
	for _, lead := range []time.Duration{200 * year, -30 * year, 90 * year}[:lab.Long(2, 3)] {
		t.Run(fmt.Sprint(int(lead/year), " years"), func(t *testing.T) {
			t.Parallel()
			const maxTTL = time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{Clocks: true, Proxies: -1})
			l.Masters[0].Clock.Step(lead)
			l.StartProxy(t)
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			last := holdersInTurn(t, host, "at first", "")
			start := time.Now()
			for _, s := range l.Masters[1:] {
				s.RestartEmpty(t)
			}
			waitOut(t, host, start, 2)
			lab.WaitAllVote(t, l, host)
			last = holdersInTurn(t, host, "after the other masters started empty", last)
			for _, s := range l.Masters {
				s.RestartEmpty(t)
			}
			l.Proxies[0].Restart(t)
			host = lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			holdersInTurn(t, host, "after all masters started empty", last)
		})
	}
}

// holdersInTurn locks and unlocks a key a few times. It returns the last token.
func holdersInTurn(t testing.TB, c *lab.Client, when, last string) string {
	t.Helper()
	for range 5 {
		reply := ""
		if !lab.Poll(lab.Patience, func() bool {
			reply = c.Do("LOCK", "job", "1s")
			return reply != lab.Null2 && !refusedNow(reply, true)
		}) {
			t.Fatalf("%s: LOCK: got %q, want a token", when, reply)
		}
		token := lab.TokenOf(reply)
		if token == "" {
			_, text, _ := strings.Cut(reply, "\r\n")
			unlocked := c.Do("UNLOCK", "job", strings.TrimSpace(text))
			t.Fatalf("%s: LOCK: got %q, want a token; UNLOCK of it: %q", when, reply, unlocked)
		}
		if token[:16] <= last[:min(len(last), 16)] {
			t.Fatalf("%s: got token %s, want a fence above that of %s", when, token, last)
		}
		lab.UnlockSurely(t, c, "job", token)
		last = token
	}
	return last
}

// TestClockEightPercentFastIsNoticed: a clock that gains 8 % loses its vote, although in no second
// does it gain more than the tolerance for steps. A clock that gains 0.6 % keeps its vote.
func TestClockEightPercentFastIsNoticed(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 2*time.Second, lab.Config{Clocks: true})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	l.Masters[0].Clock.Rate(1.006)
	l.Masters[1].Clock.Rate(1.08)
	reason := ""
	if !lab.Poll(time.Minute, func() bool {
		if steady := lab.ReasonOf(host, 0); steady != "" {
			t.Fatalf("clock that gains 0.6 %%: got reason %q, want none", steady)
		}
		reason = lab.ReasonOf(host, 1)
		return strings.Contains(reason, "clock")
	}) {
		t.Fatalf("clock that gains 8 %%: got reason %q, want the clock in it", reason)
	}
}
