package admission

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// Adopt returns the change that LOCKPROXY ADMIT makes of a master, given a fresh probe of it. ok
// is false if the master needs no change. The error is the reason why it cannot be moved.
//
// A master with the record of proxies with other settings is moved to ours, and votes for no proxy
// until the larger max-ttl has passed. A master in quarantine is admitted at the end of that even
// if other masters cannot be reached.
func (g *Guard) Adopt(i int, p wire.ProbeReply, now time.Time) (c RecordUpdate, ok bool, err error) {
	before := g.masters[i]
	defer func() { g.masters[i] = before }()
	m := &g.masters[i] // as it is now, while this runs
	m.o.ProbeReply, m.rec = p, parseRecord(p.Record)
	off := g.o.Mode == Off
	switch r := m.rec; {
	case !m.up:
		return c, false, errProbing
	case m.o.ServerInfo.MayEvict() && !g.o.AllowEviction:
		return c, false, mayEvictError(m.o.ServerInfo.Policy)
	case (!off && m.votes() || off && r.kind == recordOff) && r.fingerprint == g.fingerprint:
		return c, false, nil
	case m.marked() && (r.fingerprint == g.fingerprint || r.fingerprint == "" && !off):
		if r.override || off {
			return c, false, nil
		}
		r.override = true // with its nonce: the wait goes on
		return RecordUpdate{From: p.Record, To: r.String(), Settings: keep, Known: keep, Durable: keep}, true, nil
	}
	// Without fencing the counters were not kept up.
	fenced := parseSettings(p.Settings).value("fencing") == "on"
	like := record{fingerprint: g.fingerprint, override: m.rec.kind == recordNone || g.survived(i),
		kept: m.hasCounters() && (fenced || !g.o.Fencing)}
	v := g.view(now)
	return v.newMark(i, causeMoved, like), true, nil
}
