package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// With restart-guard strict, a proxy that sees a majority of masters without memory does not admit
// them by itself. Another proxy may use other servers at the same addresses. LOCKPROXY MASTERS
// names LOCKPROXY ADMIT as the remedy.

// startStrict starts a deployment with two proxies and relays, and admits its masters.
func startStrict(t testing.TB, maxTTL time.Duration) (l *lab.Lab, one, two *lab.Client) {
	t.Helper()
	l = lab.StartGuarded(t, maxTTL, lab.Config{Relays: true, Proxies: 2, NoWait: true,
		Flags: []string{"--restart-guard", "strict"}})
	one, two = lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)
	for i := range l.Masters {
		reply := ""
		if !lab.Poll(lab.Patience, func() bool {
			reply = one.Do("LOCKPROXY", "ADMIT", "master", fmt.Sprint(i+1))
			return reply == "+OK\r\n"
		}) {
			t.Fatalf("LOCKPROXY ADMIT master %d: got %q, want OK", i+1, reply)
		}
	}
	lab.WaitAllVote(t, l, one)
	lab.WaitAllVote(t, l, two)
	return l, one, two
}

// TestStrictProxyDoesNotAdmitServersOfAPartition: during a partition the address of one master
// leads the second proxy to an empty server. The second master, which only that proxy reaches,
// loses its memory, and the proxy cannot reach the third. The first proxy goes on with the first
// and the third.
func TestStrictProxyDoesNotAdmitServersOfAPartition(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	l, one, two := startStrict(t, maxTTL)
	l.Link(0, 1).Isolate()
	l.Link(1, 2).Isolate()
	l.Link(1, 0).Switch(lab.StartRedis(t).Addr)
	l.Masters[1].RestartEmpty(t)
	lab.WaitStates(t, one, lab.Patience, "voting", "down", "voting")
	lab.WaitStates(t, two, lab.Patience, "quarantined", "quarantined", "down")
	wantOneHolder(t, one, two, maxTTL)
	for i := range 2 {
		lab.WaitReason(t, two, i, "LOCKPROXY ADMIT ")
	}
	l.Link(1, 0).Switch(l.Masters[0].Addr)
	l.Heal(t)
	lab.WaitAllVote(t, l, one)
	lab.WaitAllVote(t, l, two)
}

// TestStrictProxyDoesNotAdmitServersAtMovedAddresses: the addresses of all masters lead a proxy to
// empty servers when it restarts, while another proxy goes on with the old ones. At the next
// restart they lead back. The proxy then joins the other, and no lock is lost.
func TestStrictProxyDoesNotAdmitServersAtMovedAddresses(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	l, one, _ := startStrict(t, maxTTL)
	l.Proxies[1].Kill()
	for i, s := range lab.StartMasters(t, len(l.Masters)) {
		l.Link(1, i).Switch(s.Addr)
	}
	l.Proxies[1].Restart(t)
	two := lab.Dial(t, l.Proxies[1].Addr)
	lab.WaitStates(t, two, lab.Patience, "quarantined", "quarantined", "quarantined")
	wantOneHolder(t, one, two, maxTTL)
	for i := range l.Masters {
		lab.WaitReason(t, two, i, "LOCKPROXY ADMIT ")
	}
	h := holder{host: one, token: lab.LockSoon(t, one, "held", "3s"),
		ttl: maxTTL, until: time.Now().Add(maxTTL), replied: time.Now()}
	// The proxy is stopped meanwhile. Addresses that lead back one by one would look like masters
	// that lost their memory, and the proxy would put them in quarantine.
	l.Proxies[1].Kill()
	for i, s := range l.Masters {
		l.Link(1, i).Switch(s.Addr)
	}
	l.Proxies[1].Restart(t)
	two = lab.Dial(t, l.Proxies[1].Addr)
	lab.WaitFor(t, "the votes of all masters for the restarted proxy", lab.Patience, func() bool {
		h.extend(t)
		return votes(two) == len(l.Masters)
	})
	two.WantDo(lab.Null2, "LOCK", "held", "3s")
	lab.UnlockSurely(t, two, "held", h.token)
}
