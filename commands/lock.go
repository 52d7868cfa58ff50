package commands

import (
	"strings"

	"go.uber.org/zap"

	"lockproxy/quorum"
	"lockproxy/stat"
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
	if !c.wait {
		lease, err := s.o.Locker.Acquire(c.session.Context(), c.request())
		s.locked(c, lease, err)
		return
	}
	lease, err := s.queues.Wait(c.session.Context(), c.session.Gone(), c.timeout, c.request())
	if err == nil && !s.permitAgain(c, &lease) {
		return
	}
	s.locked(c, lease, err)
}

func (s *Service) beginLock(q *loopCall) {
	s.o.Locker.AcquireAsync(q.request(), func(lease quorum.Lease, err error) {
		q.finish(func() { s.locked(&q.call, lease, err) })
	})
}

func (c *call) request() quorum.Request {
	return quorum.Request{Key: c.key, TTL: c.ttl, Owner: c.owner}
}

// locked writes the reply to LOCK.
func (s *Service) locked(c *call, lease quorum.Lease, err error) {
	if err != nil {
		s.writeFailure(c, err)
		return
	}
	s.count(c, stat.OutcomeGranted)
	c.token.Fence = lease.Token.Fence
	s.grants.granted(c.key, c.token.Fence)
	c.session.OnUndelivered(func() {
		s.o.Log.Debug("lock granted, but its reply cannot be delivered: released", zap.String("key", c.key))
		s.giveBack(c.key, lease.Token)
		s.reportUndelivered(c)
	})
	if c.args.session {
		s.sessionLocks.Keep(c.session, c.key, lease, c.ttl)
		if err := c.session.WatchPeer(s.now().SessionTimeout); err != nil {
			s.o.Log.Warn("session-timeout cannot be set on a connection", zap.Error(err))
		}
	}
	if c.full {
		c.writeArray(3)
	}
	c.writeBulk(lease.Token.String())
	if c.full {
		c.writeInt(int64(lease.Token.Fence))
		c.writeInt(lease.Validity.Milliseconds())
	}
}

// giveBack releases a lock in the background and wakes the clients that wait for it.
func (s *Service) giveBack(key string, token quorum.Token) {
	s.sessionLocks.Forget(key, token.Secret)
	s.o.Locker.Abandon(key, token)
	s.queues.Released(key, token.Secret)
}

// parseLock parses LOCK key ttl [WAIT timeout] [SESSION] [OWNER label] [FULL].
func parseLock(s *Service, argv [][]byte) (a args, err error) {
	if len(argv) < 2 {
		return a, errArity("lock")
	}
	if a.key, err = s.parseKey(argv[0]); err != nil {
		return a, err
	}
	if a.ttl, err = s.parseTTL("lock", argv[1]); err != nil {
		return a, err
	}
	return a, a.parseOptions(argv[2:])
}

// parseOptions parses the options of LOCK: in any order and case, each at most once.
func (a *args) parseOptions(argv [][]byte) (err error) {
	for len(argv) > 0 {
		option := strings.ToLower(string(argv[0]))
		argv = argv[1:]
		var value []byte
		if option == "wait" || option == "owner" {
			if len(argv) == 0 {
				return errSyntax
			}
			value, argv = argv[0], argv[1:]
		}
		switch {
		case option == "wait" && !a.wait:
			a.wait = true
			a.timeout, err = parseTimeout(value)
		case option == "owner" && a.owner == "":
			a.owner, err = parseLabel(value)
		case option == "session" && !a.session:
			a.session = true
		case option == "full" && !a.full:
			a.full = true
		default:
			return errSyntax
		}
		if err != nil {
			return err
		}
	}
	return nil
}
