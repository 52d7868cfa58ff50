package commands

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"lockproxy/commands/internal/queue"
	"lockproxy/commands/internal/session"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// lockCommands run LOCK, UNLOCK and EXTEND: they change locks.
type lockCommands struct {
	*sharedOptions
	permissions  *permissions
	outcomes     *outcomes
	queues       *queue.Queues
	sessionLocks *session.Locks
	grants       *grants
}

// lock is LOCK key ttl [KEYS n key ...] [SHARED | LIMIT n] [WAIT timeout] [SESSION] [OWNER label]
// [FULL], or LOCK HELP
//
//	> *3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$4\r\n5000\r\n
//	< $57\r\n0000000000000007:9f86...\r\n  the token, or
//	< $-1\r\n                              held by another (RESP3: _\r\n)
//
// With FULL, granted:
//
//	< *3\r\n$57\r\n0000000000000007:9f86...\r\n:7\r\n:4941\r\n  token, fence, validity in ms
//
// With LIMIT, too: *4\r\n..., the slot at the end.
func (l *lockCommands) lock(c *call) {
	if c.sub == help {
		c.writeLines(lockHelp)
		return
	}
	if !c.wait {
		lease, err := queue.Acquire(c.session.Context(), c.session.ClientClosed(), l.opts.Locker, c.request())
		l.locked(c, lease, err)
		return
	}
	lease, err := l.queues.Wait(c.session.Context(), c.session.ClientClosed(), c.timeout,
		c.session.RemoteAddr(), c.request())
	if err == nil && !l.permitAgain(c, &lease) {
		return
	}
	l.locked(c, lease, err)
}

func (l *lockCommands) beginLock(q *loopCall) {
	leave := l.opts.Locker.AcquireAsync(q.request(), func(lease quorum.Lease, err error) {
		q.finish(func() { l.locked(&q.call, lease, err) })
	})
	if leave == nil {
		return
	}
	q.mayLeave(leave, func(err error) {
		q.finish(func() { l.locked(&q.call, quorum.Lease{}, err) })
	})
}

// mayLeave gives up an acquire that has not been sent when the client leaves. left then gets the
// reason.
func (q *loopCall) mayLeave(leave func() bool, left func(error)) {
	q.waits.Store(true)
	q.session.OnClientClosed(func() {
		if leave() {
			err := queue.ErrDisconnected
			if ctx := q.session.Context(); ctx.Err() != nil { // the proxy ended the connection
				err = context.Cause(ctx)
			}
			left(err)
		}
	})
}

// request returns the request to the masters. Without OWNER the label is the client's address. The
// name of CLIENT SETNAME would cost a round trip to the upstream.
func (c *call) request() quorum.Request {
	owner := c.owner
	if owner == "" {
		owner = c.session.Address()
		if !validLabel(owner) { // it may contain the name of an interface
			owner = ""
		}
	}
	return quorum.Request{Key: c.key, Keys: c.keys, TTL: c.ttl, Owner: owner, Mode: c.mode, Limit: int(c.limit)}
}

// locked writes the reply to LOCK.
func (l *lockCommands) locked(c *call, lease quorum.Lease, err error) {
	if err != nil {
		l.outcomes.writeFailure(c, err)
		return
	}
	l.outcomes.count(c, stat.OutcomeGranted)
	c.token.Fence = lease.Token.Fence
	l.grants.granted(c.key, lease.Token, c.mode)
	for _, key := range c.keys {
		l.grants.granted(key, lease.Token, c.mode)
	}
	c.session.OnUndelivered(func() {
		l.opts.Log.Debug("lock granted, but its reply cannot be delivered: released", zap.String("key", c.key))
		l.giveBack(&c.args, lease.Token)
		l.outcomes.reportUndelivered(c)
	})
	if c.args.session {
		l.keep(c, lease)
	}
	c.writeLease(lease)
}

// keep makes a lock belong to the connection.
func (l *lockCommands) keep(c *call, lease quorum.Lease) {
	l.sessionLocks.Keep(c.session, c.allKeys(), lease, c.ttl)
	if err := c.session.WatchPeer(l.now().SessionTimeout); err != nil {
		l.opts.Log.Warn("session-timeout cannot be set on a connection", zap.Error(err))
	}
}

// writeLease writes the reply to a LOCK that was granted.
func (c *call) writeLease(lease quorum.Lease) {
	if !c.full {
		c.writeBulk(lease.Token.String())
		return
	}
	slotted := c.mode == quorum.Limited
	if slotted {
		c.writeArray(4)
	} else {
		c.writeArray(3)
	}
	c.writeBulk(lease.Token.String())
	c.writeInt(int64(lease.Token.Fence))
	c.writeInt(lease.Validity.Milliseconds())
	if slotted {
		c.writeInt(int64(lease.Slot))
	}
}

// giveBack releases what LOCK got in the background, and wakes the clients that wait for it.
func (l *lockCommands) giveBack(a *args, token quorum.Token) {
	l.sessionLocks.Forget(a.key, a.keys, token.Secret)
	for _, key := range a.allKeys() {
		l.opts.Locker.Abandon(key, token)
		l.queues.Released(key, token.Secret)
	}
}

// parseLock parses LOCK key ttl and its options, or LOCK HELP.
func (p *argParser) parseLock(argv [][]byte) (a args, err error) {
	if len(argv) == 1 && strings.EqualFold(string(argv[0]), help) {
		a.sub, a.blocks = help, true
		return a, nil
	}
	if len(argv) < 2 {
		return a, errArity("lock")
	}
	if a.key, err = p.parseKey(argv[0]); err != nil {
		return a, err
	}
	if a.ttl, err = p.parseTTL("lock", argv[1]); err != nil || len(argv) == 2 {
		return a, err
	}
	seen, err := p.parseOptions(&a, "lock", argv[2:], apart|waitOption|sessionOption|ownerOption|fullOption)
	if seen&sharedOption != 0 {
		a.mode = quorum.Shared
	}
	a.blocks = a.wait
	return a, err
}
