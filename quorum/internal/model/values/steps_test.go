package values

import "fmt"

// The steps from one state to the next.

type event struct {
	name string
	i, m int
}

func (e event) String() string { return fmt.Sprintf("%s(%c,%d)", e.name, 'A'+e.i, e.m) }

// successors visits the states that can follow s.
type successors struct {
	*run
	s       *state
	next    *state
	visit   func(next *state, what event) bool // reports whether to continue
	stopped bool
}

// may visits the state after a change, if that differs from s.
func (x *successors) may(name string, i, m int, change func(next *state)) {
	if x.stopped {
		return
	}
	*x.next = *x.s
	if change(x.next); *x.next != *x.s {
		x.stopped = !x.visit(x.next, event{name, i, m})
	}
}

func (x *successors) steps() {
	for i, role := range x.roles {
		c := x.s.calls[i]
		if c.phase == idle && (role.after < 0 || x.s.calls[role.after].phase >= won) {
			x.may("begin", i, 0, func(next *state) { x.begin(next, i) })
		}
		for m := range x.n {
			if first := x.s.masters[m].to[i].lane[0].op; first != none {
				x.may(opNames[first], i, m, func(next *state) { x.arrive(next, i, m) })
			}
		}
		switch {
		case c.phase == finding:
			x.find(i)
		case c.phase == asking:
			x.decide(i)
		case c.phase >= won && x.tooLate && role.kind == refresh && c.secret > 0:
			x.shorten(i)
		}
	}
	for m := range x.n {
		if x.s.losses > 0 && x.s.masters[m].out == 0 {
			x.may("forget", 0, m, func(next *state) { x.forget(next, m) })
		}
	}
	if x.s.ticks > 0 {
		x.may("tick", 0, 0, x.tick)
	}
}

// begin sends the first messages of a call.
func (r *run) begin(s *state, i int) {
	c, role := &s.calls[i], r.roles[i]
	for j := range r.roles {
		if s.calls[j].phase >= won {
			c.before |= 1 << j
		}
	}
	switch {
	case role.kind == take:
		c.secret = uint8(1 + i)
		r.act(s, i, acquire)
	case role.kind == check:
		c.secret = uint8(1 + role.knows)
		if s.calls[role.knows].phase == won {
			r.act(s, i, ask)
		} else {
			c.phase = over
		}
	case role.knows >= 0 && s.calls[role.knows].phase == won:
		r.actOn(s, i, uint8(1+role.knows))
	default:
		c.phase = finding
		for m := range r.n {
			s.send(i, m, message{op: inspect})
		}
	}
}

// act asks all masters.
func (r *run) act(s *state, i int, o op) {
	s.calls[i].phase, s.calls[i].clear = asking, true
	for m := range r.n {
		s.masters[m].to[i].said = silent
		s.send(i, m, message{op: o})
	}
}

// actOn begins a refresh or release of a secret.
func (r *run) actOn(s *state, i int, secret uint8) {
	s.calls[i].secret, s.calls[i].late = secret, s.calls[secret-1].gone
	if r.roles[i].kind == refresh {
		if r.act(s, i, renew); r.unnamed {
			r.reduces(s, i)
		}
		return
	}
	r.act(s, i, free)
	r.reduces(s, i)
}

// reduces notes that a call may end promises of its lock: those of calls that had not ended when
// it began, or begin later. A release goes on after any result. A take that no majority has ever
// had is none of its business.
func (r *run) reduces(s *state, i int) {
	c := &s.calls[i]
	c.acts = c.acts || s.calls[c.secret-1].whole
	for j := range s.calls {
		if p := &s.calls[j]; c.acts && j != i && p.secret == c.secret &&
			(p.before>>i&1 == 0 || r.roles[i].kind == release) {
			p.void = true
		}
	}
}

// find visits the decisions of the first round of a call by value.
func (x *successors) find(i int) {
	value, quiet := x.roles[i].value, 0
	var shown [maxCalls + 1]int
	for m := range x.n {
		if seen := x.s.masters[m].to[i].seen; seen == 0 {
			quiet++
		} else if seen > 1 && x.roles[seen-2].value == value {
			shown[seen-1]++
		}
	}
	maybe := x.n-quiet < x.majority()
	for secret, n := range shown {
		if n >= x.majority() || n > 0 && x.anySeen {
			x.may("found", i, secret, func(next *state) { x.actOn(next, i, uint8(secret)) })
		}
		maybe = maybe || n > 0 && n+quiet >= x.majority() && !x.winnerOnly || n >= x.majority()
	}
	if !maybe {
		x.may("not held", i, 0, func(next *state) { next.calls[i].phase = over })
	}
	x.may("give up", i, 0, func(next *state) { next.calls[i].phase = over })
}

// decide visits the decisions of a call that has asked.
func (x *successors) decide(i int) {
	kind, got, refused := x.roles[i].kind, x.s.count(i, yes, lowered), x.s.count(i, no)
	if kind == refresh {
		if x.longerIsYes {
			got = x.s.count(i, yes, lowered, longer)
		}
		x.shorten(i)
	}
	inTime := x.s.calls[i].age <= answers || kind == release
	lost := x.n-refused < x.majority()
	switch {
	case kind == check:
		for m := range x.n {
			at := &x.s.masters[m]
			lost = lost || x.oneDecides && at.to[x.roles[i].knows].vote && at.to[i].said == no
		}
		if lost {
			x.may("fade", i, 0, func(next *state) {
				next.calls[i].phase = over
				for m := range x.n {
					next.send(i, m, message{op: fade})
				}
			})
		}
	case got >= x.majority() && inTime: // the validity covers the promise
		x.may("win", i, 0, func(next *state) { x.win(next, i) })
	case lost && kind != take:
		x.may("lost", i, 0, func(next *state) { next.calls[i].phase = over })
	}
	x.may("fail", i, 0, func(next *state) { x.fail(next, i) })
}

// shorten visits the second round of a refresh at each master.
func (x *successors) shorten(i int) {
	if x.s.count(i, yes, lowered, longer) < x.majority() && !x.hasty {
		return
	}
	for m := range x.n {
		if l := &x.s.masters[m].to[i]; l.said == longer {
			x.may("shorten", i, m, func(next *state) {
				next.masters[m].to[i].said = silent
				next.send(i, m, message{op: cut, end: l.end})
				x.reduces(next, i)
			})
		}
	}
}

// win gives the client a promise, and sets the lock on masters that lack it.
func (r *run) win(s *state, i int) {
	c, role := &s.calls[i], r.roles[i]
	c.phase = won
	if role.kind == release {
		return
	}
	c.until, c.letGo = role.ttl, r.life(role.ttl)
	c.void = c.void || s.calls[c.secret-1].phase != won // the take may be undone: a limit
	r.crossOthers(s, i)
	for m := range r.n {
		s.masters[m].to[i].vote = role.kind == take && s.masters[m].to[i].said == yes
	}
	rest := r.life(role.ttl) - c.age
	raised := role.kind == refresh && s.count(i, yes) >= r.majority()
	for m := range r.n {
		if said := s.masters[m].to[i].said; said == no && raised || said <= no && r.owed {
			s.send(i, m, message{op: topUp, end: end{left: rest}})
		}
	}
}

// crossOthers notes what a promise and the other calls with its lock mean for each other.
func (r *run) crossOthers(s *state, i int) {
	c := &s.calls[i]
	for j := range r.roles {
		p := &s.calls[j]
		if p.secret != c.secret || j == i {
			continue
		}
		if p.acts && (c.before>>j&1 == 0 || r.roles[j].kind == release) {
			c.void = true
		}
		if p.before>>i&1 == 0 {
			p.clear = false // its top-ups come from a refresh beside p
		}
	}
}

func (r *run) fail(s *state, i int) {
	s.calls[i].phase = over
	if r.roles[i].kind == take {
		for m := range r.n {
			s.send(i, m, message{op: undo})
		}
	}
}

// forget empties a master. It refuses messages that were sent before.
func (r *run) forget(s *state, m int) {
	s.losses--
	at := &s.masters[m]
	at.free()
	at.out = r.wait()
	for i := range at.to {
		at.to[i].lane = [laneLength]message{}
	}
}

// tick lets time pass.
func (r *run) tick(s *state) {
	s.ticks--
	for m := range r.n {
		at := &s.masters[m]
		at.out -= min(at.out, 1)
		if at.secret > 0 {
			if at.end.left--; at.end.left == 0 {
				at.free()
			}
		}
		for i := range at.to {
			at.to[i].tick(r)
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		if c.phase == finding || c.phase == asking {
			c.age = min(c.age+1, answers+1)
		}
		c.until -= min(c.until, 1)
		c.letGo -= min(c.letGo, 1)
	}
}

// tick lets messages age. An end that has passed is named by none.
func (l *link) tick(r *run) {
	l.end.left -= min(l.end.left, 1)
	kept := [laneLength]message{}
	n := 0
	for _, msg := range l.lane {
		msg.end.left -= min(msg.end.left, 1)
		switch msg.op {
		case none:
			continue
		case topUp:
			if msg.end.left == 0 {
				continue
			}
			fallthrough
		case acquire:
			if !r.prompt {
				break
			}
			msg.age = min(msg.age+1, soon+1)
			if msg.age > soon && !(msg.op == topUp && r.owed) {
				continue
			}
		}
		kept[n] = msg
		n++
	}
	l.lane = kept
}
