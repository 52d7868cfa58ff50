package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestNewDeploymentWorksWithoutUnwritableMaster: one of three new masters answers and refuses
// writes. After max-ttl the two others vote, and the third joins them once it accepts writes.
func TestNewDeploymentWorksWithoutUnwritableMaster(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*lab.Redis, testing.TB) func(){
		"OOM":        (*lab.Redis).OutOfMemory,
		"NOREPLICAS": (*lab.Redis).TooFewReplicas,
		"MISCONF":    (*lab.Redis).Misconfigured,
		"READONLY":   (*lab.Redis).ReadOnly,
		"NOPERM":     readRightsOnly,
	} {
		if (name == "NOREPLICAS" || name == "MISCONF") && !lab.IsLong() {
			continue // errors like OOM; TestErrorOfMasterIsNoVote has them, too
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 3 * time.Second
			l := lab.Start(t, lab.Config{Proxies: -1, Flags: []string{"--max-ttl", fmt.Sprintf("%dms", maxTTL.Milliseconds())}})
			end := fault(l.Masters[2], t)
			start := time.Now()
			host := lab.Dial(t, l.StartProxy(t).Addr)
			reply, within := "", maxTTL+lab.Patience
			if !lab.Poll(within, func() bool {
				reply = host.Do("LOCK", "job", "1s")
				return lab.TokenOf(reply) != ""
			}) {
				t.Fatalf("LOCK beside an unwritable master: got %q within %v, want a token", reply, within)
			}
			if took := time.Since(start); took < maxTTL { // the third master may have granted locks
				t.Errorf("grant beside an unwritable master: got it after %v, want it after %v at least", took, maxTTL)
			}
			end()
			lab.WaitAllVote(t, l, host)
			lab.WantHolders(t, l.Masters, "next", 0)
			token := lab.LockSoon(t, host, "next", maxTTL.String())
			lab.WantHolders(t, l.Masters, "next", 3)
			lab.UnlockSurely(t, host, "next", token)
		})
	}
}

// readRightsOnly makes every write to a hash answer -NOPERM.
func readRightsOnly(s *lab.Redis, t testing.TB) (end func()) {
	t.Helper()
	s.Must(t, "ACL", "SETUSER", "default", "-hset")
	return func() { t.Helper(); s.Must(t, "ACL", "SETUSER", "default", "+hset") }
}

// TestMasterWithHugeInfoVotes: other clients have made two masters count 45,000 different error
// codes, so that their INFO has more than a megabyte. They vote all the same.
func TestMasterWithHugeInfoVotes(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, lab.Config{Proxies: 2})
	for _, s := range l.Masters[:2] {
		countErrorCodes(t, s, 45_000)
	}
	old := lab.Dial(t, l.Proxies[0].Addr)
	l.Proxies[1].Restart(t)
	fresh := lab.Dial(t, l.Proxies[1].Addr)
	lab.WaitAllVote(t, l, fresh)
	var asked []int
	for _, s := range l.Masters[:2] {
		asked = append(asked, lab.CommandCount(t, s, "evalsha"))
	}
	for start := time.Now(); time.Since(start) < 2500*time.Millisecond; { // two or three probes
		for i, c := range []*lab.Client{old, fresh} {
			key := fmt.Sprint("job-", i)
			reply := c.Do("LOCK", key, "10s")
			token := lab.TokenOf(reply)
			if token == "" {
				t.Fatalf("LOCK through proxy %d: got %q, want a token", i+1, reply)
			}
			c.Unlock(key, token)
		}
		lab.Pass(t, 20*time.Millisecond)
	}
	lab.WaitAllVote(t, l, old)
	lab.WaitAllVote(t, l, fresh)
	for i, s := range l.Masters[:2] {
		if lab.CommandCount(t, s, "evalsha") == asked[i] {
			t.Errorf("scripts of master %d: got no more, want some", i+1)
		}
	}
}

// countErrorCodes makes a server answer with n different error codes.
func countErrorCodes(t testing.TB, s *lab.Redis, n int) {
	t.Helper()
	const script = `local all = {}
for i = ARGV[1], ARGV[2] do all[#all + 1] = redis.error_reply(string.format('CODE%020d x', i)) end
return all`
	c := lab.Dial(t, s.Addr)
	for i := 0; i < n; i += 1000 {
		c.Do("EVAL", script, "0", fmt.Sprint(i), fmt.Sprint(i+999))
	}
	if info := s.Do(t, "INFO"); len(info) < 1<<20 || strings.Count(info, "errorstat_CODE") != n {
		t.Fatalf("INFO: got %d bytes with %d error codes, want a megabyte with %d", len(info),
			strings.Count(info, "errorstat_CODE"), n)
	}
}
