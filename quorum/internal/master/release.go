package master

import (
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
)

// Release queues op, a Release or a Fade, and keeps it as a repair until the master has answered:
// ttl is how long the key can live once it has landed. landed says that the SET of the token has
// been answered, so that its key lives at most ttl from now; otherwise the SET may be on its way
// still. to gets the answer if the error is nil. The answer of a master that does not vote does
// not count: the error is the reason then, and the lane sends the release all the same.
func (l *Lane) Release(op wire.Op, ttl time.Duration, landed bool, to Receiver) error {
	r := repair{op: op, lives: ttl}
	if op.TTL > 0 {
		r.until = time.Now().Add(op.TTL)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A lane that was down for as long as any key lives carries no SET of a token that is still good.
	if landed || !l.status.up && time.Since(l.status.shown.Since) >= wire.Life(l.cfg.MaxTTL) {
		r.drop = time.Now().Add(ttl)
	}
	if old := l.repairs.find(op.TokenAt); old != nil && old.unsent {
		l.repairs.remove(old) // the master has carried out no SET of the token, so it has none to undo
		// A lane without room for acquires must not fill with the releases of those.
		if l.queue.n >= l.status.room {
			return &UntouchedError{ErrFull}
		}
		if err := l.repairs.sendRelease(&l.status, &l.queue, op, nil, to); err != nil {
			return &UntouchedError{err}
		}
		return nil
	}
	pending := l.keepLocked(r)
	return l.repairs.sendRelease(&l.status, &l.queue, op, pending, to)
}

// UntouchedError is the reason why there is no answer to a release that is not pending either: the
// master has never set the token, and no SET is on its way.
type UntouchedError struct{ error }

// Unwrap returns the reason alone.
func (e *UntouchedError) Unwrap() error { return e.error }

// TopUp is a lock that the master has missed.
type TopUp struct {
	wire.TokenAt
	Fence  uint64
	Owner  string
	Mode   wire.Mode       // of the lock
	Slot   int             // of wire.Limited
	Voters uint64          // the masters whose grants or confirmations made the lease
	Voted  time.Time       // until then they keep it
	Until  time.Time       // when the ttl of the lock ends
	Since  clock.Stopwatch // it has counted until then since; suspended time counts
	TTL    time.Duration   // of the lock
	// Unsent says that the master has carried out no command that sets the key, and none is on its
	// way: the SET of the LOCK did not go out, or was refused (Ask returned an error, or
	// Answer.NotRun), and the master has not held the lock. Then an UNLOCK that comes before the
	// top-up has no key to delete.
	Unsent  bool
	MayLand bool // the connection broke with the SET on its way (Answer.MayLand)
	Lacks   bool // the master has just answered that it does not hold the token
	// Once says that the top-up is sent at once or never: the lane does not keep it. It is for a lock
	// that other proxies may shorten and take again. It needs Lacks.
	Once bool
}

// TopUp makes the lane set the lock on its master as soon as the master votes, until the ttl of
// the lock ends. It skips a token that is being released. The top-up goes out with the next Flush
// if the master lacks the token, else at the next tick: a master that has just failed to answer
// gets a pause until then.
func (l *Lane) TopUp(t TopUp) {
	if t.Once {
		topUpOnce(l, &t)
		return
	}
	now := time.Now()
	if t.Until.Sub(now) < minTopUp && !t.MayLand {
		return
	}
	r := t.repair()
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.MayLand && !l.status.up { // a lane that is up has had its barrier since
		r.drop = time.Time{}
	}
	if pending := l.keepLocked(r); t.Lacks && pending != nil && !pending.ends() && l.status.voting {
		l.repairs.sendTopUp(&l.status, &l.queue, pending, now)
	}
}

// topUpOnce queues a top-up that is not kept.
func topUpOnce(l *Lane, t *TopUp) {
	r := t.repair()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.repairs.find(t.TokenAt) == nil {
		if e, _ := l.repairs.pushTopUp(&l.status, &l.queue, &r, time.Now()); e != nil {
			e.voters, e.voted = t.Voters, t.Voted
		}
	}
}

func (t *TopUp) repair() repair {
	op := wire.Op{Kind: wire.TopUp, TokenAt: t.TokenAt, Counter: wire.CounterOf(t.Key), Fence: t.Fence, Owner: t.Owner}
	if t.Mode != wire.Exclusive {
		op.Terms = &wire.Terms{Mode: t.Mode, Slot: t.Slot}
	}
	return repair{op: op, unsent: t.Unsent, voters: t.Voters, voted: t.Voted, until: t.Until, since: t.Since,
		lives: t.TTL, drop: t.Until}
}

// keepLocked keeps a repair, and returns the one that is now pending for its token; nil if there
// are too many.
func (l *Lane) keepLocked(r repair) *repair {
	pending, dropped := l.repairs.put(r)
	if dropped && l.status.countDropped() {
		l.cfg.Log.Warn("a master misses too much, repairs are dropped: keys there live until their ttl is over",
			l.cfg.field(), zap.Uint64("dropped", l.status.shown.Dropped))
	}
	return pending
}

// Releasing reports whether a release of the token is pending, or has just been answered.
func (l *Lane) Releasing(t wire.TokenAt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.repairs.find(t); r != nil && r.ends() {
		return true
	}
	return l.conn.justReleased(t)
}

// NoteUnconfirmed adds to a pending release which other masters have not confirmed that they
// deleted the token. If the release comes late, the lane passes them to Host.ReleasedLate. sent:
// the master may have carried the release out by now; pending: it has not answered.
func (l *Lane) NoteUnconfirmed(t wire.TokenAt, masters uint64) (sent, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.repairs.find(t)
	if r == nil || !r.ends() {
		return true, false
	}
	r.unconfirmed |= masters
	return r.state == repairSent, true
}
