package lab

import "testing"

// Partitions between single proxies and masters, by a network of its own where there is one, else
// by relays.

// Way is a direction between a proxy and a master.
type Way int

// The directions.
const (
	BothWays Way = iota
	ToMaster
	ToProxy
)

// Part cuts a proxy off from a master, by their numbers from 0, in one way or both. Neither side
// is told. What is cut on a network is lost and sent again after Heal; what is cut by a relay
// waits in it.
func (l *Lab) Part(t testing.TB, proxy, master int, way Way) {
	t.Helper()
	if l.Net != nil {
		p, m := l.Proxies[proxy].Node, l.Masters[master].Node
		if way != ToProxy {
			l.Net.Drop(t, p, m, 100)
		}
		if way != ToMaster {
			l.Net.Drop(t, m, p, 100)
		}
		return
	}
	r := l.Link(proxy, master)
	r.FreezeNew()
	if way != ToProxy {
		r.FreezeCommands()
	}
	if way != ToMaster {
		r.FreezeAnswers()
	}
}

// Heal ends all partitions, and all other faults of the network or the relays.
func (l *Lab) Heal(t testing.TB) {
	t.Helper()
	if l.Net != nil {
		l.Net.Heal(t)
	}
	for _, relays := range l.Relays {
		for _, r := range relays {
			r.Rejoin()
		}
	}
}

// Readdress leads every proxy's connections to a master, by its number from 0, to another server
// from now on, and cuts the present ones. The address of the master itself leads them back.
func (l *Lab) Readdress(master int, target string) {
	for _, relays := range l.Relays {
		relays[master].Switch(target)
	}
}
