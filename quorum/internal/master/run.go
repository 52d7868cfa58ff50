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

// supervisor connects a lane, and watches over the connection. One goroutine uses it.
type supervisor struct {
	lane    *Lane
	conns   uint64 // number of the last connection
	lastID  int64  // CLIENT ID of the last connection that returned it
	lastRun string // run_id of its server
}

// Run keeps the lane connected until ctx ends.
func (l *Lane) Run(ctx context.Context) { (&supervisor{lane: l}).run(ctx) }

func (s *supervisor) run(ctx context.Context) {
	l := s.lane
	pause := minBackoff
	for ctx.Err() == nil {
		began := time.Now()
		served, err := s.connect(ctx)
		if ctx.Err() == nil {
			s.noteEnd(served, err)
		}
		l.ready.close()
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

// connect opens one connection and serves it until it breaks or ctx ends. served reports whether
// the host learned of the master, err is the reason for the end.
func (s *supervisor) connect(ctx context.Context) (served bool, err error) {
	l := s.lane
	dialing, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	raw, err := l.cfg.Options.Connect(dialing)
	if err != nil {
		return false, Reason(err, silence)
	}
	s.conns++
	c := newConn(l, raw, s.conns)
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(c.write)
	if c.polled != nil {
		c.watch()
	} else {
		wg.Go(c.read)
	}
	served, err = s.supervise(ctx, c)
	if ctx.Err() != nil {
		keepLinger(c.Conn)
		err = ErrClosing
	}
	c.fail(err)
	wg.Wait()
	c.endReading()
	s.failPending()
	l.cfg.Host.Unclaim(l.cfg.Index)
	l.mu.Lock()
	writes := l.server.takeWrites()
	l.mu.Unlock()
	l.cfg.Host.Lost(l.cfg.Index, writes)
	return served, err
}

// supervise sends the handshake and the missed releases, and then watches over the connection: it
// sends a PING and a probe each second, and a probe on demand. It returns when the connection
// ends.
func (s *supervisor) supervise(ctx context.Context, c *conn) (served bool, err error) {
	if err = s.handshake(ctx, c); err == nil {
		err = s.replay(ctx, c)
	}
	if err != nil {
		return false, err
	}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		if err := s.probe(ctx, c, served); err != nil {
			return served, err
		}
		served = true
		select {
		case <-c.broken:
			return true, c.reason
		case <-ctx.Done():
			return true, ctx.Err()
		case <-s.lane.server.wanted:
		case <-tick.C:
			s.sendRepairs(time.Now())
			if err := s.ping(ctx, c); err != nil {
				return true, err
			}
			s.endSlow()
		}
	}
}

// sendRepairs drops the repairs that are pointless by now and sends the others.
func (s *supervisor) sendRepairs(now time.Time) {
	l := s.lane
	l.mu.Lock()
	l.repairs.purge(now)
	l.repairs.sendAll(&l.status, &l.queue, now, true)
	l.conn.wakeLocked()
	closing := l.status.closing
	l.mu.Unlock()
	if closing {
		l.cfg.Host.Drained()
	}
}

// noteEnd keeps the reason why there is no connection, and logs it once.
func (s *supervisor) noteEnd(served bool, err error) {
	l := s.lane
	state := stat.StateDown
	if isA[refusedError](err) {
		state = stat.StateRefused
	}
	l.mu.Lock()
	l.status.set(state, err)
	l.repairs.purge(time.Now())
	l.mu.Unlock()
	if served {
		l.cfg.Log.Warn("master is down", l.cfg.field(), zap.Error(err))
	}
	l.warn(state, err, err.Error(), served)
}

// failPending fails everything that a dead connection left unanswered, and makes the repairs that
// were on it due again.
func (s *supervisor) failPending() {
	l := s.lane
	l.mu.Lock()
	written, reason, closing := l.queue.sent(), l.status.reason, l.status.closing
	dead := l.queue.pop(nil, l.queue.n)
	l.queue = queue{}
	l.repairs.backlog, l.server.probing = false, false
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
	l.cfg.Host.Flush()
	if closing {
		l.cfg.Host.Drained()
	}
}

// endSlow ends the slow state of a master that has given no late answer for a while.
func (s *supervisor) endSlow() {
	l := s.lane
	l.mu.Lock()
	slowest, ended := l.pace.endSlow(l.cfg.clock())
	late := l.status.shown.Late
	l.mu.Unlock()
	if ended {
		l.cfg.Log.Info("master answers in time again", l.cfg.field(),
			zap.Duration("slowest", slowest), zap.Uint64("late_votes", late))
	}
}
