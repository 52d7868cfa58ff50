package quorum

import (
	"syscall"
	"time"
)

// maxSpare is the largest write buffer that is kept for the next batch.
const maxSpare = 1 << 20

// write is the writer of a connection: it sends whatever has been queued, in as few packets as that takes.
func (l *lane) write(c *laneConn) {
	var batch []byte
	for {
		select {
		case <-c.broken:
			return
		case <-c.wake:
		}
		if cap(batch) > maxSpare {
			batch = nil
		}
		if batch = l.takeOut(c, batch); len(batch) == 0 {
			continue
		}
		if _, err := c.Write(batch); err != nil {
			l.fail(c, connReason(err, silence))
			return
		}
	}
}

// writeNowLocked writes what is queued, without the writer, if the socket takes it at once. It is for a command that finds nothing else on
// the lane: all before it were answered, so the writer has nothing in hand that could come behind. What more commands than one are queued
// for is better written together.
func (l *lane) writeNowLocked() (all bool) {
	if l.conn.raw == nil {
		return false
	}
	n := 0
	err := l.conn.raw.Write(func(fd uintptr) (done bool) {
		n, _ = syscall.Write(int(fd), l.out) // the writer meets the error
		return true
	})
	if err != nil || n <= 0 {
		return false
	}
	l.out = l.out[:copy(l.out, l.out[n:])]
	l.unwritten = 0
	return len(l.out) == 0
}

// takeOut hands what is queued to the writer, for spare as the next buffer. From here on the commands count as written.
func (l *lane) takeOut(c *laneConn, spare []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return nil
	}
	batch := l.out
	l.out, l.unwritten = spare[:0], 0
	return batch
}

// read is the reader of a connection: it gives each reply to the oldest command.
func (l *lane) read(c *laneConn) {
	var r reply
	for {
		if err := readReply(c.in, &r); err != nil {
			l.fail(c, connReason(err, silence))
			return
		}
		if !l.handle(c, &r) {
			return
		}
	}
}

// handle matches r with its command, does the lane's part and tells the receiver; false ends the reader.
func (l *lane) handle(c *laneConn, r *reply) bool {
	now := time.Now()
	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return false
	}
	cmd, ok := l.pending.pop()
	if !ok {
		l.mu.Unlock()
		l.fail(c, errUnparsable) // a reply that nothing asked for
		return false
	}
	tell, topped := l.answerLocked(&cmd, r, now)
	found, looked, broken := l.watchLocked(c, &cmd, r, now)
	if l.backlog && (l.pending.n == maxUnanswered/2 || l.pending.n == 0) {
		l.sendOwedLocked(now, false)
	}
	late := cmd.op == opRelease && cmd.publish && r.is(1) && !l.closing && (cmd.to == nil || now.Sub(l.epoch)-cmd.sent > lateRelease)
	l.mu.Unlock()
	if broken != nil {
		l.fail(c, broken)
		return false
	}
	if looked {
		l.host.looked(l.index, found)
	}
	if topped {
		l.host.toppedUp(debtKey{cmd.key, cmd.secret}, cmd.voters, l.epoch.Add(cmd.sent+cmd.ttl))
	}
	if late {
		l.host.releasedLate(debtKey{cmd.key, cmd.secret})
	}
	if tell && cmd.to != nil {
		cmd.to.reply(l.index, cmd.op, r)
	}
	return true
}

// answerLocked is the lane's own part of a reply. tell is false if the command has been sent again; topped says that a
// top-up stands on the master.
func (l *lane) answerLocked(cmd *command, r *reply, now time.Time) (tell, topped bool) {
	if r.isError() {
		l.countErrorLocked(r)
		if r.code() == "NOSCRIPT" && cmd.op < numScripts {
			l.known = [numScripts]bool{} // SCRIPT FLUSH takes all
			// Nothing ran, so these may be sent again. An acquire may not: its attempt may be over, and its release
			// sent. Nor may a top-up, which stays owed: the release of the lock may be behind it.
			if cmd.op != opAcquire && cmd.op != opTopUp && !cmd.again {
				cmd.again = true
				l.pushLocked(*cmd)
				return false, false
			}
		}
	}
	switch cmd.op {
	case opPing:
		l.status.RTT, l.pinged = now.Sub(l.pinged), time.Time{}
	case opAcquire:
		if granted(r) {
			l.status.Grants++
		} else if refused(r) {
			l.status.Refusals++
		}
	case opRelease:
		if r.is(1) && !cmd.publish {
			l.status.Strays++
		}
		l.settleLocked(cmd, owesRelease, r, now)
		if l.closing && l.owed.active == 0 {
			l.host.settled()
		}
	case opTopUp:
		l.settleLocked(cmd, owesTopUp, r, now)
		topped = r.is(1) || r.is(2)
	}
	return true, topped
}

// notAdmitted is the error of a script that found another record than the one under which the master votes.
const notAdmitted = "NOTADMITTED"

// readOnly is the error of a replica.
const readOnly = "READONLY"

// watchLocked draws from a reply what it says about the master itself: its clock, its record. The vote that shows a step of the
// clock, or comes after one was seen, is turned into an error. found is what a look found; broken ends the connection.
func (l *lane) watchLocked(c *laneConn, cmd *command, r *reply, now time.Time) (found view, looked bool, broken error) {
	received := now.Sub(l.epoch)
	switch cmd.op {
	case opServer:
		return found, false, l.serverLocked(r)
	case opConfig:
		l.facts.readConfig(r)
		return found, false, nil
	case opLook:
		l.looking = false
		found, looked = l.lookedLocked(c, r, cmd.sent, received, now)
		return found, looked, nil
	case opAcquire:
		if (granted(r) || refused(r)) && l.watchClockLocked(cmd.sent, received, clockOf(r.ints[2], r.ints[3])) {
			r.fail(errStepped)
		}
	case opExtend:
		if says, ok := r.cutClock(); ok && l.watchClockLocked(cmd.sent, received, says) {
			r.fail(errStepped)
		}
	}
	switch {
	case r.code() == notAdmitted && l.votes:
		l.stopVotingLocked(StateQuarantined, errNotAdmitted)
	case r.code() == readOnly && l.votes && !l.enc.unguarded:
		l.demoted = l.facts.runID
		l.stopVotingLocked(StateQuarantined, errReplica)
	case l.stepped && l.votes:
		l.stopVotingLocked(StateQuarantined, errStepped)
	case !l.votes && (cmd.op.votes() || cmd.op == opRelease) && !r.isError():
		r.fail(errNotAdmitted) // asked while it did
		return found, false, nil
	default:
		return found, false, nil
	}
	l.lookLocked()
	return found, false, nil
}

// settleLocked ends the debt that cmd was sent for, or notes that it has to be sent again.
func (l *lane) settleLocked(cmd *command, kind debtKind, r *reply, now time.Time) {
	d := l.owed.m[debtKey{cmd.key, cmd.secret}]
	switch {
	case d == nil || d.kind != kind:
	case r.kind == ':', kind == owesRelease && r.code() == notAdmitted:
		l.owed.remove(d)
	default:
		l.owed.failed(d, now)
	}
}

// maxKinds bounds how many kinds of error are told apart.
const maxKinds = 32

func (l *lane) countErrorLocked(r *reply) {
	l.status.Errors++
	kind := r.code()
	if _, ok := l.status.ByKind[kind]; !ok && (len(l.status.ByKind) >= maxKinds || len(kind) > 32) {
		kind = "other"
	}
	if l.status.ByKind == nil {
		l.status.ByKind = make(map[string]uint64)
	}
	l.status.ByKind[plain(kind)]++
}

// fail ends a connection because of reason: from here on its master counts as "no answer", and its reader, writer and
// supervisor find out.
func (l *lane) fail(c *laneConn, reason error) {
	l.mu.Lock()
	if l.conn == c {
		l.conn, l.votes, l.record = nil, false, ""
		l.setLocked(StateDown, reason)
		l.status.Lost++
	}
	l.mu.Unlock()
	c.once.Do(func() {
		close(c.broken)
		_ = bare(c.Conn).Close() // TLS would wait for its farewell to be sent
	})
}

func (l *lane) setLocked(s State, reason error) {
	l.reason = reason
	if l.state != s {
		l.state, l.since = s, time.Now()
	}
}

// bury takes leave of a connection whose reader and writer are gone: every command that was not answered is told so, and
// what was on its way is owed again.
func (l *lane) bury() {
	l.mu.Lock()
	dead, unwritten, reason := l.pending, l.unwritten, l.reason
	l.pending, l.out, l.unwritten = ring{}, nil, 0
	l.known, l.backlog, l.pinged, l.looking = [numScripts]bool{}, false, time.Time{}, false
	l.owed.laneBroke()
	closing := l.closing
	l.mu.Unlock()
	for {
		cmd, ok := dead.pop()
		if !ok {
			break
		}
		if cmd.to != nil {
			cmd.to.gone(l.index, cmd.op, reason, dead.n >= unwritten)
		}
	}
	if closing {
		l.host.settled()
	}
}
