package quorum

import "time"

// goLive sends the releases still owed, waits for their replies, and opens the lane when none is left: for work once the guard
// lets the master vote.
func (l *lane) goLive(t *talk, known [numScripts]bool) error {
	l.handovers++
	for {
		l.mu.Lock()
		batch := l.nextOwedLocked()
		if len(batch) == 0 {
			defer l.mu.Unlock()
			if err := t.c.SetDeadline(time.Time{}); err != nil {
				return connReason(err, 0)
			}
			l.conn, l.known, l.votes, l.reason = t.c, known, false, errLooking
			return nil
		}
		l.mu.Unlock()
		if err := l.replay(t, batch, known[opRelease]); err != nil {
			return err
		}
	}
}

// maxReplay is how many owed releases are sent at once.
const maxReplay = 512

// nextOwedLocked picks releases that this hand-over has not sent yet.
func (l *lane) nextOwedLocked() []command {
	var batch []command
	for d := range l.owed.all {
		if d.kind == owesRelease && d.tried != l.handovers {
			d.tried = l.handovers
			if batch = append(batch, command{op: opRelease, key: d.key, secret: d.secret, publish: d.publish}); len(batch) == maxReplay {
				break
			}
		}
	}
	return batch
}

// replay sends owed releases and settles those that were answered. One answered with an error stays, for the tick.
func (l *lane) replay(t *talk, batch []command, known bool) error {
	if err := t.renew(); err != nil {
		return err
	}
	var out []byte
	for i := range batch {
		// The first brings the body, in case the script could not be loaded or was flushed since.
		out = l.enc.append(out, &batch[i], !known || i == 0, "")
	}
	if err := t.write(out); err != nil {
		return err
	}
	for i := range batch {
		if err := t.read(); err != nil {
			return err
		}
		l.mu.Lock()
		if t.r.isError() {
			l.countErrorLocked(&t.r)
		}
		if t.r.is(1) && !batch[i].publish {
			l.status.Strays++
		}
		l.settleLocked(&batch[i], owesRelease, &t.r, time.Now())
		late := batch[i].publish && t.r.kind == ':' && !l.closing // the reply to an earlier one may be lost
		l.mu.Unlock()
		if late {
			l.host.releasedLate(debtKey{batch[i].key, batch[i].secret})
		}
	}
	return nil
}
