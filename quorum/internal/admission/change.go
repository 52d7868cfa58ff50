package admission

import (
	"lockproxy/stat"
)

// admission is the change that lets a master vote under that nonce. It learns all that this
// proxy knows of the others.
func (e *view) admission(i int, n nonce) RecordUpdate {
	g, m, known := e.g, &e.g.masters[i], e.known()
	n.evicted = m.o.ServerInfo.Evicted
	c := RecordUpdate{From: m.o.Record, Settings: g.settings.String(), To: record{kind: recordVotes,
		runID: m.o.ServerInfo.RunID, fingerprint: g.fingerprint, nonce: n}.String()}
	if m.o.ServerInfo.Durable() {
		c.Durable, c.Writes = m.o.ServerInfo.RunID, e.firstWrite()
	}
	known[i] = knowledge{n.admission, m.o.Writes}
	c.Known = g.knownText(known)
	return c
}

// Changed takes the answer to an ActChange: done is true if the script answered 1; err is the
// error reply or the reason why there is no answer. warning is for the log, once for several in a
// row. Without an error the lane probes next; after one, to probe at once would make a loop.
// Evaluate follows.
func (g *Guard) Changed(a *Action, done bool, err error) (actions []Action, warning string) {
	m, c := &g.masters[a.Master], &a.Change
	m.changing = false
	switch {
	case err != nil && !c.keepsRecord():
		return []Action{{Kind: ActExclude, Master: a.Master, Conn: a.Conn, State: stat.StateQuarantined, Reason: err}}, ""
	case err != nil || !done:
		return nil, ""
	}
	g.o.Floor.Raise(c.Floor)
	if parseRecord(c.To).kind == recordMark && !c.keepsRecord() {
		actions = []Action{{Kind: ActForgive, Master: a.Master, Conn: a.Conn}}
	}
	return actions, c.warning
}
