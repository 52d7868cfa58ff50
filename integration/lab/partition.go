package lab

import "testing"

// These methods cut single proxies off from single masters, by the network of the deployment or
// else by its relays.

// Way is a direction between a proxy and a master.
type Way int

// The directions.
const (
	BothWays Way = iota
	ToMaster
	ToProxy
)

// Part cuts a proxy off from a master, by their numbers from 0, in one direction or both. Neither
// side notices. A network loses the bytes, and the system sends them again after Heal; a relay
// keeps them until Heal.
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

// Readdress leads new connections of every proxy to a master, by its number from 0, to another
// server, and cuts the present ones. Readdress to the master's own address undoes that.
func (l *Lab) Readdress(master int, target string) {
	for _, relays := range l.Relays {
		relays[master].Switch(target)
	}
}
