package lab

import (
	"testing"
	"time"
)

// TwoProxies is an upstream and five masters with two proxies before them.
type TwoProxies struct {
	*Cluster         // with the first proxy
	Second   *Proxy  // the second
	Near     *Client // to the first proxy, for questions and for what others do
	Far      *Client // to the second
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

// WantNoStray fails if a lock key is left behind on a master that can only have been left to
// expiry.
func (p *TwoProxies) WantNoStray(t testing.TB) {
	t.Helper()
	WantNoStray(t, p.Masters, p.Proxy, p.Second)
}

// WantHolders waits until exactly n masters have a key of that name, whoever's it is.
func (p *TwoProxies) WantHolders(t testing.TB, key string, n int) {
	t.Helper()
	WantHolders(t, p.Masters, key, n)
}

// Holders tells on how many masters a key of that name stands.
func (p *TwoProxies) Holders(t testing.TB, key string) int {
	t.Helper()
	return Holders(t, p.Masters, key)
}

// Left returns for how long each master still keeps the key, shortest first; a master without it
// counts as 0.
func (p *TwoProxies) Left(t testing.TB, key string) []time.Duration {
	t.Helper()
	return Left(t, p.Masters, key)
}

// Values returns what each master holds at key.
func (p *TwoProxies) Values(t testing.TB, key string) (list []string) {
	t.Helper()
	for _, s := range p.Masters {
		list = append(list, s.Do(t, "GET", "lock:"+key))
	}
	return list
}

// WaitSubscribed returns when all masters have a subscriber to releases of key: the waiter has
// asked and will be told.
func (p *TwoProxies) WaitSubscribed(t testing.TB, key string) {
	t.Helper()
	WaitFor(t, "subscribed everywhere", Patience, func() bool {
		for _, s := range p.Masters {
			if len(Fields(s.Do(t, "PUBSUB", "CHANNELS", "lockproxy:*"+key))) == 0 {
				return false
			}
		}
		return true
	})
}
