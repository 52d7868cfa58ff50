package quorum

import (
	"bufio"
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	minBackoff     = 20 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
	refusedBackoff = time.Second // where only the operator can help
	steadyAfter    = time.Second // a lane that lived so long starts anew with minBackoff
)

// run is the supervisor: it keeps the lane connected until ctx ends.
func (l *lane) run(ctx context.Context) {
	pause := minBackoff
	for ctx.Err() == nil {
		c, err := l.connect(ctx)
		if err == nil {
			began := time.Now()
			l.serve(ctx, c)
			if time.Since(began) >= steadyAfter {
				pause = minBackoff
				continue
			}
		}
		wait := pause
		if _, refused := errors.AsType[refusedError](err); refused {
			wait = refusedBackoff
		} else {
			pause = min(2*pause, maxBackoff)
		}
		// Jitter, so that many lanes do not come back to a restarted master as one.
		sleep(ctx, l.dice.jitter(wait))
	}
}

// sleep waits for d, or less if ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// connect dials and says everything that comes before new work. With a nil error the guard has been told of the master, and
// decides whether it votes.
func (l *lane) connect(ctx context.Context) (*laneConn, error) {
	c, found, err := l.greet(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.noteFailure(err)
		}
		l.decided()
		return nil, err
	}
	l.host.looked(l.index, found)
	return c, nil
}

// greet dials and shakes hands, both bounded by handshakeTimeout.
func (l *lane) greet(ctx context.Context) (c *laneConn, found view, err error) {
	dialCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	raw, err := l.opts.dial(dialCtx)
	if err != nil {
		return nil, found, connReason(err, handshakeTimeout)
	}
	c = &laneConn{Conn: raw, in: bufio.NewReaderSize(raw, maxReplyLine), wake: make(chan struct{}, 1), broken: make(chan struct{})}
	if plain, ok := raw.(syscall.Conn); ok { // not TLS
		c.raw, _ = plain.SyscallConn()
	}
	stop := context.AfterFunc(ctx, func() { _ = bare(raw).Close() })
	defer stop()
	if found, err = l.handshake(c); err != nil {
		_ = bare(raw).Close()
		l.host.unclaim(l.index)
		return nil, found, err
	}
	return c, found, nil
}

// noteFailure makes the reason known: to those who ask now, and once to the log.
func (l *lane) noteFailure(err error) {
	state := StateDown
	if _, refused := errors.AsType[refusedError](err); refused {
		state = StateRefused
	}
	l.mu.Lock()
	l.setLocked(state, err)
	l.owed.purge(time.Now())
	l.mu.Unlock()
	l.warn(state, err, err.Error())
}

// warn logs that the master does not vote, unless that was the last thing logged; topic is what makes two reasons one.
func (l *lane) warn(state State, reason error, topic string) {
	l.mu.Lock()
	said := l.warned == topic
	l.warned = topic
	l.mu.Unlock()
	if !said {
		l.log.Warn("master does not vote", zap.String("master", l.names[l.index]), zap.String("state", string(state)), zap.Error(reason))
	}
}

// serve runs a connection, until it breaks or ctx ends.
func (l *lane) serve(ctx context.Context, c *laneConn) {
	var wg sync.WaitGroup
	wg.Go(func() { l.read(c) })
	wg.Go(func() { l.write(c) })
	l.watch(ctx, c)
	wg.Wait()
	l.bury()
	l.host.unclaim(l.index)
	l.host.lost(l.index)
	if ctx.Err() == nil {
		l.mu.Lock()
		reason := l.reason
		l.warned = reason.Error()
		l.mu.Unlock()
		l.log.Warn("master is down", zap.String("master", l.names[l.index]), zap.Error(reason))
	}
}

// watch ends when the connection has: by itself, because a PING was not answered, or because ctx ended.
func (l *lane) watch(ctx context.Context, c *laneConn) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	overdue := time.NewTimer(silence)
	overdue.Stop()
	defer overdue.Stop()
	for {
		select {
		case <-c.broken:
			return
		case <-ctx.Done():
			keepLinger(c.Conn)
			l.fail(c, errClosing)
			return
		case <-overdue.C:
			if l.pingOut() {
				l.fail(c, silentError(silence))
				return
			}
		case <-tick.C:
			if l.tick(c, time.Now()) {
				overdue.Reset(silence)
			}
		}
	}
}

// tick pings unless a PING is on its way, looks, and sends what is owed. It reports whether it has sent a PING.
func (l *lane) tick(c *laneConn, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return false
	}
	l.owed.purge(now)
	l.sendOwedLocked(now, true)
	if l.closing {
		l.host.settled()
	}
	if !l.pinged.IsZero() {
		return false
	}
	l.pinged = now
	l.pushLocked(command{op: opPing})
	l.lookLocked()
	return true
}

func (l *lane) pingOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pinged.IsZero()
}
