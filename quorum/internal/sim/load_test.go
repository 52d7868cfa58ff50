package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The load on masters: what calls cost them, in runs that are quiet, and in runs in which a master
// is away for a while and comes back.

// total is how many operations a master has carried out.
func (l *load) total() int {
	n := 0
	for _, ops := range l.ops {
		n += ops
	}
	return n
}

func (l *load) String() string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%d packets, %d operations", l.packets, l.total()))
	for _, name := range slices.Sorted(maps.Keys(l.ops)) {
		text.WriteString(fmt.Sprintf(", %s %d", name, l.ops[name]))
	}
	return text.String()
}

// checkLoad compares the operations that each master has carried out with the calls of clients. A
// LOCK is one operation and an UNLOCK one; a lock that is held for longer than a check waits may
// be checked once, and topped up once.
func (w *world) checkLoad() {
	if !w.plan.counted || w.ledger.fault != "" {
		return
	}
	l := w.ledger
	// A failed attempt is released. If another proxy unlocks, the one that granted may check, and
	// lets the rest of the lock fade.
	l.asked -= w.crowd.unsent
	most := l.asked + 2*(l.asked-l.grants) + l.releases + l.extends + 2*l.long + 3*l.elsewhere
	most += most/20 + 40
	for _, m := range w.servers() {
		w.net.mu.Lock()
		text, total, packets := m.load.String(), m.load.total(), m.load.packets
		// Masters of a new deployment begin with counters that differ: the first lock of each raises it.
		raised := m.load.ops["raise"]
		extra := m.load.ops["fade"] + raised - l.elsewhere
		w.net.mu.Unlock()
		most := most
		if m.away {
			most += l.asked + l.releases
		}
		switch {
		case total-raised > most:
			l.wrong("", "the load on master %d is too high: %s for %d LOCK, %d UNLOCK, %d EXTEND, %d of them held for long",
				m.index, text, l.asked, l.releases, l.extends, l.long)
		case packets > total:
			l.wrong("", "the load on master %d is too high: %d packets of %d operations", m.index, packets, total)
		case extra > l.asked/2+20:
			l.wrong("", "the load on master %d is too high: %s, though nobody lost a lock", m.index, text)
		}
	}
}
