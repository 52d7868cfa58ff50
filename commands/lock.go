package commands

import (
	"errors"

	"go.uber.org/zap"

	"lockproxy/quorum"
)

// lock is LOCK key ttl [WAIT timeout] [SESSION] [OWNER label] [FULL]
//
//	> *3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$4\r\n5000\r\n
//	< $57\r\n0000000000000007:9f86...\r\n  the token, or
//	< $-1\r\n                              held by another (RESP3: _\r\n)
//
// With FULL, granted:
//
//	< *3\r\n$57\r\n0000000000000007:9f86...\r\n:7\r\n:4941\r\n  token, fence, validity in milliseconds
func (s *Service) lock(c *call) {
	want := quorum.Request{Key: c.key, TTL: c.ttl, Owner: c.owner}
	var lease quorum.Lease
	var err error
	if c.wait {
		lease, err = s.lines.wait(c.session.Context(), c.session.Gone(), c.timeout, want)
	} else {
		lease, err = s.o.Locker.Acquire(c.session.Context(), want)
	}
	if err != nil {
		s.writeFailure(c, err)
		return
	}
	if c.wait && !s.permitAgain(c, &lease) {
		return
	}
	s.count(c, outGranted)
	c.token.Fence = lease.Token.Fence
	s.grants.granted(c.key, c.token.Fence)
	c.session.OnUndelivered(func() {
		s.o.Log.Debug("lock granted, but its reply cannot be delivered: released", zap.String("key", c.key))
		s.giveBack(c.key, lease.Token)
		s.reportUndelivered(c)
	})
	if c.args.session {
		s.holds.keep(c.session, c.key, lease, c.ttl)
		if err := c.session.WatchPeer(s.now().SessionTimeout); err != nil {
			s.o.Log.Warn("session-timeout cannot be set on a connection", zap.Error(err))
		}
	}
	c.writeLease(lease)
}

// giveBack releases a lock in the background, and tells those who wait for it.
func (s *Service) giveBack(key string, token quorum.Token) {
	s.holds.forget(key, token.Secret)
	s.o.Locker.Abandon(key, token)
	s.freed(key, token.Secret)
}

// freed wakes the line for key: the release of secret is on its way, and what is asked of the masters from here on comes behind it.
func (s *Service) freed(key, secret string) {
	if s.lines.waited(key) { // who comes later asks later
		s.lines.freed(key, quorum.ReleaseID(secret))
	}
}

// writeLease writes the reply to a LOCK that was granted.
func (c *call) writeLease(lease quorum.Lease) {
	if !c.full {
		c.WriteBulkString(lease.Token.String())
		return
	}
	c.WriteArray(3)
	c.WriteBulkString(lease.Token.String())
	c.WriteUint64(lease.Token.Fence)
	c.WriteInt64(lease.Validity.Milliseconds())
}

// unlock is UNLOCK key token
//
//	> *3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
//	< :1\r\n  released, or
//	< :0\r\n  this token does not hold the lock: expired, taken over, released before
func (s *Service) unlock(c *call) {
	s.holds.forget(c.key, c.token.Secret)
	released, err := s.o.Locker.Release(c.session.Context(), c.key, c.token)
	switch {
	case err != nil:
		s.writeFailure(c, err)
	case released:
		s.count(c, outReleased)
		c.held = s.grants.released(c.key, c.token.Fence)
		s.freed(c.key, c.token.Secret)
		c.WriteInt(1)
	default:
		s.count(c, outNotHeld)
		c.WriteInt(0)
	}
}

// extend is EXTEND key token ttl [FULL]
//
//	> *4\r\n$6\r\nEXTEND\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n$4\r\n5000\r\n
//	< :1\r\n  held for at least ttl from here, or
//	< :0\r\n  this token does not hold the lock any more
//
// With FULL: *2\r\n:1\r\n:4941\r\n, the validity in milliseconds, or *2\r\n:0\r\n:0\r\n
func (s *Service) extend(c *call) {
	validity, err := s.o.Locker.Extend(c.session.Context(), c.key, c.token, c.ttl)
	held, how := 1, outExtended
	switch {
	case errors.Is(err, quorum.ErrLost):
		held, how, validity = 0, outLost, 0
	case err != nil:
		s.writeFailure(c, err)
		return
	default:
		s.holds.extended(c.key, c.token.Secret, validity)
	}
	s.count(c, how)
	if c.full {
		c.WriteArray(2)
	}
	c.WriteInt(held)
	if c.full {
		c.WriteInt64(validity.Milliseconds())
	}
}
