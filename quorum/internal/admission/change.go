package admission

import (
	"strconv"

	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// keep leaves a field of the state hash as it is; an empty text deletes it.
const keep = "-"

// Change is one call of admit.lua: a compare-and-set of the record.
type Change struct {
	From     string // the record that must stand there
	Empty    bool   // nothing else may be in the hash
	To       string
	Settings string // keep leaves these three, empty deletes them; Known is merged
	Known    string
	Durable  string
	Floor    uint64 // no counter may be under it
	Counters string // the same for single ones

	warning string // what the log says once it is done
}

// Args are the ARGV of admit.lua.
func (c *Change) Args() []string {
	empty, floor := "", ""
	if c.Empty {
		empty = "1"
	}
	if c.Floor > 0 {
		floor = strconv.FormatUint(c.Floor, 10)
	}
	return []string{c.From, empty, c.To, c.Settings, c.Known, c.Durable, floor, c.Counters}
}

// note reports whether the record stays what it is.
func (c *Change) note() bool { return c.From == c.To }

// admit is the change that lets a master vote, as that admission of it.
func (g *Guard) admit(i int, a admission, known []admission) Change {
	m := &g.masters[i]
	known[i] = a
	c := Change{From: m.o.Record, Settings: g.settings.String(), Known: g.knownText(known), To: record{kind: recordVotes,
		runID: m.o.Facts.RunID, fingerprint: g.fingerprint, nonce: nonce{a, m.o.Facts.Evicted}}.String()}
	if m.o.Facts.Durable() {
		c.Durable = m.o.Facts.RunID
	}
	return c
}

// Changed is told how an ActChange ended: done is true if the script answered 1; err is the reason
// why there is no answer, or the error reply. warning is what the log should say of it, once for
// several in a row. Without an error the lane probes next; after one, to probe at once would make a
// loop. Evaluate follows.
func (g *Guard) Changed(a *Action, done bool, err error) (actions []Action, warning string) {
	m, c := &g.masters[a.Master], &a.Change
	m.changing = false
	switch {
	case err != nil && !c.note():
		return []Action{{Kind: ActExclude, Master: a.Master, Conn: a.Conn, State: stat.StateQuarantined, Reason: err}}, ""
	case err != nil || !done:
		return nil, ""
	}
	if c.Floor > 0 {
		for i := range uint16(wire.Slots) {
			g.o.Floors.Raise(i, c.Floor)
		}
	}
	if parseRecord(c.To).kind == recordMark && !c.note() {
		actions = []Action{{Kind: ActForgive, Master: a.Master, Conn: a.Conn}}
	}
	return actions, c.warning
}
