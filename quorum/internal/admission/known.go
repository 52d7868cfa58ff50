package admission

import (
	"fmt"
	"strings"
	"time"
)

// numberAfter returns a number for a new admission of master i: the clock's, above all others that
// this proxy knows.
func (e *view) numberAfter(i int) uint64 {
	m := &e.g.masters[i]
	known := max(m.rec.number, e.newest(i).number, m.last.number, m.mark.number)
	return max(uint64(max(e.now.UnixMilli(), 1)), known+1)
}

// newAdmission draws a new admission of master i.
func (e *view) newAdmission(i int) nonce {
	return nonce{admission{e.numberAfter(i), e.g.idFor(i, e.g.o.Nonce())}, e.g.masters[i].o.ServerInfo.Evicted}
}

// idFor makes the id of an admission of a master out of random hex digits. It begins with the
// master's place: a server is never believed in the place of another.
func (g *Guard) idFor(i int, random string) string {
	return g.placeText(i) + random[min(2, len(random)):]
}

func (g *Guard) placeText(i int) string { return fmt.Sprintf("%02x", g.place[i]&0xff) }

// The field known of a master's state hash holds its knowledge:
//
//	<fingerprint> <nonce of master 0> <nonce of master 1> ...
//
// in the order of their ids, 0 for none; the middle of a nonce is the number of writes. The
// scripts merge it: the later stays.

// parseKnown returns the knowledge of a master, by master. Admissions by proxies with other
// settings are none.
func (g *Guard) parseKnown(text string) []knowledge {
	known := make([]knowledge, len(g.masters))
	word := strings.Fields(text)
	if len(word) != len(known)+1 || word[0] != g.fingerprint {
		return known
	}
	for i := range known {
		if text := word[1+g.place[i]]; text != "0" {
			n := parseNonce(text)
			known[i] = knowledge{n.admission, uint64(max(n.evicted, 0))}
		}
	}
	return known
}

// knownText is the field for this knowledge.
func (g *Guard) knownText(known []knowledge) string {
	word := make([]string, len(known)+1)
	word[0] = g.fingerprint
	for i, k := range known {
		text := "0"
		switch {
		case k.number > 0:
			text = nonce{k.admission, int64(k.writes)}.String()
		case k.id != "":
			text = k.id
		}
		word[1+g.place[i]] = text
	}
	return strings.Join(word, " ")
}

// newest is the latest admission of a master that the others have learned or this proxy remembers.
func (e *view) newest(i int) (top knowledge) {
	for j := range e.g.masters {
		if j != i && e.intact[j] && e.g.masters[j].known[i].later(top) {
			top = e.g.masters[j].known[i]
		}
	}
	if v := &e.g.masters[i].last; v.later(top) && e.remembers(i) {
		top = v.knowledge
	}
	return top
}

// known is the latest admission of every master that this proxy knows.
func (e *view) known() []knowledge {
	known := make([]knowledge, len(e.g.masters))
	for i := range known {
		known[i] = e.newest(i)
		m := &e.g.masters[i]
		if now := (knowledge{m.rec.admission, m.o.Writes}); m.up && (e.g.ours(m) || e.intact[i]) && now.later(known[i]) {
			known[i] = now
		}
	}
	return known
}

// ours reports whether the master votes for proxies with these settings, or is in quarantine.
func (g *Guard) ours(m *master) bool {
	return m.votes() && m.rec.fingerprint == g.fingerprint || m.marked()
}

// remembers reports whether this proxy saw the master vote so lately that a lock granted then may
// still be held. After that it relies on the other masters.
func (e *view) remembers(i int) bool {
	return e.now.Sub(e.g.masters[i].last.at) < hold(e.g.o.MaxTTL)
}

// retell is the time between two reports of a durable master's writes to one other master.
const retell = time.Second

// teach makes a master learn newer admissions of the others. A master without its memory learns
// only when it is admitted: until then its knowledge does not count.
func (e *evaluation) teach(i int) {
	g, m := e.g, &e.g.masters[i]
	if g.o.Mode == Off || !e.intact[i] || m.learning || m.changing {
		return
	}
	known := e.known()
	for j, k := range known {
		if j == i || !k.later(m.known[j]) {
			continue
		}
		if k.admission == m.known[j].admission && g.masters[j].up && e.now.Sub(m.taughtAt) < retell {
			e.again(m.taughtAt.Add(retell))
			continue
		}
		m.learning, m.taughtAt = true, e.now
		e.do(i, Action{Kind: ActLearn, Known: g.knownText(known), Record: m.o.Record})
		return
	}
}

// Learned is the answer of a master to an ActLearn.
type Learned struct {
	Known   string // all that it knows now
	Top     uint64 // its largest counter, if Counted
	Counted bool
	Err     error // the reason why it did not learn
	Refused bool  // Err is an error reply to the write: the master is full, for example
}

// Learned takes the answer to an ActLearn. Evaluate follows.
func (g *Guard) Learned(a *Action, said Learned) {
	m := &g.masters[a.Master]
	if a.Conn != m.o.Conn {
		return
	}
	if a.Count {
		m.count.pending = false
		if said.Counted {
			m.count.top, m.count.asked = said.Top, a.At
		} else {
			m.count.failed = a.At
		}
	}
	switch {
	case said.Refused:
		m.refused = a.At
	case said.Err == nil: // else learning stays set until the next observation
		m.learning, m.known, m.refused = false, g.parseKnown(said.Known), time.Time{}
	}
}
