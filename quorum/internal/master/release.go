package master

import (
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/wire"
)

// Release queues op, a Release or a Fade, and keeps it as a repair until the master has answered:
// ttl is how long the key can live once it has landed. landed says that the SET of the token has
// been answered, so that its key lives at most ttl from now; otherwise the SET may be on its way
// still. to is told the answer if the error is nil. The answer of a master that does not vote is
// none: the error is the reason then, and the release goes on all the same.
func (l *Lane) Release(op wire.Op, ttl time.Duration, landed bool, to Receiver) error {
	r := repair{op: op, lives: ttl}
	if op.TTL > 0 {
		r.until = time.Now().Add(op.TTL)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A lane that was down for all of max-ttl carries no SET of a token that is still good.
	if landed || !l.up && time.Since(l.status.Since) >= l.cfg.MaxTTL {
		r.drop = time.Now().Add(ttl)
	}
	if old := l.repairs.find(op.TokenAt); old != nil && old.unsent {
		l.repairs.remove(old) // nothing of the token was ever sent here: there is nothing to undo
		// A lane without room for acquires must not fill with the releases of those.
		if l.queue.n >= l.room {
			return &UntouchedError{ErrFull}
		}
		if err := l.sendReleaseLocked(op, nil, to); err != nil {
			return &UntouchedError{err}
		}
		return nil
	}
	stands := l.repairLocked(r)
	return l.sendReleaseLocked(op, stands, to)
}

// UntouchedError is the reason why there is no answer to a release that is not owed either:
// nothing of the token was ever sent to the master.
type UntouchedError struct{ error }

// Unwrap returns the reason alone.
func (e *UntouchedError) Unwrap() error { return e.error }

// sendReleaseLocked queues a release. r is its repair; nil if it is not tried again.
func (l *Lane) sendReleaseLocked(op wire.Op, r *repair, to Receiver) error {
	if !l.votes {
		to = nil
	}
	if op.Kind == wire.Release && r != nil && r.op.TTL > 0 { // it stays closed, whoever released it
		op.TTL = max(time.Until(r.until).Truncate(time.Millisecond), 0)
	}
	if err := l.roomLocked(op.Kind); err != nil {
		l.backlog = l.backlog || r != nil && l.up
		return err
	}
	e := l.queue.push(op, to)
	if r != nil && r.op.Kind == op.Kind {
		r.state, e.alone = repairSent, r.alone
	}
	if !l.votes {
		return l.reason
	}
	return nil
}

// TopUp is a lock that the master has missed.
type TopUp struct {
	wire.TokenAt
	Fence  uint64
	Owner  string
	Mode   wire.Mode     // of the lock
	Slot   int           // of wire.Limited
	Voters uint64        // the masters whose grants or confirmations made the lease
	Voted  time.Time     // until then they keep it
	Until  time.Time     // when the ttl of the lock is over
	TTL    time.Duration // how long the key can live once it has landed
	// Unsent says that nothing that sets the key was ever sent to this master: neither the SET of
	// the LOCK (Ask returned an error, or Answer.NotRun), nor has it held the lock. Then an
	// UNLOCK that comes before the top-up has nothing to undo.
	Unsent  bool
	MayLand bool // the connection broke with the SET on its way (Answer.MayLand)
	Lacks   bool // the master has just said that the token does not stand there
}

// TopUp makes the lane set the lock on its master as soon as that is well, until the ttl of the
// lock is over. A token that is being released is left alone. The top-up goes out with the next
// Flush where the master lacks the token, else at the next tick: a master that has just failed to
// answer is left alone until then.
func (l *Lane) TopUp(t TopUp) {
	now := time.Now()
	if t.Until.Sub(now) < minTopUp && !t.MayLand {
		return
	}
	r := t.repair()
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.MayLand && !l.up { // a lane that is up has had its barrier since
		r.drop = time.Time{}
	}
	if stands := l.repairLocked(r); t.Lacks && stands != nil && !stands.ends() && l.votes {
		l.sendTopUpLocked(stands, now)
	}
}

func (t *TopUp) repair() repair {
	op := wire.Op{Kind: wire.TopUp, TokenAt: t.TokenAt, Counter: wire.CounterOf(t.Key), Fence: t.Fence, Owner: t.Owner}
	if t.Mode != wire.Exclusive {
		op.Terms = &wire.Terms{Mode: t.Mode, Slot: t.Slot}
	}
	return repair{op: op, unsent: t.Unsent, voters: t.Voters, voted: t.Voted, until: t.Until, lives: t.TTL, drop: t.Until}
}

// repairLocked keeps a repair, and returns the one of its token that stands now; nil if there are
// too many.
func (l *Lane) repairLocked(r repair) *repair {
	stands, dropped := l.repairs.put(r)
	if dropped {
		l.status.Dropped++
		if now := time.Now(); now.Sub(l.logged) >= time.Minute {
			l.logged = now
			l.cfg.Log.Warn("a master misses too much, repairs are dropped: keys there live until their ttl is over",
				l.master(), zap.Uint64("dropped", l.status.Dropped))
		}
	}
	return stands
}

// Owes reports whether a release of the token is on its way, or has just been answered.
func (l *Lane) Owes(t wire.TokenAt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.repairs.find(t); r != nil && r.ends() {
		return true
	}
	if l.conn == nil {
		return false
	}
	for i := range l.conn.done { // answered in one packet with what the caller asks about
		if op := &l.conn.done[i].op; op.TokenAt == t && (op.Kind == wire.Release || op.Kind == wire.Fade) {
			return true
		}
	}
	return false
}

// NotOursAt adds to a release that is owed which masters answered the UNLOCK with "not ours". If
// it turns out to come late, the host is told of them. sent: the master may have carried the
// release out by now; owed: it has not answered.
func (l *Lane) NotOursAt(t wire.TokenAt, masters uint64) (sent, owed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.repairs.find(t)
	if r == nil || !r.ends() {
		return true, false
	}
	r.but |= masters
	return r.state == repairSent, true
}

// maxAlone is how many repairs that need a packet of their own go out at a tick. So they leave room in
// the queue, also if a client unlocks forbidden keys all the time.
const maxAlone = maxUnanswered / 4

// sendRepairsLocked queues the repairs that are idle, as far as there is room, and wakes the
// writer. Those that failed come only where the caller says so.
func (l *Lane) sendRepairsLocked(now time.Time, failed bool) {
	l.backlog = false
	alone := 0
	for r := range l.repairs.all {
		if r.state == repairSent || r.state == repairFailed && !failed {
			continue
		}
		if r.alone {
			if alone++; alone > maxAlone {
				continue
			}
		}
		if l.queue.n >= maxUnanswered {
			l.backlog = true
			break
		}
		if r.ends() {
			_ = l.sendReleaseLocked(r.op, r, nil)
		} else if l.votes {
			l.sendTopUpLocked(r, now)
		}
	}
	l.wakeLocked()
}

func (l *Lane) sendTopUpLocked(r *repair, now time.Time) {
	rest := r.until.Sub(now).Truncate(time.Millisecond)
	if rest < minTopUp {
		if !r.drop.IsZero() {
			l.repairs.remove(r)
		}
		return
	}
	if l.roomLocked(wire.TopUp) != nil {
		return
	}
	r.op.TTL = rest
	l.queue.push(r.op, nil).alone = r.alone
	r.state, r.drop, r.unsent = repairSent, time.Time{}, false // from here on it may land
}
