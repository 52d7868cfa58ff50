package master

import (
	"cmp"
	"slices"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// isReadOnly reports whether r is a replica's answer to a write.
func isReadOnly(r wire.Reply) bool { return r.Code() == "READONLY" }

// handle matches a reply with the oldest request, updates the lane and calls the receivers. It
// returns false if the connection has ended.
func (c *conn) handle(r *wire.Reply) bool {
	l := c.lane
	now := time.Now()
	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return false
	}
	if l.queue.sent() == 0 {
		l.mu.Unlock()
		if r.IsError() { // the master says why it does not take the connection
			c.fail(refusal(l.cfg.Options, r))
		} else {
			c.fail(wire.ErrUnparsable)
		}
		return false
	}
	n, sent := l.queue.at(0).run, l.queue.at(0).sent
	done := l.queue.pop(c.reading.done[:0], n)
	c.reading.done = done
	l.pace.longest.Note(now.Sub(l.cfg.Start)-sent, now)
	if call := done[0].call; call != nil {
		c.drainBacklogLocked(now)
		l.mu.Unlock()
		call.done(r)
		return true
	}
	results := c.packetLocked(done, r, sent, now)
	c.drainBacklogLocked(now)
	closing := l.status.closing
	l.mu.Unlock()
	c.report(r, results)
	if closing {
		l.cfg.Host.Drained()
	}
	return true
}

// drainBacklogLocked sends repairs that were waiting for room.
func (c *conn) drainBacklogLocked(now time.Time) {
	l := c.lane
	if l.repairs.backlog && l.queue.n <= maxUnanswered/2 {
		l.repairs.sendAll(&l.status, &l.queue, now, false)
		l.conn.wakeLocked()
	}
}

// report calls the receivers of the operations in a packet. results holds one reply for each
// operation; nil if r is the answer to all of them.
func (c *conn) report(r *wire.Reply, results []wire.Reply) {
	l, answer := c.lane, &c.reading.answer
	for i := range c.reading.done {
		e := &c.reading.done[i]
		if e.resent {
			continue
		}
		if e.landed {
			l.cfg.Host.Landed(l.cfg.Index, e.op.TokenAt, e.voters, e.voted)
		}
		if e.unconfirmed != 0 {
			l.cfg.Host.ReleasedLate(e.op.TokenAt, e.unconfirmed)
		}
		if e.to == nil {
			continue
		}
		*answer = Answer{Reply: *r, Err: e.err, NotRun: e.notRun, AskAgain: e.err == errStale || e.askAgain}
		if results != nil {
			answer.Reply = results[e.place]
		}
		e.to.Answered(l.cfg.Index, &e.op, answer)
	}
}

// packetLocked takes the answer to a packet: the evidence about the master, and the result of each
// operation. It fills in done for report. results is nil if the master answered the packet as a
// whole.
//
// If the master rejected the packet, for want of the script or because of one key, most operations
// go out again in their order: see repeats.
func (c *conn) packetLocked(done []entry, r *wire.Reply, sent time.Duration, now time.Time) (results []wire.Reply) {
	l := c.lane
	p, ok := wire.ParsePacket(r, len(done))
	code, shared := r.Code(), len(done) > 1
	void := c.evidenceLocked(&p, ok, r, sent, now)
	if r.IsError() {
		c.countErrorLocked(r)
	}
	if code == codeNoPerm && !done[0].alone {
		l.packets.alone = l.cfg.clock() + aloneFor
	}
	for i := range done {
		e, said := &done[i], r
		if ok {
			said = &p.Results[e.place]
		}
		switch {
		case e.repeats(code, shared):
			e.resent = true
			l.queue.resend(*e)
			continue
		case !ok:
			e.err, e.notRun = Answered(r), r.IsError() && code != "ERR"
		case said.IsError():
			c.countErrorLocked(said)
			// After another error a part of it may have been carried out.
			e.err, e.notRun = Answered(said), said.Code() == wire.CodeNotAdmitted
			if said.Code() == wire.CodeTooLate { // from this answer on the lane knows the master's clock well
				e.err, e.notRun, e.askAgain = cmp.Or(void, e.err), true, void == nil
			}
		case void == errStale && !e.op.Kind.Votes(): // a release stays valid
		case e.op.Kind != wire.Free:
			e.err = void
		}
		c.resultLocked(e, said, now)
	}
	switch {
	case !l.packets.loaded || code == codeNoScript: // others wait for this answer: see packets.idle
		l.packets.loaded = ok
		c.wakeLocked()
	case shared && code == codeNoPerm:
		c.wakeLocked()
	}
	return p.Results
}

// repeats takes the error code that the master answered to the whole packet of e, and reports
// whether e goes out again: once after NOSCRIPT, with the body of the script; and once after
// NOPERM to a shared packet, alone: the forbidden key may be that of another operation.
//
// An acquire does not go out again: its round may have ended, and its release may be sent. Its
// caller asks again. Nor does a top-up: its release may follow it in the queue.
func (e *entry) repeats(code string, shared bool) bool {
	again := false
	switch code {
	case codeNoScript:
		again, e.noScript = !e.noScript, true
	case codeNoPerm:
		again, e.alone = shared, true
	}
	e.askAgain = again && e.op.Kind == wire.Acquire
	return again && e.op.Kind != wire.Acquire && e.op.Kind != wire.TopUp
}

// evidenceLocked takes the evidence about the master from the answer to a packet: its clock, its
// record, its role. void is the reason why the votes in it do not count; nil if they do.
func (c *conn) evidenceLocked(p *wire.PacketReply, ok bool, r *wire.Reply, sent time.Duration,
	now time.Time) (void error) {
	l := c.lane
	void = errNotAdmitted
	if ok && c.noteClockLocked(sent, now.Sub(l.cfg.Start), p.Clock) {
		void = errStepped
	}
	if ok && p.Admitted {
		l.server.writes = max(l.server.writes, p.Writes)
	}
	switch {
	case !l.status.voting:
		return void
	case (isReadOnly(*r) || slices.ContainsFunc(p.Results, isReadOnly)) && !l.cfg.Unguarded:
		l.server.demoted = l.server.facts.RunID
		l.status.exclude(stat.StateQuarantined, admission.ErrReplica)
	case ok && !p.Admitted || l.server.stepped:
		l.status.exclude(stat.StateQuarantined, void)
	case sent > l.server.until:
		void = errStale // others may have learned of another admission meanwhile
	default:
		return nil
	}
	l.server.wantProbe()
	return void
}

// resultLocked updates the lane with the answer to one operation.
func (c *conn) resultLocked(e *entry, r *wire.Reply, now time.Time) {
	l := c.lane
	switch e.op.Kind {
	case wire.Acquire:
		l.status.countVote(r)
		l.pace.vote(now.Sub(l.cfg.Start))
	case wire.Release, wire.Fade:
		if r.Is(1) && !e.op.Publish {
			l.status.shown.Strays++
		}
		was := l.repairs.answered(e, r, now)
		// The answer to a slot that stays closed is its number.
		done := r.Kind == ':' && r.Int > 0
		if (done || r.Is(0) && was.maybe) && e.to == nil && !l.status.closing { // maybe: before the answer was lost
			e.unconfirmed = was.unconfirmed
		}
	case wire.TopUp:
		was := l.repairs.answered(e, r, now)
		if e.serial != 0 { // it is kept, and may have changed since it was sent
			e.voters, e.voted = was.voters, was.voted
		}
		// Another release or top-up of the token that is still pending has the last word.
		e.landed = (r.Is(1) || r.Is(2)) && l.repairs.find(e.op.TokenAt) == nil
	}
}

// justReleased reports whether the packet that was answered last holds a release of the token. The
// lane's mu is held; c may be nil.
func (c *conn) justReleased(t wire.TokenAt) bool {
	if c == nil {
		return false
	}
	for i := range c.reading.done {
		if op := &c.reading.done[i].op; op.TokenAt == t && (op.Kind == wire.Release || op.Kind == wire.Fade) {
			return true
		}
	}
	return false
}

// noteClockLocked takes one answer with the master's time, and reports whether the master's clock
// has stepped. sent and received are by the lane's clock.
func (c *conn) noteClockLocked(sent, received, says time.Duration) bool {
	l := c.lane
	l.queue.ahead.note(sent, received, says)
	l.status.shown.Ahead = says - time.Duration(l.cfg.Start.UnixNano()) - received
	return !l.cfg.Unguarded && l.server.noteClock(sent, received, says)
}

// countErrorLocked counts an error reply. If an ACL forbids something, the next probe tries the
// rights of the user: it may lack one, or may not touch the key of one client.
func (c *conn) countErrorLocked(r *wire.Reply) {
	l := c.lane
	l.server.untried = l.server.untried || forbids(r)
	l.status.countError(r)
}
