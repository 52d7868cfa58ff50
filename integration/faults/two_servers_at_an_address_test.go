package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestTwoServersAtAnAddressDoNotBothVote: during a partition the address of one master leads each
// of two proxies to another server, and each proxy reaches one of the two other masters. Each sees
// two of three masters, yet they never both grant one key. After the partition all masters vote
// again.
func TestTwoServersAtAnAddressDoNotBothVote(t *testing.T) {
	t.Parallel()
	for _, fencing := range []string{"on", "off"} {
		t.Run("fencing "+fencing, func(t *testing.T) {
			t.Parallel()
			const maxTTL = time.Second
			l := lab.StartGuarded(t, maxTTL, lab.Config{Relays: true, Proxies: 2, Flags: []string{"--fencing", fencing}})
			one, two := lab.Dial(t, l.Proxies[0].Addr), lab.Dial(t, l.Proxies[1].Addr)
			lab.WaitAllVote(t, l, one)
			lab.WaitAllVote(t, l, two)
			l.Link(0, 2).Isolate()
			l.Link(1, 1).Isolate()
			l.Link(1, 0).Switch(lab.StartRedis(t).Addr)
			lab.WaitStates(t, one, lab.Patience, "voting", "voting", "down")
			waitState(t, two, 0, "quarantined")
			waitState(t, two, 1, "down")
			wantOneHolder(t, one, two, maxTTL)
			l.Link(1, 0).Switch(l.Masters[0].Addr)
			l.Heal(t)
			lab.WaitAllVote(t, l, one)
			lab.WaitAllVote(t, l, two)
		})
	}
}

// waitState waits until LOCKPROXY MASTERS shows this state of one master.
func waitState(t testing.TB, c *lab.Client, master int, want string) {
	t.Helper()
	got := ""
	if !lab.Poll(lab.Patience, func() bool {
		got = lab.MapOf(lab.Elements(c.Do("LOCKPROXY", "MASTERS"))[master])["state"]
		return got == want
	}) {
		t.Fatalf("state of master %d: got %s, want %s", master+1, got, want)
	}
}

// wantOneHolder asks two proxies for the same key in turn, and fails if one grants it before the
// lock that the other granted expires. The first proxy has a majority and must grant it at times.
// The locks have the ttl max-ttl. Meanwhile a quarantine ends, and every wait for masters that do
// not answer.
func wantOneHolder(t testing.TB, one, two *lab.Client, ttl time.Duration) {
	t.Helper()
	lasts := lab.Long(4*time.Second+2*ttl, 10*time.Second)
	var until [2]time.Time
	grants := 0
	for start := time.Now(); time.Since(start) < lasts; {
		for i, c := range []*lab.Client{one, two} {
			sent := time.Now()
			parts := lab.Fields(c.Do("LOCK", "job", fmt.Sprint(ttl.Milliseconds()), "FULL"))
			if len(parts) != 3 {
				continue
			}
			if early := time.Until(until[1-i]); early > 0 {
				t.Fatalf("LOCK through proxy %d %v before the other's lock expires: got a token, want a refusal", i+1, early)
			}
			until[i] = sent.Add(time.Duration(lab.Number(t, parts[2])) * time.Millisecond)
			grants += 1 - i
		}
		lab.Pass(t, 50*time.Millisecond)
	}
	if grants == 0 {
		t.Error("grants through the first proxy: got none, want some")
	}
}
