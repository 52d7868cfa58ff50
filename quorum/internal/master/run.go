package master

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/stat"
)

const (
	minBackoff     = 20 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
	refusedBackoff = time.Second // where only the operator can help
	steadyAfter    = time.Second // a lane that lived so long starts anew with minBackoff
)

// Run is the supervisor: it keeps the lane connected until ctx ends.
func (l *Lane) Run(ctx context.Context) {
	pause := minBackoff
	for ctx.Err() == nil {
		began := time.Now()
		served, err := l.session(ctx)
		if ctx.Err() == nil {
			l.noteEnd(served, err)
		}
		l.markReady()
		wait := pause
		switch {
		case served && time.Since(began) >= steadyAfter:
			pause = minBackoff
			continue
		case isA[refusedError](err):
			wait = refusedBackoff
		default:
			pause = min(2*pause, maxBackoff)
		}
		select { // with jitter, so that many lanes do not come back to a restarted master as one
		case <-ctx.Done():
		case <-time.After(l.cfg.Dice.Jitter(wait)):
		}
	}
}

// session is the life of one connection: it dials, shakes hands and serves until the connection
// breaks or ctx ends. served reports whether the host came to know of the master, err is the
// reason for the end.
func (l *Lane) session(ctx context.Context) (served bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	raw, err := l.cfg.Options.Connect(dialing)
	if err != nil {
		return false, Reason(err, silence)
	}
	l.conns++
	c := newConn(raw, l.conns, l.cfg.Adopt)
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { l.write(c) })
	if c.polled != nil {
		l.watch(c)
	} else {
		wg.Go(func() { l.read(c) })
	}
	served, err = l.supervise(ctx, c)
	if ctx.Err() != nil {
		keepLinger(c.Conn)
		err = ErrClosing
	}
	l.fail(c, err)
	wg.Wait()
	c.turn.Lock() // an event loop may still be at it
	c.over = true
	c.turn.Unlock()
	l.failPending()
	l.cfg.Host.Unclaim(l.cfg.Index)
	l.cfg.Host.Lost(l.cfg.Index, l.takeWrites())
	return served, err
}

// takeWrites returns the number of packets that the master reported on the connection that has
// ended.
func (l *Lane) takeWrites() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, l.writes = l.writes, 0
	return n
}

// supervise says what comes before new work, and then watches over the connection: a PING and a
// probe each second, and whenever somebody wants a probe. It returns when the connection is over.
func (l *Lane) supervise(ctx context.Context, c *conn) (served bool, err error) {
	if err = l.handshake(ctx, c); err == nil {
		err = l.replay(ctx, c)
	}
	if err != nil {
		return false, err
	}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		if err := l.probe(ctx, c, served); err != nil {
			return served, err
		}
		served = true
		select {
		case <-c.broken:
			return true, c.reason
		case <-ctx.Done():
			return true, ctx.Err()
		case <-l.wanted:
		case <-tick.C:
			l.sendRepairs(time.Now())
			if err := l.ping(ctx, c); err != nil {
				return true, err
			}
			l.endSlow()
		}
	}
}

// sendRepairs drops the repairs that are pointless by now and sends the others.
func (l *Lane) sendRepairs(now time.Time) {
	l.mu.Lock()
	l.repairs.purge(now)
	l.sendRepairsLocked(now, true)
	closing := l.closing
	l.mu.Unlock()
	if closing {
		l.cfg.Host.Settled()
	}
}

// noteEnd keeps the reason why there is no connection, and logs it once.
func (l *Lane) noteEnd(served bool, err error) {
	state := stat.StateDown
	if isA[refusedError](err) {
		state = stat.StateRefused
	}
	l.mu.Lock()
	l.setLocked(state, err)
	l.repairs.purge(time.Now())
	l.mu.Unlock()
	if served {
		l.cfg.Log.Warn("master is down", l.master(), zap.Error(err))
	}
	l.warn(state, err, err.Error(), served)
}

// fail ends a connection for a reason. From here on its master counts as "no answer". The reader,
// the writer and the supervisor find out by themselves.
func (l *Lane) fail(c *conn, reason error) {
	l.mu.Lock()
	if l.conn == c {
		if l.up {
			l.status.Lost++
		}
		l.conn, l.up, l.votes, l.record, l.reason = nil, false, false, "", reason
		l.pace = pace{}
		if l.status.State != stat.StateRefused { // it may be refused once more: see noteEnd
			l.setLocked(stat.StateDown, reason)
		}
	}
	l.mu.Unlock()
	first := false
	c.once.Do(func() {
		first, c.reason = true, reason
		close(c.broken)
	})
	if first { // a loop that watches the connection calls fail while it is closed
		HangUp(c.Conn)
	}
}

// failPending fails everything that a dead connection left unanswered, and makes the repairs that
// were on it due again.
func (l *Lane) failPending() {
	l.mu.Lock()
	written, reason, closing := l.queue.n-l.queue.unsent, l.reason, l.closing
	dead := l.queue.pop(nil, l.queue.n)
	l.queue = queue{}
	l.backlog, l.probing = false, false
	l.repairs.connLost()
	l.mu.Unlock()
	for i := range dead {
		e := &dead[i]
		switch {
		case e.call != nil:
			e.call.done(nil)
		case e.to != nil:
			e.to.Answered(l.cfg.Index, &e.op, &Answer{Err: reason, NotRun: i >= written, MayLand: i < written})
		}
	}
	l.cfg.Host.EndTurn()
	if closing {
		l.cfg.Host.Settled()
	}
}
