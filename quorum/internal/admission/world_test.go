package admission

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// A world of servers, addresses and proxies, in virtual time, for walks through the decisions of
// the real Guard. Messages may be late, but keep their order on a connection.

const wMaxTTL = 10 * time.Second

// wLife is how long a key of a promised wMaxTTL lives.
var wLife = wire.Life(wMaxTTL)

// wSlots is how many counters the servers have.
const wSlots = 8

// wServer is one server. It keeps one lock and its counter.
type wServer struct {
	name     string
	run      int
	flushes  int
	hash     map[string]string // the state without counters
	counters map[uint16]uint64
	token    int
	until    time.Time // when the lock runs out
	durable  bool
	rewrites bool // its append-only file is being rewritten
	down     bool
	broken   bool    // it refuses writes
	hangs    *wProxy // to it
	asked    int     // how often
	policy   string
	evicted  int64
	ahead    time.Duration
	mended   time.Time  // when it could be written again
	unaware  []*unaware // of others, by master: it refused writes when these began to vote
	before   struct {   // of some time ago
		hash     map[string]string
		counters map[uint16]uint64
		token    int
		until    time.Time
	}
}

func newServer(name string) *wServer {
	return &wServer{name: name, run: 1, hash: map[string]string{}, counters: map[uint16]uint64{}}
}

func (s *wServer) runID() string { return fmt.Sprintf("%s-%d", s.name, s.run) }

func (s *wServer) flush() {
	s.hash, s.counters, s.token = map[string]string{}, map[uint16]uint64{}, 0
	s.flushes++
}

// restart begins another run, with the files of the last one or empty.
func (s *wServer) restart(keep bool) {
	s.run++
	if !keep {
		s.flush()
	}
}

func (s *wServer) facts() ServerInfo {
	f := ServerInfo{RunID: s.runID(), Mode: "standalone", Role: "master", Evicted: s.evicted}
	if s.policy != "" {
		f.Limited, f.Policy = true, s.policy
	}
	if s.durable {
		f.AOF, f.ConfigKnown, f.FsyncAlways, f.LastWriteOK, f.NoReplicas, f.Rewriting = true, true, true, true, true,
			s.rewrites
	}
	return f
}

func (s *wServer) probe(now time.Time) wire.ProbeReply {
	return wire.ProbeReply{Clock: time.Duration(now.UnixNano()) + s.ahead, Fields: len(s.hash) + len(s.counters),
		Record:   s.hash["record"],
		Settings: s.hash["settings"], Known: s.hash["known"], Durable: s.hash["durable"], Writes: s.writes()}
}

// writes is how many packets it has counted as durable.
func (s *wServer) writes() uint64 {
	n, _ := strconv.ParseUint(s.hash["writes"], 10, 64)
	return n
}

// admit is admit.lua.
func (s *wServer) admit(c *RecordUpdate) (bool, error) {
	s.asked++
	switch {
	case s.hash["record"] != c.From, c.Empty && len(s.hash)+len(s.counters) > 0:
		return false, nil
	case s.broken:
		return false, fmt.Errorf("answered OOM")
	}
	for i := range uint16(wSlots) {
		s.counters[i] = max(s.counters[i], c.Floor)
	}
	if c.Settings != keep {
		s.hash["settings"] = c.Settings
	}
	switch c.Durable {
	case keep:
	case "":
		delete(s.hash, "durable")
	default:
		if s.hash["durable"] = c.Durable; s.writes() == 0 {
			s.hash["writes"] = fmt.Sprint(c.Writes)
		}
	}
	switch c.Known {
	case keep:
	case "":
		delete(s.hash, "known")
	default:
		s.hash["known"] = mergeKnown(s.hash["known"], c.Known)
	}
	s.hash["record"] = c.To
	return true, nil
}

// mergeKnown merges two values of the field known, like the scripts.
func mergeKnown(have, other string) string {
	a, b := strings.Fields(have), strings.Fields(other)
	if len(a) != len(b) || a[0] != b[0] {
		return other
	}
	for i := range a {
		x, y := parseNonce(a[i]), parseNonce(b[i])
		if i > 0 && b[i] != "0" && (a[i] == "0" || y.number > x.number || y.admission == x.admission &&
			y.evicted > x.evicted) {
			a[i] = b[i]
		}
	}
	return strings.Join(a, " ")
}

// top is the largest counter.
func (s *wServer) top() (top uint64) {
	for _, n := range s.counters {
		top = max(top, n)
	}
	return top
}

// wMessage is a command on its way, or its answer.
type wMessage struct {
	sent  time.Time
	write bool
	run   func(s *wServer) // on the server; nil once it has run
	done  func(lost bool)  // in the proxy
}

type wLane struct {
	up      bool
	conn    uint64
	server  *wServer
	queue   []*wMessage
	votes   bool
	record  string
	state   stat.State
	reason  error
	until   time.Time // its votes count
	writes  uint64
	probed  time.Time
	probing bool
	cut     bool
	flaky   bool     // it breaks at the next write
	to      *wServer // the server at the address, for this proxy alone
	stepped bool     // until ActForgive
	demoted bool
}

type wProxy struct {
	w      *world
	n      int
	skew   time.Duration // of its clock
	g      *Guard
	lanes  []wLane
	paused bool
	next   time.Time
	alarms []string
	says   []string
	worked map[int]working // masters that voted together, and are undisturbed since
}

// world is all of it.
type world struct {
	*rand.Rand
	now      time.Time
	masters  []*wServer       // where each address leads to
	other    *wServer         // where address 0 may lead instead
	away     map[int]*wServer // where addresses lead for some, see wLane.to
	proxies  []*wProxy
	mode     GuardMode
	unfenced bool // fencing: off
	conns    uint64
	tokens   int
	trace    []string
	wrong    string
	grants   int

	holder      wHold
	fence       uint64
	quarantines int

	survived map[admission]admission // by admission without a wait: the one before

	mutation string
	prompt   bool // no message is late
	terse    bool // no trace
	gap      bool // see admitted
}

// wHold is the lock that is held.
type wHold struct {
	token int
	until time.Time
}

func newWorld(seed uint64, n int) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1.7e9, 0), away: map[int]*wServer{},
		survived: map[admission]admission{}}
	for i := range n {
		w.masters = append(w.masters, newServer(fmt.Sprint("s", i)))
	}
	w.other = newServer("other")
	return w
}

func (w *world) note(format string, args ...any) {
	if w.terse {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%8v ", w.now.Sub(time.Unix(1.7e9, 0)))+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
		w.note("WRONG %s", w.wrong)
	}
}

func (w *world) start(change ...func(*Options)) *wProxy {
	p := &wProxy{w: w, n: len(w.proxies), lanes: make([]wLane, len(w.masters)), worked: map[int]working{}}
	o := Options{KeyPrefix: "lock:", MaxTTL: wMaxTTL, Fencing: !w.unfenced, Mode: w.mode, Floor: new(Floor),
		Nonce: func() string {
			return fmt.Sprintf("%016x", w.Uint64())
		}}
	for i := range w.masters {
		o.IDs, o.Names = append(o.IDs, fmt.Sprint("m", i)), append(o.Names, fmt.Sprint("m", i))
	}
	for _, f := range change {
		f(&o)
	}
	p.lanes = p.lanes[:len(o.IDs)]
	p.g = New(o)
	w.note("proxy %d starts", p.n)
	w.proxies = append(w.proxies, p)
	return p
}

func (p *wProxy) send(i int, write bool, run func(s *wServer), done func(lost bool)) {
	l := &p.lanes[i]
	l.queue = append(l.queue, &wMessage{p.w.now, write, run, done})
}

func (p *wProxy) evaluate() {
	actions, next := p.g.Evaluate(p.w.now.Add(p.skew))
	if p.next = next; !next.IsZero() {
		p.next = next.Add(-p.skew)
	}
	p.apply(actions)
}

func (p *wProxy) apply(actions []Action) {
	for k := range actions {
		a := &actions[k]
		l := &p.lanes[a.Master]
		current := l.up && l.conn == a.Conn
		switch a.Kind {
		case ActVote:
			if current && (l.votes || !l.probing) {
				if l.record != a.Record {
					l.writes = 0
				}
				l.votes, l.record, l.until, l.reason = true, a.Record, a.Until.Add(-p.skew), nil
			}
		case ActExclude:
			if current {
				l.votes, l.state, l.reason = false, a.State, a.Reason
			}
		case ActChange:
			p.change(a, current)
		case ActLearn:
			p.tell(a, current)
		case ActForgive:
			l.stepped, l.demoted = false, false
		case ActAlarm:
			p.alarms = append(p.alarms, a.Alarm)
		case ActProbe:
			p.probe(a.Master)
		}
	}
}

func (p *wProxy) change(a *Action, current bool) {
	if !current {
		p.g.Changed(a, false, fmt.Errorf("lost"))
		return
	}
	var done bool
	var err error
	p.send(a.Master, true, func(s *wServer) {
		if done, err = s.admit(&a.Change); done {
			p.w.note("proxy %d: %s %q -> %q %s", p.n, s.name, a.Change.From, a.Change.To, a.Change.Known)
			switch from, to := parseRecord(a.Change.From), parseRecord(a.Change.To); {
			case a.Change.keepsRecord():
			case from.kind == recordVotes && to.kind == recordVotes:
				p.w.survived[to.admission] = from.admission
			case to.kind == recordMark:
				p.w.quarantines++
			case to.kind == recordVotes:
				p.w.admitted(p, a.Master, to.admission)
			}
		}
	}, func(lost bool) {
		if lost {
			done, err = false, fmt.Errorf("lost")
		}
		more, says := p.g.Changed(a, done, err)
		if says != "" {
			p.says = append(p.says, says)
		}
		p.apply(more)
		if err == nil {
			p.probe(a.Master)
		}
		p.evaluate()
	})
}

func (p *wProxy) tell(a *Action, current bool) {
	said := Learned{Err: fmt.Errorf("lost")}
	if !current {
		p.g.Learned(a, said)
		return
	}
	var got Learned
	p.send(a.Master, true, func(s *wServer) {
		if got = p.learn(s, a); got.Err == nil {
			p.w.note("proxy %d: %s knows %s", p.n, s.name, got.Known)
		}
	}, func(lost bool) {
		if !lost {
			said = got
		}
		p.g.Learned(a, said)
		p.evaluate()
	})
}

// learn is learn.lua.
func (p *wProxy) learn(s *wServer, a *Action) (said Learned) {
	if s.hash["record"] != a.Record {
		return Learned{Err: fmt.Errorf("NOTADMITTED")}
	}
	said.Known = mergeKnown(s.hash["known"], a.Known)
	switch {
	case said.Known == s.hash["known"]:
	case s.broken:
		said = Learned{Err: fmt.Errorf("answered OOM"), Refused: true}
	case p.w.mutation != "nobody is told":
		s.hash["known"] = said.Known
	}
	if a.Count {
		said.Top, said.Counted = s.top(), true
	}
	return said
}

func (p *wProxy) probe(i int) {
	l := &p.lanes[i]
	if !l.up || l.probing {
		return
	}
	l.probing, l.probed = true, p.w.now
	o := Observation{Conn: l.conn, Sent: p.w.now.Add(p.skew)}
	p.send(i, false, func(s *wServer) { o.ServerInfo, o.ProbeReply = s.facts(), s.probe(p.w.now) }, func(lost bool) {
		if lost {
			return
		}
		l.probing = false
		o.At, o.Stepped, o.Demoted = p.w.now.Add(p.skew), l.stepped, l.demoted
		p.g.Observe(i, o)
		if p.w.mutation == "the old record believed" {
			p.believeAll()
		}
		p.evaluate()
	})
}

// believeAll makes the proxy find every record confirmed by all.
func (p *wProxy) believeAll() {
	for i := range p.g.masters {
		m := &p.g.masters[i]
		m.last = lastVote{}
		if m.rec.kind != recordVotes {
			continue
		}
		m.rec.id = p.g.idFor(i, m.rec.id)
		for j := range p.g.masters {
			p.g.masters[j].known[i].admission = m.rec.admission
		}
	}
}

// leads returns the server at the address of a master, for p.
func (p *wProxy) leads(i int) *wServer {
	if to := p.lanes[i].to; to != nil {
		return to
	}
	return p.w.masters[i]
}

func (p *wProxy) connect(i int) {
	l := &p.lanes[i]
	p.w.conns++
	*l = wLane{up: true, conn: p.w.conns, server: p.leads(i), to: l.to, flaky: l.flaky, cut: l.cut, stepped: l.stepped}
	p.probe(i)
}

func (p *wProxy) disconnect(i int) {
	l := &p.lanes[i]
	if !l.up {
		return
	}
	queue := l.queue
	l.up, l.votes, l.queue = false, false, nil
	for _, m := range queue {
		if m.run != nil && l.server.hangs != p && p.w.IntN(2) == 0 {
			m.run(l.server) // it was carried out, the answer is lost
		}
	}
	for _, m := range queue {
		m.done(true)
	}
	p.g.Lost(i, l.writes)
	p.evaluate()
}

// turn lets a proxy do some of its work.
func (p *wProxy) turn() {
	for _, i := range p.w.Perm(len(p.lanes)) {
		l := &p.lanes[i]
		switch {
		case !l.up && !l.cut && !p.leads(i).down && (p.w.prompt || p.w.IntN(3) == 0):
			p.connect(i)
		case l.up && l.server.down:
			p.disconnect(i)
		case l.up && len(l.queue) > 0 && p.w.now.Sub(l.queue[0].sent) > 3*time.Second:
			p.disconnect(i)
		case l.up && p.w.now.Sub(l.probed) >= time.Second:
			p.probe(i)
		}
		for l.up && len(l.queue) > 0 && l.server.hangs != p && (p.w.prompt || p.w.IntN(5) > 0) {
			if m := l.queue[0]; m.write && l.flaky && p.w.IntN(4) > 0 {
				p.disconnect(i)
			} else if m.run != nil {
				m.run(l.server)
				m.run = nil
			} else {
				l.queue = l.queue[1:]
				m.done(false)
			}
		}
	}
	if !p.next.IsZero() && !p.w.now.Before(p.next) {
		p.evaluate()
	}
}

// acquire is one attempt for the lock, with all messages at once, of which some are lost.
func (p *wProxy) acquire(ttl time.Duration) {
	var on []int
	for i := range p.lanes {
		if p.w.IntN(3) != 0 {
			on = append(on, i)
		}
	}
	p.acquireOn(ttl, on...)
}

// acquireOn is an attempt on some of the masters.
func (p *wProxy) acquireOn(ttl time.Duration, on ...int) {
	w := p.w
	w.tokens++
	token := w.tokens
	var granted []*wServer
	fence := uint64(0)
	for _, i := range on {
		l := &p.lanes[i]
		if !l.up || !l.votes || l.cut || w.mutation != "votes of any age" && w.now.After(l.until) {
			continue
		}
		s := l.server
		if s.hash["record"] != l.record {
			l.votes = false
			p.probe(i)
			continue
		}
		if s.broken || s.hangs == p || w.blind(s) || s.token != 0 && w.now.Before(s.until) {
			continue
		}
		if n := s.writes(); n > 0 {
			s.hash["writes"] = fmt.Sprint(n + 1)
			l.writes = n + 1
		}
		s.counters[0]++
		fence = max(fence, s.counters[0])
		s.token, s.until = token, w.now.Add(ttl)
		granted = append(granted, s)
	}
	if len(granted) < p.g.majority() {
		for _, s := range granted {
			s.token = 0
		}
		return
	}
	var names strings.Builder
	for _, s := range granted {
		s.counters[0] = max(s.counters[0], fence)
		names.WriteString(" " + s.name)
	}
	p.g.o.Floor.Raise(fence)
	w.grants++
	w.note("proxy %d grants %d fence %d for %v on%s", p.n, token, fence, ttl, names.String())
	if w.now.Before(w.holder.until) {
		w.fail("token %d is granted while %d is held for another %v", token, w.holder.token, w.holder.until.Sub(w.now))
	}
	if fence <= w.fence && !w.unfenced {
		w.fail("fence %d after %d", fence, w.fence)
	}
	w.holder, w.fence = wHold{token, w.now.Add(ttl)}, fence
}

// release ends the lock that is held.
func (w *world) release() {
	for _, s := range w.servers() {
		if s.token == w.holder.token {
			s.token = 0
		}
	}
	w.holder.until = w.now
}

// states are the states of all masters for a proxy: v votes, q does not yet, r must not, d is
// down.
func (p *wProxy) states() string {
	var text strings.Builder
	for i := range p.lanes {
		switch l := &p.lanes[i]; {
		case !l.up:
			text.WriteString("d")
		case l.votes:
			text.WriteString("v")
		case l.state == stat.StateRefused:
			text.WriteString("r")
		default:
			text.WriteString("q")
		}
	}
	return text.String()
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// settle lets all proxies run undisturbed.
func (w *world) settle(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.pass(100 * time.Millisecond) {
		for _, p := range w.proxies {
			p.turn()
		}
	}
}

// heal makes every connection lead where its address does, and ends all pauses and cuts.
func (w *world) heal() {
	for _, p := range w.proxies {
		p.paused = false
		for i := range p.lanes {
			l := &p.lanes[i]
			l.cut, l.flaky, l.to, w.masters[i].hangs, w.other.hangs = false, false, nil, nil, nil
			w.masters[i].down = false
			if p.lanes[i].server != w.masters[i] {
				p.disconnect(i)
			}
		}
	}
}

func (w *world) text() string { return strings.Join(w.trace, "\n") }
