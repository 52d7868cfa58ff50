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

// startClients sets the clients of a storm to work on a deployment, while the test itself breaks
// it. What is returned ends them, lets what they hold run out, fails the test for every violation,
// and tells what they did.
func startClients(t testing.TB, l *lab.Lab, plan stormPlan, seed uint64) (end func() history.Summary) {
	t.Helper()
	s := &faultStorm{Lab: l, t: t, plan: plan, seed: seed, log: history.NewLog(), stopped: make(chan struct{}), guarded: map[string]*history.Guarded{}}
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
			t.Errorf("%d violations", len(found))
			s.keepHistory()
		}
		return history.Summarize(s.log.Ops())
	}
}

// TestContention: 64 clients of two proxies on one key, and as many on 10,000 keys, with nothing
// broken: no two validities overlap and fences rise.
func TestContention(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 10_000} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			t.Parallel()
			l := lab.Start(t, lab.Config{Masters: 5, Proxies: 2, Flags: []string{"--restart-guard", "off", "--max-ttl", "2s"}})
			plan := stormPlan{clients: 64, keys: keys, minTTL: time.Second, maxTTL: 2 * time.Second}
			start, end := time.Now(), startClients(t, l, plan, lab.SeedOf(t, uint64(time.Now().UnixNano())))
			lab.Pass(t, 4*time.Second)
			took := time.Since(start)
			sum := end()
			t.Logf("%v; %.0f grants a second", sum, float64(sum.Grants)/took.Seconds())
			if sum.Grants < 3 || sum.Errors > sum.Operations/20 { // on a busy machine a master may be late
				t.Error("few grants, or many errors, with nothing broken")
			}
		})
	}
}

// TestLinksFreezeAndThaw freezes ways between proxies and masters one by one, any number of them,
// and lets them go in another order: bytes of long ago arrive after those of just now.
func TestLinksFreezeAndThaw(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for _, masters := range []int{3, 5} {
		t.Run(fmt.Sprint(masters, " masters"), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(masters)))
			l := lab.Start(t, lab.Config{Masters: masters, Proxies: 2, Relays: true, Flags: []string{"--restart-guard", "off", "--max-ttl", "2s"}})
			plan := stormPlan{clients: 12, keys: 10, minTTL: 300 * time.Millisecond, maxTTL: 2 * time.Second, vanishing: 5, sessions: 5}
			end, rounds := startClients(t, l, plan, seed), 0
			for start := time.Now(); time.Since(start) < 8*time.Second; rounds++ {
				freezeAndThaw(t, l, r)
			}
			l.Heal(t)
			sum := end()
			if t.Logf("%d rounds: %v", rounds, sum); sum.Grants < 50 {
				t.Error("so few grants show little")
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
