package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters lose the counters of fences, or a whole deployment is new.

// TestFencesRiseAfterWipes: the fences of many keys go on rising after two or all of three
// masters have been wiped, in each way, and after all masters and proxies have restarted empty.
// Each number of masters is combined with each way if INTEGRATION_LONG is set.
func TestFencesRiseAfterWipes(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.StartGuarded(t, maxTTL, lab.Config{Proxies: 2})
	hosts := []*lab.Client{lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)}
	lab.WaitAllVote(t, l, hosts[0])
	last := map[string]string{}
	lockAll := func(what string) {
		t.Helper()
		for i := range lab.Long(16, 40) {
			key, host := fmt.Sprint("job-", i), hosts[i%2]
			token := lab.LockSoon(t, host, key)
			if token <= last[key] {
				t.Fatalf("%s: %s: got token %s, want one above %s", what, key, token, last[key])
			}
			last[key] = token
			lab.UnlockSurely(t, host, key, token)
		}
	}
	lockAll("at first")
	for n, masters := range lab.Long([][]*lab.Redis{l.Masters[:2], l.Masters},
		[][]*lab.Redis{l.Masters[:2], l.Masters[1:], l.Masters}) {
		for i, w := range losses()[:3] { // after the fourth kind of loss these would lose no more
			if i%2 != n%2 && !lab.IsLong() {
				continue
			}
			what := fmt.Sprintf("%d masters: %s (round %d)", len(masters), w.name, n)
			start := w.wipe(t, masters)
			for _, host := range hosts {
				wantRefused(t, host, "watched", start, maxTTL)
			}
			lab.WaitAllVote(t, l, hosts[0])
			lab.WaitAllVote(t, l, hosts[1])
			lockAll(what)
		}
	}
	for _, p := range l.Proxies {
		p.Kill()
	}
	for _, s := range l.Masters {
		s.RestartEmpty(t)
	}
	for i, p := range l.Proxies {
		p.Restart(t)
		hosts[i] = lab.Dial(t, p.Addr)
	}
	lockAll("all masters and all proxies restarted")
}

// wipe lets masters lose their memory, all at once. It returns when that began.
func (w loss) wipe(t *testing.T, masters []*lab.Redis) (start time.Time) {
	t.Helper()
	var wiped []func()
	for _, s := range masters {
		wiped = append(wiped, w.prepare(t, s))
	}
	start = time.Now()
	for _, now := range wiped {
		now()
	}
	return start
}

// TestWipedMasterGetsCounters: a master that comes back empty gets the fencing counters of the
// others, so that fences rise after these have gone.
func TestWipedMasterGetsCounters(t *testing.T) {
	t.Parallel()
	l := lab.StartGuarded(t, time.Second, lab.Config{Masters: 5, Relays: true})
	host := lab.Dial(t, l.Proxies[0].Addr)
	lab.WaitAllVote(t, l, host)
	for m := range l.Masters[3:] { // the highest numbers do not reach these
		l.Link(0, 3+m).Isolate()
	}
	token := ""
	for range lab.Long(100, 300) {
		token = lab.LockSoon(t, host, "job")
		lab.UnlockSurely(t, host, "job", token)
	}
	l.Heal(t)
	lab.WaitAllVote(t, l, host)
	clock := clockFence()
	start := time.Now()
	for _, s := range l.Masters[:2] {
		s.RestartEmpty(t)
	}
	waitOut(t, host, start, 2)
	lab.WaitAllVote(t, l, host)
	l.Masters[2].Kill() // it alone has had the highest numbers all the time
	next := lab.LockSoon(t, host, "job")
	if next <= token {
		t.Errorf("got token %s, want one above %s", next, token)
	}
	if fence := fenceOf(t, next); fence >= clock {
		t.Errorf("got fence %d, want one from the counters, below %d of the clock", fence, clock)
	}
}

// fenceOf returns the fence of a token.
func fenceOf(t testing.TB, token string) int {
	t.Helper()
	return lab.Number(t, strings.TrimLeft(token[:16], "0"))
}

// clockFence returns the fence that a proxy would take from the clock now.
func clockFence() int { return int(time.Now().UnixMilli() << 11) }

// TestNewDeploymentNeedsNoQuarantine: three proxies start at the same moment with masters that are
// all new. They grant locks without a quarantine, which would last a minute, and a log says that
// the deployment is new. Twice in a row, or 20 times if INTEGRATION_LONG is set.
func TestNewDeploymentNeedsNoQuarantine(t *testing.T) {
	t.Parallel()
	for range lab.Long(2, 20) {
		l := lab.Start(t, lab.Config{Proxies: -1})
		proxies := l.StartProxies(t, 3)
		for i, p := range proxies {
			host := lab.Dial(t, p.Addr)
			host.Unlock("job", lab.LockSoon(t, host, "job"))
			lab.WaitAllVote(t, l, host)
			if strings.Contains(p.Log.String(), "quarantine") {
				t.Errorf("proxy %d: got a quarantine in a new deployment, want none:\n%s", i+1, p.Log)
			}
		}
		lab.WaitFor(t, "a log that calls the deployment new", lab.Patience, func() bool {
			return slices.ContainsFunc(proxies, func(p *lab.Proxy) bool {
				return strings.Contains(p.Log.String(), "all masters are new: taken for a new deployment")
			})
		})
		for _, p := range proxies {
			p.Stop(t)
		}
		for _, s := range append(l.Masters, l.Upstream) {
			s.Kill()
		}
	}
}

// TestNewDeploymentWithoutOneMasterWaits: two new masters of three wait for max-ttl if the third
// does not answer, because it may have granted locks. Then they vote.
func TestNewDeploymentWithoutOneMasterWaits(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l := lab.Start(t, lab.Config{Proxies: -1, Flags: []string{"--max-ttl", "1s"}})
	l.Masters[2].Kill()
	start := time.Now()
	host := lab.Dial(t, l.StartProxy(t).Addr)
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "down")
	wantRefused(t, host, "job", start, maxTTL) // the proxy waits as long again for the third master
	start = time.Now()
	l.Masters[2].RestartEmpty(t)
	admittedAnew(t, l, host, start, 1)
}

// TestStrictNewDeploymentWaitsForAdmit: with restart-guard strict, new masters vote only after the
// operator has admitted them and max-ttl has passed.
func TestStrictNewDeploymentWaitsForAdmit(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Proxies: -1, Flags: []string{"--max-ttl", "1s", "--restart-guard", "strict",
		"--admin-commands", "on"}})
	start := time.Now()
	proxies := l.StartProxies(t, 2)
	host := lab.Dial(t, proxies[0].Addr)
	lab.WaitStates(t, host, lab.Patience, "quarantined", "quarantined", "quarantined")
	for i, m := range l.Masters {
		lab.WaitFor(t, "the remedy for "+m.Addr, lab.Patience, func() bool {
			return strings.Contains(lab.ReasonOf(host, i), "no master has kept its memory: LOCKPROXY ADMIT "+m.Addr)
		})
		host.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", m.Addr)
	}
	for i, p := range proxies {
		wantRefused(t, lab.Dial(t, p.Addr), fmt.Sprint("job-", i), start, time.Second)
	}
}
