package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// startClients starts the clients of a storm on a deployment that the test itself breaks. end
// stops them and lets their locks expire. It fails the test for every violation and returns a
// summary.
func startClients(t testing.TB, l *lab.Lab, plan stormPlan, seed uint64) (end func() history.Summary) {
	t.Helper()
	s := &faultStorm{Lab: l, t: t, plan: plan, seed: seed, log: history.NewLog(), stopped: make(chan struct{}),
		guarded: map[string]*history.Guarded{}}
	for _, p := range l.Proxies {
		s.addrs = append(s.addrs, p.Addr)
	}
	for i := range plan.keys {
		key := fmt.Sprintf("contended-%d", i)
		s.keys, s.guarded[key] = append(s.keys, key), history.NewGuarded(key)
	}
	var clients sync.WaitGroup
	for i := range plan.clients {
		c := &stormClient{Rand: rand.New(rand.NewPCG(seed, uint64(1+i))), s: s, id: i, conns: map[int]*lab.Conn{}}
		clients.Go(c.run)
	}
	return func() history.Summary {
		t.Helper()
		close(s.stopped)
		clients.Wait()
		found := s.check(t)
		for _, v := range found[:min(10, len(found))] {
			t.Error(v)
		}
		if len(found) > 0 {
			t.Errorf("got %d violations, want none", len(found))
			s.keepHistory()
		}
		return history.Summarize(s.log.Ops())
	}
}

// TestContentionWithoutFaults: many clients of two proxies want one key, or a great many keys. No
// two validities overlap, fences rise, and few commands fail. There are 64 clients, 10,000 keys
// and five masters if INTEGRATION_LONG is set.
func TestContentionWithoutFaults(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, lab.Long(1000, 10_000)} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			t.Parallel()
			l := lab.Start(t, lab.Config{Masters: lab.Long(3, 5), Proxies: 2,
				Flags: []string{"--restart-guard", "off", "--max-ttl", "2s"}})
			plan := stormPlan{clients: lab.Long(24, 64), keys: keys, minTTL: time.Second, maxTTL: 2 * time.Second}
			if keys == 1 { // two clients that hold it for long must leave time for a third
				plan.minTTL, plan.maxTTL = 300*time.Millisecond, 600*time.Millisecond
			}
			lag := lab.Lag(t)
			end := startClients(t, l, plan, lab.SeedOf(t, uint64(time.Now().UnixNano())))
			lab.Pass(t, lab.Long(1500*time.Millisecond, 4*time.Second))
			sum := end()
			t.Log(sum)
			inTime := lag() < plan.minTTL/4 // an attempt lasts as long: masters that stop for longer cause errors
			if sum.Grants < 3 || inTime && sum.Errors > sum.Operations/20 {
				t.Errorf("got %d grants and %d errors of %d operations, want 3 grants at least and 5 %% errors at most",
					sum.Grants, sum.Errors, sum.Operations)
			}
		})
	}
}

// TestExclusionWhileLinksFreeze freezes links between proxies and masters one by one and thaws
// them in another order, so that old bytes arrive after new ones. No two validities overlap.
func TestExclusionWhileLinksFreeze(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for _, masters := range lab.Long([]int{3}, []int{3, 5}) {
		t.Run(fmt.Sprint(masters, " masters"), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(masters)))
			l := lab.Start(t, lab.Config{Masters: masters, Proxies: 2, Relays: true,
				Flags: []string{"--restart-guard", "off", "--max-ttl", "2s"}})
			plan := stormPlan{clients: 12, keys: 10, minTTL: 300 * time.Millisecond,
				maxTTL: lab.Long(time.Second, 2*time.Second), vanishing: 5, sessions: 5}
			end, rounds := startClients(t, l, plan, seed), 0
			for start := time.Now(); time.Since(start) < lab.Long(4*time.Second, 8*time.Second); rounds++ {
				freezeAndThaw(t, l, r)
			}
			l.Heal(t)
			sum := end()
			if t.Logf("%d rounds: %v", rounds, sum); sum.Grants < 50 {
				t.Errorf("got %d grants, want at least 50, since few show little", sum.Grants)
			}
		})
	}
}

// freezeAndThaw is one round. Each step takes a few to a hundred milliseconds.
func freezeAndThaw(t testing.TB, l *lab.Lab, r *rand.Rand) {
	t.Helper()
	var links []*lab.Relay
	for _, relays := range l.Relays {
		links = append(links, relays...)
	}
	links = links[:1+r.IntN(len(links))]
	shuffle := func() { r.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] }) }
	pause := func() { lab.Pass(t, time.Duration(1+r.IntN(120))*time.Millisecond) }
	shuffle()
	for i, link := range links {
		switch i % 3 {
		case 0:
			link.Freeze()
		case 1:
			link.FreezeCommands()
		case 2:
			link.FreezeAnswers()
		}
		pause()
	}
	shuffle()
	for _, link := range links {
		link.Thaw()
		pause()
	}
	pause()
}
