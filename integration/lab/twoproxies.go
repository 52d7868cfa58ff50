package lab

import (
	"testing"
	"time"
)

// TwoProxies is an upstream and five masters with two proxies before them.
type TwoProxies struct {
	*Cluster         // with the first proxy
	Second   *Proxy  // the second
	Near     *Client // of the first proxy
	Far      *Client // of the second
}

// StartTwoProxies starts an upstream, five masters and two proxies. The flags go to both proxies.
func StartTwoProxies(t testing.TB, flags ...string) *TwoProxies {
	t.Helper()
	p := &TwoProxies{Cluster: StartCluster(t, 5, flags...)}
	p.Second = p.Another(t)
	p.Near, p.Far = Dial(t, p.Addr), Dial(t, p.Second.Addr)
	return p
}

// StartTwoRelayed is StartTwoProxies with proxies that reach the masters through relays.
func StartTwoRelayed(t testing.TB, flags ...string) (*TwoProxies, []*Relay) {
	t.Helper()
	servers := StartMasters(t, 6)
	relays, list := StartRelays(t, servers[1:])
	p := &TwoProxies{Cluster: &Cluster{Upstream: servers[0], Masters: servers[1:]}}
	p.Flags = append([]string{"--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off"}, flags...)
	p.Proxy, p.Second = p.Another(t), p.Another(t)
	p.Near, p.Far = Dial(t, p.Addr), Dial(t, p.Second.Addr)
	return p, relays
}

// WantNoStray fails if a master keeps a lock key that only its ttl would end; see [WantNoStray].
func (p *TwoProxies) WantNoStray(t testing.TB) {
	t.Helper()
	WantNoStray(t, p.Masters, p.Proxy, p.Second)
}

// WantHolders waits until exactly n masters have a key of that name, of any holder.
func (p *TwoProxies) WantHolders(t testing.TB, key string, n int) {
	t.Helper()
	WantHolders(t, p.Masters, key, n)
}

// Holders returns how many masters have a key of that name.
func (p *TwoProxies) Holders(t testing.TB, key string) int {
	t.Helper()
	return Holders(t, p.Masters, key)
}

// Left returns the rest of the key's ttl on each master, shortest first; 0 for a master without
// it.
func (p *TwoProxies) Left(t testing.TB, key string) []time.Duration {
	t.Helper()
	return Left(t, p.Masters, key)
}

// Values returns the reply of each master to GET of the key.
func (p *TwoProxies) Values(t testing.TB, key string) (list []string) {
	t.Helper()
	for _, s := range p.Masters {
		list = append(list, s.Do(t, "GET", "lock:"+key))
	}
	return list
}

// WaitSubscribed waits until all masters have a subscriber to releases of key. A release then
// wakes the waiter.
func (p *TwoProxies) WaitSubscribed(t testing.TB, key string) {
	t.Helper()
	WaitFor(t, "a subscriber at every master", Patience, func() bool {
		for _, s := range p.Masters {
			if len(Fields(s.Do(t, "PUBSUB", "CHANNELS", "lockproxy:*"+key))) == 0 {
				return false
			}
		}
		return true
	})
}
