package operations

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Proxies of two versions in one deployment, as in a rolling upgrade. INTEGRATION_OLD names a
// build of the older version; without it the tests are skipped.

// startMixed starts a deployment with a proxy of the older version, and then one of this version.
func startMixed(t *testing.T, maxTTL time.Duration) (l *lab.Lab, before, now *lab.Client) {
	t.Helper()
	path := os.Getenv("INTEGRATION_OLD")
	if path == "" {
		t.Skip("INTEGRATION_OLD names no build of an older version")
	}
	l = lab.Start(t, lab.Config{Proxies: -1, Flags: []string{"--max-ttl", fmt.Sprintf("%dms", maxTTL.Milliseconds()),
		"--admin-commands", "on"}})
	before = lab.Dial(t, l.StartProxyOf(t, path).Addr)
	lab.WaitAllVote(t, l, before)
	token := before.Lock("running", fmt.Sprint(maxTTL.Milliseconds()))
	p := l.StartProxy(t)
	now = lab.Dial(t, p.Addr)
	lab.WaitAllVote(t, l, now)
	if text := p.Log.String(); strings.Contains(text, "quarantine") {
		t.Errorf("the new version quarantined masters of a running deployment:\n%s", text)
	}
	now.WantDo(lab.Null2, "LOCK", "running", "1s")
	now.WantDo(":1\r\n", "EXTEND", "running", token, fmt.Sprint(maxTTL.Milliseconds()))
	now.Unlock("running", token)
	return l, before, now
}

// Both versions share locks and fences.
func TestMixedVersionsShareLocks(t *testing.T) {
	t.Parallel()
	l, before, now := startMixed(t, time.Minute)
	last := ""
	for range 50 {
		for _, pair := range [][2]*lab.Client{{before, now}, {now, before}, {now, now}, {before, before}} {
			token := pair[0].Lock("job", "60s")
			if token <= last {
				t.Fatalf("got token %s after %s, want a greater one", token, last)
			}
			last = token
			pair[1].WantDo(lab.Null2, "LOCK", "job", "60s")
			pair[1].WantDo(":1\r\n", "EXTEND", "job", token, "60s")
			pair[1].Unlock("job", token)
		}
	}
	waiting := before.Later("LOCK", "job", "60s", "WAIT", "0") // granted at once
	token, _ := lab.WantToken(t, "LOCK", waiting)
	for range 4 { // waiters wake on releases through the other version
		waiting = now.Later("LOCK", "job", "60s", "WAIT", "0")
		lab.Dial(t, l.Proxies[1].Addr).WaitWaiting(1)
		before.Unlock("job", token)
		token, _ = lab.WantToken(t, "LOCK WAIT", waiting)
		before, now = now, before
		l.Proxies[0], l.Proxies[1] = l.Proxies[1], l.Proxies[0]
	}
	now.Do("UNLOCK", "job", token)
}

// Masters restart empty while both versions run, so that either may admit them. They vote again
// for both shortly after max-ttl, and keep voting.
func TestMixedVersionsAdmitRestartedMasters(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l, before, now := startMixed(t, maxTTL)
	last := ""
	for round := range 6 {
		s := l.Masters[round%3]
		s.RestartEmpty(t)
		start := time.Now()
		for _, c := range []*lab.Client{before, now} {
			lab.WaitFor(t, "quarantine", lab.Patience, func() bool { return lab.ReasonOf(c, round%3) != "" })
		}
		for _, c := range []*lab.Client{before, now} {
			lab.WaitStates(t, c, lab.Patience, "voting", "voting", "voting")
		}
		t.Logf("round %d: both versions admitted the master after %v", round, time.Since(start))
		for range 3 { // neither version revokes the admission
			lab.Pass(t, 400*time.Millisecond)
			for i, c := range []*lab.Client{before, now} {
				if reason := lab.ReasonOf(c, round%3); reason != "" {
					t.Fatalf("round %d, proxy %d: %s", round, i+1, reason)
				}
			}
		}
		for _, c := range []*lab.Client{before, now} {
			token := lab.LockSoon(t, c, "job")
			if token <= last {
				t.Fatalf("got token %s after %s, want a greater one", token, last)
			}
			lab.UnlockSurely(t, c, "job", token)
			last = token
		}
	}
}
