package commands

import "lockproxy/stat"

// unlock is UNLOCK key token
//
//	> *3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
//	< :1\r\n  released, or
//	< :0\r\n  this token does not hold the lock: expired, taken over, released before
func (s *Service) unlock(c *call) {
	s.sessionLocks.Forget(c.key, c.token.Secret)
	released, err := s.o.Locker.Release(c.session.Context(), c.key, c.token)
	s.unlocked(c, released, err)
}

func (s *Service) beginUnlock(q *loopCall) {
	s.sessionLocks.Forget(q.key, q.token.Secret)
	s.o.Locker.ReleaseAsync(q.key, q.token, func(released bool, err error) {
		q.finish(func() { s.unlocked(&q.call, released, err) })
	})
}

// unlocked writes the reply to UNLOCK.
func (s *Service) unlocked(c *call, released bool, err error) {
	switch {
	case err != nil:
		s.writeFailure(c, err)
	case released:
		s.count(c, stat.OutcomeReleased)
		c.held = s.grants.released(c.key, c.token.Fence)
		s.queues.Released(c.key, c.token.Secret)
		c.writeInt(1)
	default:
		s.count(c, stat.OutcomeNotHeld)
		c.writeInt(0)
	}
}

// parseUnlock parses UNLOCK key token.
func parseUnlock(s *Service, argv [][]byte) (a args, err error) {
	if len(argv) != 2 {
		return a, errArity("unlock")
	}
	if a.key, err = s.parseKey(argv[0]); err != nil {
		return a, err
	}
	a.token, err = parseToken(argv[1])
	return a, err
}
