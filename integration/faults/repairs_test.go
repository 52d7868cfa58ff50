package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// What a proxy owes to a master that is away: releases, and SETs of locks that are held. The
// proxies here are built without the race detector, as the tests are about great numbers.

// absence is a deployment whose third master goes away and comes back.
type absence struct {
	*lab.Operators
	host *lab.Client
}

func startAbsence(t *testing.T) *absence {
	t.Helper()
	addr := lab.FreeAddr(t)
	l := lab.Start(t, lab.Config{Plain: true, Flags: []string{"--admin-listen", addr, "--master-timeout", "5s"}})
	a := &absence{&lab.Operators{Lab: l, T: t, Addr: addr}, lab.Dial(t, l.Proxies[0].Addr)}
	lab.WaitAllVote(t, l, a.host)
	return a
}

// pause stops the third master, and returns when the proxy does not ask it any more.
func (a *absence) pause() {
	a.T.Helper()
	a.Masters[2].Pause(a.T)
	lab.WaitStates(a.T, a.host, lab.Patience, "voting", "voting", "down")
}

// resume returns when the third master votes and has got all that was owed to it.
func (a *absence) resume() {
	a.T.Helper()
	start := time.Now()
	a.Masters[2].Resume()
	lab.WaitAllVote(a.T, a.Lab, a.host)
	lab.WaitFor(a.T, "nothing owed", 2*lab.Patience, func() bool { return a.owed() == 0 })
	a.T.Logf("the master was back after %v", time.Since(start))
}

// owed is what the third master has not answered yet.
func (a *absence) owed() int {
	a.T.Helper()
	return int(a.Metric(`lockproxy_master_owed_commands{master="` + a.Masters[2].Addr + `"}`))
}

// lock takes n locks, many at a time, and returns their tokens.
func (a *absence) lock(prefix string, n int) (tokens []string) {
	a.T.Helper()
	for i, reply := range lab.Pipeline(a.T, a.Proxies[0].Addr, n, func(i int) []string {
		return []string{"LOCK", fmt.Sprint(prefix, i), "60s"}
	}) {
		token := lab.TokenOf(reply)
		if token == "" {
			a.T.Fatalf("LOCK %s%d: %q", prefix, i, reply)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// unlock gives them back. Each UNLOCK must answer want.
func (a *absence) unlock(prefix string, tokens []string, want string) {
	a.T.Helper()
	for i, reply := range lab.Pipeline(a.T, a.Proxies[0].Addr, len(tokens), func(i int) []string {
		return []string{"UNLOCK", fmt.Sprint(prefix, i), tokens[i]}
	}) {
		if reply != want {
			a.T.Fatalf("UNLOCK %s%d: %q, want %q", prefix, i, reply, want)
		}
	}
}

// lockEverywhere takes n locks that stand on the third master too.
func (a *absence) lockEverywhere(prefix string, n int) (tokens []string) {
	a.T.Helper()
	tokens = a.lock(prefix, n)
	lab.WaitFor(a.T, "all locks on the third master", lab.Patience, func() bool {
		return lab.Number(a.T, lab.Scalar(a.Masters[2].Do(a.T, "DBSIZE"))) >= n
	})
	return tokens
}

// foreignTokens are n tokens that nobody holds. As far as the proxy knows a master that is away
// may have them all the same, so it owes their release.
func foreignTokens(n int) (tokens []string) {
	for i := range n {
		tokens = append(tokens, fmt.Sprintf("%016d:%040x", i+1, i))
	}
	return tokens
}

// wantNone fails if one of n locks stands on the third master.
func (a *absence) wantNone(prefix string, n int) {
	a.T.Helper()
	left := 0
	for _, key := range lab.LockKeys(a.T, a.Masters[2]) {
		if strings.HasPrefix(key, prefix) {
			left++
		}
	}
	if left > 0 {
		a.T.Errorf("%d of %d locks that were unlocked while a master was away stand there", left, n)
	}
}

// TestReleasesAreKept: 500 locks are unlocked while one of three masters is away. More releases
// follow than a proxy keeps for a master: they do not push the first ones out (L5). They are of
// tokens that nobody holds; TestReleasesBesidePairs has the pairs of the acceptance.
func TestReleasesAreKept(t *testing.T) {
	t.Parallel()
	const locks, others = 500, 75_000
	a := startAbsence(t)
	tokens := a.lockEverywhere("held-", locks)
	a.pause()
	a.unlock("held-", tokens, ":1\r\n")
	a.unlock("other-", foreignTokens(others), ":0\r\n")
	if n := a.owed(); n < locks || n > 70_000 {
		t.Errorf("%d releases are owed: they must be bounded", n)
	}
	told := 0
	for line := range strings.Lines(a.Proxies[0].Log.String()) {
		if strings.Contains(line, "dropped") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the log tells %d times that releases were dropped, want once a minute", told)
	}
	a.resume()
	a.wantNone("held-", locks)
}

// TestReleasesBesideOtherLocks: as TestReleasesAreKept, but what follows is locks taken and given
// back. They never reach the master that is away, so nothing is owed for them. It is 75,000 pairs
// where INTEGRATION_LONG is set, else 5,000.
func TestReleasesBesideOtherLocks(t *testing.T) {
	t.Parallel()
	const locks, atOnce = 500, 2500
	a := startAbsence(t)
	tokens := a.lockEverywhere("held-", locks)
	a.pause()
	a.unlock("held-", tokens, ":1\r\n")
	for round := range lab.Long(2, 30) {
		prefix := fmt.Sprint("pair-", round, "-")
		a.unlock(prefix, a.lock(prefix, atOnce), ":1\r\n")
	}
	if n := a.owed(); n > locks+100 {
		t.Errorf("%d releases are owed to a master that is away, %d locks may stand there", n, locks)
	}
	a.resume()
	a.wantNone("held-", locks)
}
