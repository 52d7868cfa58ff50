package faults

import (
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// TestMasterWithoutRightIsRefused: a master does not vote if its ACL lacks a right that lockproxy
// needs. Errors, LOCKPROXY MASTERS and the log name the right. The same goes for a right that the
// operator removes later. The master votes once it has the right again.
func TestMasterWithoutRightIsRefused(t *testing.T) {
	t.Parallel()
	const reason = "does not give user default the right +zadd"
	l := lab.Start(t, lab.Config{Proxies: -1})
	all := func(rule string) {
		t.Helper()
		for _, s := range l.Masters {
			s.Must(t, "ACL", "SETUSER", "default", rule)
		}
	}
	all("-zadd")
	proxy := l.StartProxy(t)
	host := lab.Dial(t, proxy.Addr)
	for _, when := range []string{"from the start", "removed later"} {
		lab.WaitFor(t, "the refusal of masters without a right, "+when, lab.Patience, func() bool {
			reply := host.Do("LOCK", "job", "10s", "SHARED")
			return strings.HasPrefix(reply, "-NOQUORUM") && strings.Count(reply, reason) == 3
		})
		// down, until the next try
		lab.WaitFor(t, "three refused masters in LOCKPROXY MASTERS, "+when, lab.Patience, func() bool {
			reply := host.Do("LOCKPROXY", "MASTERS")
			return strings.Count(reply, "refused") == 3 && strings.Count(reply, reason) == 3
		})
		if !proxy.Says(reason) {
			t.Errorf("%s: the log lacks %q", when, reason)
		}
		all("+zadd")
		lab.WaitAllVote(t, l, host)
		lab.LockSoon(t, host, "job-"+strings.Fields(when)[0])
		all("-zadd")
	}
}
