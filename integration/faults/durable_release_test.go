package faults

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestReleaseIsNoProofOfDurability: two of three durable masters lose their last write, a lock.
// The proxy owes them the release of another lock, which arrives before it examines them. The
// release must not take the place of the lost write in their proof.
func TestReleaseIsNoProofOfDurability(t *testing.T) {
	t.Parallel()
	const maxTTL = 6 * time.Second
	for _, tail := range lostTails()[:lab.Long(1, 2)] {
		t.Run(tail.name, func(t *testing.T) {
			t.Parallel()
			l := lab.StartGuarded(t, maxTTL, lab.Config{MasterArgs: lab.AOFAlways(), Relays: true})
			c := lab.Dial(t, l.Proxies[0].Addr)
			lab.WaitAllVote(t, l, c)
			other := lab.LockSoon(t, c, "other")
			lab.Pass(t, 3*time.Second)
			var restarts []func()
			for _, s := range l.Masters[:2] {
				restarts = append(restarts, tail.save(t, s))
			}
			token, until := hold(c, "job", maxTTL)
			for i, restart := range restarts {
				l.Link(0, i).Isolate()
				restart()
			}
			c.Do("UNLOCK", "other", other) // the proxy owes it to both
			l.Heal(t)
			wantNextHolder(t, c, "job", token, until, maxTTL+quarantineMargin)
		})
	}
}
