package master

import (
	"slices"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Codes of errors that the master answers to a packet before it carries out anything.
const (
	codeNoScript = "NOSCRIPT" // it does not have the script
	codeNoPerm   = "NOPERM"   // lockproxy's user may not run it, or not use one of the keys
)

// aloneFor is how long each packet holds one operation after the master answered NOPERM to one. The
// repairs that failed in it are tried again in that time.
const aloneFor = 2 * tickEvery

// isReadOnly reports whether r is what a replica answers to a write.
func isReadOnly(r wire.Reply) bool { return r.Code() == "READONLY" }

// handle gives a reply to the oldest request, does the lane's part and tells whoever asked. It is
// false if the connection has ended.
func (l *Lane) handle(c *conn, r *wire.Reply) bool {
	now := time.Now()
	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return false
	}
	if l.queue.n == l.queue.unsent {
		l.mu.Unlock()
		if r.IsError() { // the master says why it does not take the connection
			l.fail(c, l.refusal(r))
		} else {
			l.fail(c, wire.ErrUnparsable)
		}
		return false
	}
	n, sent := l.queue.at(0).run, l.queue.at(0).sent
	c.done = l.queue.pop(c.done[:0], n)
	l.pace.longest.Note(now.Sub(l.cfg.Start)-sent, now)
	if call := c.done[0].call; call != nil {
		l.drainBacklogLocked(now)
		l.mu.Unlock()
		call.done(r)
		return true
	}
	results := l.packetLocked(c.done, r, sent, now)
	l.drainBacklogLocked(now)
	closing := l.closing
	l.mu.Unlock()
	l.tell(c, r, results)
	if closing {
		l.cfg.Host.Settled()
	}
	return true
}

// drainBacklogLocked sends repairs that were waiting for room.
func (l *Lane) drainBacklogLocked(now time.Time) {
	if l.backlog && l.queue.n <= maxUnanswered/2 {
		l.sendRepairsLocked(now, false)
	}
}

// tell tells everybody how the operations of a packet ended. results are those of the operations;
// nil if r is the answer to all of them.
func (l *Lane) tell(c *conn, r *wire.Reply, results []wire.Reply) {
	for i := range c.done {
		e := &c.done[i]
		if e.resent {
			continue
		}
		if e.landed {
			l.cfg.Host.Landed(l.cfg.Index, e.op.TokenAt, e.voters, e.voted)
		}
		if e.but != 0 {
			l.cfg.Host.ReleasedLate(e.op.TokenAt, e.but)
		}
		if e.to == nil {
			continue
		}
		c.answer = Answer{Reply: *r, Err: e.err, NotRun: e.notRun, AskAgain: e.err == errStale || e.askAgain}
		if results != nil {
			c.answer.Reply = results[e.place]
		}
		e.to.Answered(l.cfg.Index, &e.op, &c.answer)
	}
}

// packetLocked takes the answer to a packet: what it says of the master, and of each operation.
// It notes in done what there is to tell. results is nil if the master answered the packet as a
// whole.
//
// If the master carried out nothing, for want of the script or because of one key, most operations go
// out again in their order: see repeats.
func (l *Lane) packetLocked(done []entry, r *wire.Reply, sent time.Duration, now time.Time) (results []wire.Reply) {
	p, ok := wire.ParsePacket(r, len(done))
	code, shared := r.Code(), len(done) > 1
	void := l.watchPacketLocked(&p, ok, r, sent, now)
	if r.IsError() {
		l.countErrorLocked(r)
	}
	if code == codeNoPerm && !done[0].alone {
		l.alone = l.clock() + aloneFor
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
			l.countErrorLocked(said)
			// After another error a part of it may have been carried out.
			e.err, e.notRun = Answered(said), said.Code() == wire.CodeNotAdmitted
		case void == errStale && !e.op.Kind.Votes(): // what is released is released
		case e.op.Kind != wire.Free:
			e.err = void
		}
		l.resultLocked(e, said, now)
	}
	switch {
	case !l.loaded || code == codeNoScript: // others wait for this answer: see idleLocked
		l.loaded = ok
		l.wakeLocked()
	case shared && code == codeNoPerm:
		l.wakeLocked()
	}
	return p.Results
}

// repeats takes the error code that the master answered to the whole packet of e, and reports whether
// e goes out again: once after NOSCRIPT, with the body of the script; and once after NOPERM to a
// shared packet, alone: the forbidden key may be that of another operation.
//
// An acquire does not go out again: its round may be over, and its release sent. Its caller asks
// again. Nor does a top-up: its release may be behind it.
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

// watchPacketLocked draws from the answer to a packet what it says of the master: its clock, its
// record, its role. void is the reason why the votes in it do not count; nil if they do.
func (l *Lane) watchPacketLocked(p *wire.PacketReply, ok bool, r *wire.Reply, sent time.Duration, now time.Time) (void error) {
	void = errNotAdmitted
	if ok && l.watchClockLocked(sent, now.Sub(l.cfg.Start), p.Clock) {
		void = errStepped
	}
	if ok && p.Admitted {
		l.writes = max(l.writes, p.Writes)
	}
	switch {
	case !l.votes:
		return void
	case (isReadOnly(*r) || slices.ContainsFunc(p.Results, isReadOnly)) && !l.cfg.Unguarded:
		l.demoted = l.facts.RunID
		l.stopVotingLocked(stat.StateQuarantined, admission.ErrReplica)
	case ok && !p.Admitted || l.stepped:
		l.stopVotingLocked(stat.StateQuarantined, void)
	case sent > l.until:
		void = errStale // others may have learned of another admission meanwhile
	default:
		return nil
	}
	l.probeLocked()
	return void
}

// resultLocked is the lane's own part of what a master answered to an operation.
func (l *Lane) resultLocked(e *entry, r *wire.Reply, now time.Time) {
	switch e.op.Kind {
	case wire.Acquire:
		if _, _, ok := wire.Granted(r); ok {
			l.status.Grants++
		} else if _, ok := wire.Refused(r); ok {
			l.status.Refusals++
		}
		l.pace.vote(now.Sub(l.cfg.Start))
	case wire.Release, wire.Fade:
		if r.Is(1) && !e.op.Publish {
			l.status.Strays++
		}
		was := l.repairedLocked(e, r, now)
		// A slot that stays closed is told with its number.
		done := r.Kind == ':' && r.Int > 0
		if (done || r.Is(0) && was.maybe) && e.to == nil && !l.closing { // maybe: before the answer was lost
			e.but = was.but
		}
	case wire.TopUp:
		was := l.repairedLocked(e, r, now)
		e.voters, e.voted = was.voters, was.voted
		ending := l.repairs.find(e.op.TokenAt)
		e.landed = (r.Is(1) || r.Is(2)) && (ending == nil || !ending.ends())
	}
}

// repairedLocked ends the repair that e was sent for, or notes that it has to be sent again. It
// returns what the repair was; the zero value without one.
func (l *Lane) repairedLocked(e *entry, r *wire.Reply, now time.Time) (was repair) {
	stands := l.repairs.find(e.op.TokenAt)
	if stands == nil || stands.op.Kind != e.op.Kind || stands.state != repairSent {
		return was
	}
	was = *stands
	if r.Kind == ':' {
		l.repairs.remove(stands)
	} else {
		l.repairs.failed(stands, now)
		stands.alone = e.alone
	}
	return was
}

// watchClockLocked takes one answer with the master's time, and reports whether the master's
// clock has stepped, now or earlier and not forgiven. It also notices that this machine was
// suspended: what was observed before that is older than it seems.
func (l *Lane) watchClockLocked(sent, received, says time.Duration) bool {
	l.status.Ahead = says - time.Duration(l.cfg.Start.UnixNano()) - received
	if l.cfg.Unguarded {
		return false
	}
	if !l.offset.Stepped(l.facts.RunID, sent, received, says, l.asleep) {
		return l.stepped
	}
	// The time suspended takes two system calls to read: it is read where it may explain a step.
	asleep := clock.Suspended()
	l.until -= asleep - l.asleep
	l.asleep = asleep
	if l.offset.Stepped(l.facts.RunID, sent, received, says, asleep) {
		l.stepped = true // also if it steps back at once: keys may have expired
	}
	return l.stepped
}
