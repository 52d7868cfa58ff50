package admission

import (
	"strconv"

	"lockproxy/stat"
)

// keep leaves a field of the state hash as it is; an empty text deletes it.
const keep = "-"

// Change is one call of admit.lua: a compare-and-set of the record.
type Change struct {
	From     string // the record that must be there
	Empty    bool   // the hash must be empty
	To       string
	Settings string // keep leaves it
	Known    string // keep leaves it, empty deletes it, all else is merged
	Durable  string // keep leaves it, empty deletes it
	Writes   uint64 // first count of packets if Durable is set; a running count goes on
	Floor    uint64 // no counter may be lower

	warning string // for the log, after success
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
	return []string{c.From, empty, c.To, c.Settings, c.Known, c.Durable, strconv.FormatUint(c.Writes, 10), floor}
}

// note reports whether the record stays.
func (c *Change) note() bool { return c.From == c.To }

// admission is the change that lets a master vote under that nonce. It learns all that this
// proxy knows of the others.
func (e *evaluation) admission(i int, n nonce) Change {
	g, m, known := e.g, &e.g.masters[i], e.known()
	n.evicted = m.o.Facts.Evicted
	c := Change{From: m.o.Record, Settings: g.settings.String(), To: record{kind: recordVotes,
		runID: m.o.Facts.RunID, fingerprint: g.fingerprint, nonce: n}.String()}
	if m.o.Facts.Durable() {
		c.Durable, c.Writes = m.o.Facts.RunID, e.firstWrite()
	}
	known[i] = knowledge{n.admission, m.o.Writes}
	c.Known = g.knownText(known)
	return c
}

// Changed takes the answer to an ActChange: done is true if the script answered 1; err is the error
// reply or the reason why there is no answer. warning is for the log, once for several in a row.
// Without an error the lane probes next; after one, to probe at once would make a loop. Evaluate
// follows.
func (g *Guard) Changed(a *Action, done bool, err error) (actions []Action, warning string) {
	m, c := &g.masters[a.Master], &a.Change
	m.changing = false
	switch {
	case err != nil && !c.note():
		return []Action{{Kind: ActExclude, Master: a.Master, Conn: a.Conn, State: stat.StateQuarantined, Reason: err}}, ""
	case err != nil || !done:
		return nil, ""
	}
	g.o.Floor.Raise(c.Floor)
	if parseRecord(c.To).kind == recordMark && !c.note() {
		actions = []Action{{Kind: ActForgive, Master: a.Master, Conn: a.Conn}}
	}
	return actions, c.warning
}
