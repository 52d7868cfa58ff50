package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters whose clocks are far off, or run too fast. Their clocks are those of lab.Clock.

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// TestFencesOutliveClocks: clocks are ahead when a deployment begins. They are set right, and all
// masters start empty, while one proxy runs throughout: the fences it issues go on rising (L3).
func TestFencesOutliveClocks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		lead []time.Duration
	}{
		{"one by five days", []time.Duration{5 * day, 0, 0}},
		{"one by 20 hours", []time.Duration{20 * time.Hour, 0, 0}},
		{"all by 20 hours", []time.Duration{20 * time.Hour, 20 * time.Hour, 20 * time.Hour}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			host, last := clocksSetRight(t, row.lead)
			wantFencesAbove(t, host, last)
		})
	}
}

// TestFencesOfClocksDaysAhead: as TestFencesOutliveClocks, with all clocks ahead by five days.
// After the clocks are set right the counters exceed their limit, so the masters refuse and give
// the reason. They never grant with a lower fence.
func TestFencesOfClocksDaysAhead(t *testing.T) {
	t.Parallel()
	host, last := clocksSetRight(t, []time.Duration{5 * day, 5 * day, 5 * day})
	for key, token := range last {
		lab.WaitFor(t, "LOCK that tells of the counters", lab.Patience, func() bool {
			reply := host.Do("LOCK", key, "1s")
			if next := lab.TokenOf(reply); next != "" && next <= token {
				t.Fatalf("%s has token %s after %s", key, next, token)
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
	for _, s := range l.Masters {
		s.Kill()
		s.Clock.Reset()
	}
	for _, s := range l.Masters {
		s.RestartEmpty(t)
	}
	admittedAnew(t, l, host, 3)
	return host, last
}

// wantFencesAbove locks every key of last, and fails where its token there is not less.
func wantFencesAbove(t *testing.T, c *lab.Client, last map[string]string) {
	t.Helper()
	for key, token := range last {
		next := lab.LockSoon(t, c, key)
		if next <= token {
			t.Fatalf("%s has token %s after %s: the fence is %v less", key, next, token,
				time.Duration((fenceOf(t, token)-fenceOf(t, next))>>11)*time.Millisecond)
		}
		lab.UnlockSurely(t, c, key, next)
	}
}

// TestClockOfAnotherCentury: the clock of one master is ahead by decades when a deployment begins.
// Tokens have their form, UNLOCK takes them, and every holder has a fence of its own, also when
// the other masters start empty, and when everything does (L4).
func TestClockOfAnotherCentury(t *testing.T) {
	t.Parallel()
	for _, lead := range []time.Duration{90 * year, 200 * year, -30 * year} {
		t.Run(fmt.Sprint(int(lead/year), " years"), func(t *testing.T) {
			t.Parallel()
			const maxTTL = time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{Clocks: true, Proxies: -1})
			l.Masters[0].Clock.Step(lead)
			l.StartProxy(t)
			host := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			last := holdersInTurn(t, host, "at first", "")
			for _, s := range l.Masters[1:] {
				s.RestartEmpty(t)
			}
			lab.WaitFor(t, "two masters in quarantine", lab.Patience, func() bool {
				return strings.Count(host.Do("LOCKPROXY", "MASTERS"), "quarantined") == 2
			})
			lab.WaitAllVote(t, l, host)
			last = holdersInTurn(t, host, "the others are empty", last)
			for _, s := range l.Masters {
				s.RestartEmpty(t)
			}
			l.Proxies[0].Restart(t)
			host = lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, host)
			holdersInTurn(t, host, "everything is empty", last)
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
			return reply != lab.Null2 && !strings.HasPrefix(reply, "-NOQUORUM")
		}) {
			t.Fatalf("%s: LOCK: %q", when, reply)
		}
		token := lab.TokenOf(reply)
		if token == "" {
			_, text, _ := strings.Cut(reply, "\r\n")
			t.Fatalf("%s: LOCK: %q is no token, UNLOCK of it: %q", when, reply, c.Do("UNLOCK", "job", strings.TrimSpace(text)))
		}
		if token[:16] <= last[:min(len(last), 16)] {
			t.Fatalf("%s: token %s after %s", when, token, last)
		}
		c.Unlock("job", token)
		last = token
	}
	return last
}

// TestClockEightPercentFast: a rate of 8 % is too much though no second of it is over the
// tolerance for steps. A rate of 0.6 % is not (L10).
func TestClockEightPercentFast(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, 2*time.Second, lab.Config{Clocks: true})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	l.Masters[0].Clock.Rate(1.006)
	l.Masters[1].Clock.Rate(1.08)
	start := time.Now()
	for {
		reason := lab.ReasonOf(host, 1)
		if strings.Contains(reason, "clock") {
			t.Logf("8 %% were noticed after %v: %s", time.Since(start), reason)
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("8 %% were not noticed in %v: %q", time.Since(start), reason)
		}
		if steady := lab.ReasonOf(host, 0); steady != "" {
			t.Fatalf("0.6 %%: %q", steady)
		}
		lab.Pass(t, 20*time.Millisecond)
	}
}
