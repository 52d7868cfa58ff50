package quorum

import "strconv"

// changing is one change of a record under way. Nobody waits for it: a look follows, and the guard judges anew.
type changing struct {
	g *guard
	s ruling
}

var _ receiver = (*changing)(nil)

// change sends the change of s. Until it has been answered and looked at, the master is left alone. The guard's mu is held.
func (g *guard) change(s ruling) {
	m := &g.masters[s.lane]
	m.stale = true
	m.changing = g.q.lanes[s.lane].send(command{op: opAdmit, to: &changing{g, s}, args: s.change.args()}) == nil
}

// changed ends the change.
func (g *guard) changed(lane int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.masters[lane].changing = false
}

func (c *changing) reply(lane int, _ opKind, r *reply) {
	l := c.g.q.lanes[lane]
	if r.isError() {
		if !c.s.change.note() {
			l.hold(c.s.conn, StateQuarantined, answered(r), false)
		}
		c.g.changed(lane)
		return // the next look may do better, at once it would be a loop
	}
	if r.is(1) {
		c.g.tell(c.s.change.says)
		if c.s.change.to.kind == recordMark {
			l.forgive()
		}
	}
	c.g.changed(lane)
	l.look()
}

// tell logs what a change means, once for several masters in a row.
func (g *guard) tell(says string) {
	g.mu.Lock()
	again := says == g.said
	g.said = says
	g.mu.Unlock()
	if says != "" && !again {
		g.log.Warn(says)
	}
}

func (c *changing) gone(lane int, _ opKind, _ error, _ bool) { c.g.changed(lane) }

// note reports whether the record stays what it is.
func (c *change) note() bool { return c.to.String() == c.from }

// args are the ARGV of admit.lua.
func (c *change) args() []string {
	empty, floor := "", ""
	if c.empty {
		empty = "1"
	}
	if c.floor > 0 {
		floor = strconv.FormatUint(c.floor, 10)
	}
	return []string{c.from, empty, c.to.String(), c.settings, c.born, c.durable, floor, c.counters}
}
