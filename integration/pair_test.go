package integration

import (
	"slices"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// What the tests of waiting, sessions and operators' commands share.

// pair is an upstream and five masters with two proxies before them.
type pair struct {
	*cluster             // with the first proxy
	two      *lab.Proxy  // the second
	desk     *lab.Client // to the first proxy, for questions and for what others do
	far      *lab.Client // to the second
}

// startPair starts it. The flags go to both proxies.
func startPair(t testing.TB, flags ...string) *pair {
	t.Helper()
	p := &pair{cluster: startCluster(t, 5, flags...)}
	p.two = p.another(t)
	p.desk, p.far = lab.Dial(t, p.Addr), lab.Dial(t, p.two.Addr)
	return p
}

// relayedPair is a pair whose proxies reach the masters through relays.
func relayedPair(t testing.TB, flags ...string) (*pair, []*lab.Relay) {
	t.Helper()
	servers := lab.StartMasters(t, 6)
	relays, list := lab.StartRelays(t, servers[1:])
	p := &pair{cluster: &cluster{upstream: servers[0], masters: servers[1:]}}
	p.flags = append([]string{"--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off"}, flags...)
	p.Proxy, p.two = p.another(t), p.another(t)
	p.desk, p.far = lab.Dial(t, p.Addr), lab.Dial(t, p.two.Addr)
	return p, relays
}

// wantNoStray fails if a lock key is left behind on a master that can only have been left to expiry.
func (p *pair) wantNoStray(t testing.TB) {
	t.Helper()
	lab.WantNoStray(t, p.masters, p.Proxy, p.two)
}

// wantHolders waits until exactly n masters have a key of that name, whoever's it is.
func (p *pair) wantHolders(t testing.TB, key string, n int) {
	t.Helper()
	lab.WantHolders(t, p.masters, key, n)
}

func (p *pair) holders(t testing.TB, key string) int {
	t.Helper()
	return lab.Holders(t, p.masters, key)
}

// left returns for how long each master still keeps the key, shortest first; a master without it counts as 0.
func (p *pair) left(t testing.TB, key string) []time.Duration {
	t.Helper()
	return lab.Left(t, p.masters, key)
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
