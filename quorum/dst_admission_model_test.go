package quorum

import (
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// A search through the ways in which proxies admit masters. The judgement is the real one, guard.looked and guard.judge; what
// stands on the masters, the messages and time are a model: every look and every change of a record may come at any moment between
// the others.

const (
	aMasters = 3
	aProxies = 2
	aMaxTTL  = 10 * time.Second
	aForget  = 2 // steps of time after which nothing that was granted stands any more
	aNonces  = 32
)

// aStep is one step of time: two are the wait of a mark.
var aStep = (aMaxTTL + margin(aMaxTTL)) / aForget

// aRecord is a record with a small number for its nonce.
type aRecord struct {
	kind  recordKind
	nonce uint8
}

// aBorn is the field born: the nonces of all masters, or nothing.
type aBorn [aMasters]uint8

// aMaster is one master.
type aMaster struct {
	record aRecord
	born   aBorn
	danger uint8 // steps until what it granted before its memory was lost has run out
}

// aView is what a proxy knows of a master: known, in short.
type aView struct {
	up, changing, stale bool
	record              aRecord
	born                aBorn
	mark, markAge       uint8 // a nonce; steps since it is known
	voted, votedAge     uint8 // a nonce; steps since it was seen to vote
	sent                bool  // a change is on its way
	change              aChange
	fresh               bool // looked at since the newest sign of an opening was first seen
}

type aChange struct {
	from, to aRecord
	empty    bool
	keep     bool // born stays as it is
	born     aBorn
}

// aState is one state. It is comparable.
type aState struct {
	masters   [aMasters]aMaster
	views     [aProxies][aMasters]aView
	inhabited [aProxies]bool
	later     bool  // a step of time has passed since the proxies started: they have waited for masters that do not answer
	flushes   uint8 // that may still happen
}

// admissionRun is what does not change.
type admissionRun struct {
	guard   *guard // whose fields are set for each judgement
	swift   int    // of how many proxies changes are carried out as soon as they have been decided on
	epoch   time.Time
	limit   int // of states
	seeds   [2]maphash.Seed
	seen    map[[2]uint64]struct{}
	records [aMasters][recordMark + 1][aNonces]struct {
		full record
		text string
	}
	borns map[aBorn]string
	ours  string
	path  []string
	found string
}

func newAdmissionRun(limit int, swift int) *admissionRun {
	q := &Quorum{opts: Options{MaxTTL: aMaxTTL, Masters: make([]MasterOptions, aMasters)}, log: zap.NewNop()}
	for i := range q.opts.Masters {
		q.opts.Masters[i].Addr = strconv.Itoa(i)
		q.lanes = append(q.lanes, &lane{index: i, names: make([]string, aMasters), first: make(chan struct{}), log: q.log})
	}
	r := &admissionRun{guard: newGuard(q), epoch: time.Unix(1e9, 0), limit: limit, swift: swift, seen: make(map[[2]uint64]struct{}),
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, borns: make(map[aBorn]string)}
	r.guard.met, r.ours = r.epoch, r.guard.ours.String()
	return r
}

func (r *admissionRun) clock(s *aState) time.Time {
	if s.later {
		return r.epoch.Add(aStep)
	}
	return r.epoch
}

// nonceOf and numberOf are the text of a nonce and back.
func nonceOf(n uint8) string {
	if n == 0 {
		return ""
	}
	return "n" + strconv.Itoa(int(n))
}

func numberOf(nonce string) uint8 {
	n, _ := strconv.Atoi(strings.TrimPrefix(nonce, "n"))
	return uint8(n)
}

// whole is the record of master m as it stands there, and its text.
func (r *admissionRun) whole(m int, short aRecord) (full record, text string) {
	at := &r.records[m][short.kind][short.nonce]
	if at.text == "" && short.kind != recordNone {
		at.full = record{kind: short.kind, nonce: nonceOf(short.nonce), runID: strconv.Itoa(m)}
		switch short.kind {
		case recordVotes:
			at.full.fingerprint = r.guard.fingerprint
		case recordMark:
			at.full.wait, at.full.cause = aMaxTTL, causeNew
		}
		at.text = at.full.String()
	}
	return at.full, at.text
}

// bornText is the field as it stands on a master.
func (r *admissionRun) bornText(b aBorn) string {
	if b == (aBorn{}) {
		return ""
	}
	text, ok := r.borns[b]
	if !ok {
		text = nonceOf(b[0]) + "," + nonceOf(b[1]) + "," + nonceOf(b[2])
		r.borns[b] = text
	}
	return text
}

func bornOf(text string) (b aBorn) {
	if text != "" {
		for i, nonce := range strings.Split(text, ",") {
			b[i] = numberOf(nonce)
		}
	}
	return b
}

// lend gives the guard what proxy p knows.
func (r *admissionRun) lend(s *aState, p int) {
	r.guard.inhabited = s.inhabited[p]
	now := r.clock(s)
	for m := range aMasters {
		v, runID := &s.views[p][m], strconv.Itoa(m)
		k := known{up: v.up, seen: v.up, changing: v.changing, stale: v.stale, view: r.viewOf(m, v.record, v.born, now)}
		k.record, _ = r.whole(m, v.record)
		switch {
		case v.record.kind == recordOpening:
			k.mark = markSeen{runID, nonceOf(v.mark), now.Add(-time.Millisecond)}
		case v.mark != 0:
			k.mark = markSeen{runID, nonceOf(v.mark), now.Add(-time.Duration(v.markAge) * aStep)}
		}
		if !v.fresh {
			k.view.sent = now.Add(-2 * time.Millisecond)
		}
		if v.voted != 0 {
			_, text := r.whole(m, aRecord{recordVotes, v.voted})
			k.voted = votedAs{text, runID, false, now.Add(-time.Duration(v.votedAge) * aStep)}
		}
		r.guard.masters[m] = k
	}
}

func (r *admissionRun) viewOf(m int, short aRecord, born aBorn, now time.Time) view {
	_, text := r.whole(m, short)
	fields := 2
	if short.kind == recordNone {
		fields = 0
	}
	return view{sent: now, at: now, facts: facts{runID: strconv.Itoa(m), mode: "standalone", role: "master"},
		lookReply: lookReply{fields: fields, record: text, born: r.bornText(born), settings: r.ours}}
}

// look is the answer to a look, and what the proxy does about it and about the other masters.
func (r *admissionRun) look(s *aState, p, m int) {
	at, v := &s.masters[m], &s.views[p][m]
	r.lend(s, p)
	now := r.clock(s)
	r.guard.looked(m, r.viewOf(m, at.record, at.born, now))
	k := &r.guard.masters[m]
	v.up, v.stale, v.record, v.born = true, k.stale, at.record, at.born
	mark := numberOf(k.mark.nonce)
	if at.record.kind == recordOpening && mark != v.mark {
		for i := range s.views[p] {
			s.views[p][i].fresh = false
		}
	}
	v.fresh, v.mark, v.markAge = true, mark, 0
	if at.record.kind == recordMark {
		v.markAge = uint8(now.Sub(k.mark.since) / aStep)
	}
	if r.guard.inhabited {
		s.inhabited[p] = true
	}
	if k.voted.record != "" {
		v.voted, v.votedAge = numberOf(parseRecord(k.voted.record).nonce), uint8(now.Sub(k.voted.at)/aStep)
	}
	r.round(s, p)
}

// round is guard.round, with changes that are sent and not yet carried out.
func (r *admissionRun) round(s *aState, p int) {
	r.lend(s, p)
	var none allCounters
	for m := range aMasters {
		ruling := r.guard.judge(m, r.clock(s))
		if ruling.kind == ruledDue {
			ruling = r.guard.endOne(ruling, &none, 0, 0)
		}
		if ruling.kind != ruledChange {
			continue
		}
		c, v := &ruling.change, &s.views[p][m]
		from := parseRecord(c.from)
		v.change = aChange{from: aRecord{from.kind, numberOf(from.nonce)}, to: aRecord{c.to.kind, s.freeNonce()}, empty: c.empty, keep: c.born == "-"}
		if !v.change.keep {
			v.change.born = bornOf(c.born)
		}
		v.stale, v.changing, v.sent = true, true, true
		r.guard.masters[m].stale = true
	}
}

// land carries out the change that p has sent to m. It reports whether a master votes that must not.
func (s *aState) land(p, m int) (wrong bool) {
	v, at := &s.views[p][m], &s.masters[m]
	c := v.change
	v.sent, v.changing, v.change = false, false, aChange{}
	if at.record != c.from {
		return false
	}
	at.record = c.to
	if !c.keep {
		at.born = c.born
	}
	return c.to.kind == recordVotes && at.danger > 0
}

// landAll is land for everything that p has sent.
func (s *aState) landAll(p int) (wrong bool) {
	for m := range aMasters {
		if s.views[p][m].sent && s.land(p, m) {
			wrong = true
		}
	}
	return wrong
}

func (s *aState) count(kind recordKind) (n int) {
	for m := range s.masters {
		if s.masters[m].record.kind == kind {
			n++
		}
	}
	return n
}

// flush empties m. What it has granted may belong to a lock, as a majority could vote.
func (s *aState) flush(m int) {
	s.flushes--
	s.masters[m] = aMaster{danger: aForget}
}

// pass lets a step of time pass. It is longer than a connection can be silent: nothing that was sent before is still on its way,
// and every proxy has to look again.
func (r *admissionRun) pass(s *aState) {
	s.later = true
	for m := range s.masters {
		s.masters[m].danger = max(s.masters[m].danger, 1) - 1
	}
	for p := range s.views {
		for m := range s.views[p] {
			v := &s.views[p][m]
			v.markAge = min(v.markAge+1, aForget)
			v.votedAge = min(v.votedAge+1, aForget)
			v.up, v.changing, v.stale, v.sent, v.change = false, false, false, false, aChange{}
		}
	}
}
