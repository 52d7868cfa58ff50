package quorum

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// View is all that the masters know about a key, even if too few answer.
type View struct {
	// Info is what Inspect returns. With a Fault it is about the holder that most of the answering
	// masters have, or about a Foreign key; Held counts those masters.
	Info Info
	// Fault is nil if Info is certain.
	Fault    *NoQuorumError
	Answered int          // masters
	Masters  []MasterView // in the order of Options.Masters
}

// MasterView is what one master knows about a key.
type MasterView struct {
	// Holds says that the master has the holder of Info, or the Foreign key.
	Holds bool
	// Has says that the master has a key of that name, of mode Mode.
	Has  bool
	Mode Mode
	// Type is the type of a Foreign key in Redis' words; empty: not known.
	Type string
	// Left is how long that key lives. Negative: it has no expiry.
	Left time.Duration
	// Fault is nil if the master answered.
	Fault *MasterError
}

// View asks every master for the holders of key like Inspect, and returns all that they know.
// Its only error is context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) View(ctx context.Context, key string) (View, error) {
	q.calls.enter()
	defer q.calls.leave()
	l, err := q.fleet.look(ctx, key)
	if err != nil {
		return View{}, err
	}
	if foreign := l.foreign(); len(foreign) > 0 && l.types == nil { // too few to matter
		l.readForeign(ctx, q.fleet, key)
	}
	v := View{Info: l.info, Fault: l.fault, Masters: make([]MasterView, len(l.values))}
	// of a quorum, too, for the faults of single masters
	for _, m := range q.fleet.noQuorum(l.answers, l.took).Masters {
		v.Masters[m.Index].Fault = &m
	}
	for i := range l.values {
		if v.Masters[i].Fault == nil {
			v.Answered++
			l.show(&v.Masters[i], i)
		}
	}
	return v, nil
}

// look is the answers of all masters about one key, and the conclusions.
type look struct {
	answers []answer
	values  []wire.Inspected // by master
	took    time.Duration
	info    Info
	latest  *tallied        // the holder of info; nil without one
	types   []string        // by master: of a Foreign key; nil before readForeign
	left    []time.Duration // by master: of a Foreign key
	fault   *NoQuorumError  // nil: info is certain
}

// look asks every master for the holders of key.
func (f *fleet) look(ctx context.Context, key string) (l look, err error) {
	begun := time.Now()
	r, err := f.survey(ctx, wire.Inspect, key)
	if err != nil {
		return l, err
	}
	l.answers, l.values, l.took = r.answers, inspected(r.answers), time.Since(begun)
	l.age()
	n := len(l.values)
	maj, silent := majority(n), n-r.tally.answered()
	var most int
	l.info, l.latest, most = winnerOf(l.values, maj)
	foreign, blocks := l.foreign(), n-maj+1 // so many refusals leave no majority
	unsure := silent > n-maj || most+silent >= maj || len(foreign) > 0 && len(foreign) < blocks &&
		len(foreign)+silent >= blocks
	if l.info.Held == 0 && unsure {
		l.fault = f.noQuorum(l.answers, l.took)
		l.info, l.latest = mostHeld(l.values)
	}
	if l.info.Held == 0 && len(foreign) >= blocks || l.fault != nil && len(foreign) > l.info.Held {
		l.readForeign(ctx, f, key)
		l.showForeign(foreign)
	}
	if l.info.Key = key; l.fault != nil && l.info.Held > 0 {
		seen := l.info
		l.fault.Seen = &seen
	}
	return l, nil
}

// age takes the wait for other masters off the lives of holders.
func (l *look) age() {
	for _, v := range l.values {
		for i := range v.Holders {
			if h := &v.Holders[i]; h.Left != wire.Forever {
				h.Left = max(h.Left-time.Since(v.Came), time.Millisecond)
			}
		}
	}
}

// foreign returns the masters that have a Foreign key.
func (l *look) foreign() (masters []int) {
	for i := range l.values {
		if l.values[i].Mode == Foreign {
			masters = append(masters, i)
		}
	}
	return masters
}

// readForeign asks the masters for the type and life of a Foreign key. A master that no longer
// answers leaves both unknown.
func (l *look) readForeign(ctx context.Context, f *fleet, key string) {
	l.types, l.left = make([]string, len(l.values)), make([]time.Duration, len(l.values))
	key = f.opts.KeyPrefix + key
	f.callAll(ctx, func(lane int, r wire.Reply) {
		if r.Kind == '+' && r.Text != "none" {
			l.types[lane] = r.Text
		}
	}, wire.AppendCommand(nil, "TYPE", key))
	f.callAll(ctx, func(lane int, r wire.Reply) {
		if r.Kind != ':' {
			return
		}
		l.left[lane] = wire.Forever
		if r.Int >= 0 {
			l.left[lane] = time.Duration(min(r.Int, int64(wire.Forever/time.Millisecond))) * time.Millisecond
		}
	}, wire.AppendCommand(nil, "PTTL", key))
}

// showForeign makes info about the Foreign key that these masters have.
func (l *look) showForeign(masters []int) {
	l.info, l.latest = Info{Masters: len(l.values), Mode: Foreign, Held: len(masters)}, nil
	var lefts []time.Duration
	var types []string
	for _, i := range masters {
		lefts = append(lefts, l.left[i])
		types = append(types, l.types[i])
	}
	l.info.Type = typesText(types)
	slices.Sort(lefts)
	blocks := len(l.values) - majority(len(l.values)) + 1
	l.info.TTL = infoTTL(lefts[max(len(lefts)-blocks, 0)])
	l.info.Latest = l.info.TTL
}

// typesText returns the type that masters agree on, or all: "hash on 2, list on 1". It skips empty
// ones.
func typesText(types []string) string {
	counts := map[string]int{}
	for _, t := range types {
		if t != "" {
			counts[t]++
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	if len(names) == 1 {
		return names[0]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s on %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}

// show describes the key on master i.
func (l *look) show(m *MasterView, i int) {
	found := &l.values[i]
	m.Mode = found.Mode
	if found.Mode == Foreign {
		m.Has, m.Holds = true, l.info.Mode == Foreign
		if l.types != nil {
			m.Type, m.Left = l.types[i], infoTTL(l.left[i])
		}
		return
	}
	for _, h := range found.Holders {
		holds := l.latest != nil && h.ID == l.latest.ID && h.Slot == l.latest.Slot
		if m.Has && !holds {
			continue
		}
		m.Has, m.Left = true, infoTTL(h.Left)
		if h.Closed {
			m.Mode = Kept
		}
		if holds {
			m.Holds = true
			return
		}
	}
}
