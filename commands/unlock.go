package commands

import "lockproxy/stat"

// unlock is UNLOCK key token [KEYS n key ...] [KEEP ttl]
//
//	> *3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
//	< :1\r\n  released, or
//	< :0\r\n  this token does not hold the lock: expired, taken over, released before
func (s *Service) unlock(c *call) {
	s.sessionLocks.Forget(c.key, c.keys, c.token.Secret)
	released, err := s.o.Locker.Release(c.session.Context(), c.allKeys(), c.token, c.keep)
	s.unlocked(c, released, err)
}

func (s *Service) beginUnlock(q *loopCall) {
	s.sessionLocks.Forget(q.key, nil, q.token.Secret)
	s.o.Locker.ReleaseAsync(q.key, q.token, s.grants.mode(q.key, q.token), func(released bool, err error) {
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
		s.free(c, c.key)
		for _, key := range c.keys {
			s.free(c, key)
		}
		c.writeInt(1)
	default:
		s.count(c, stat.OutcomeNotHeld)
		for _, key := range c.keys { // some of them may have been held
			s.queues.Wake(key)
		}
		if len(c.keys) > 0 {
			s.queues.Wake(c.key)
		}
		c.writeInt(0)
	}
}

// free notes that UNLOCK has released key, and wakes those who wait for it. After KEEP they learn
// when it opens.
func (s *Service) free(c *call, key string) {
	c.held = max(c.held, s.grants.released(key, c.token))
	if c.keep > 0 {
		s.queues.Wake(key)
		return
	}
	s.queues.Released(key, c.token.Secret)
}

// parseUnlock parses UNLOCK key token and its options.
func parseUnlock(s *Service, argv [][]byte) (a args, err error) {
	if len(argv) < 2 {
		return a, errArity("unlock")
	}
	if a.key, err = s.parseKey(argv[0]); err != nil {
		return a, err
	}
	if a.token, err = parseToken(argv[1]); err != nil || len(argv) == 2 {
		return a, err
	}
	a.blocks = true
	_, err = s.parseOptions(&a, "unlock", argv[2:], keysOption|keepOption)
	return a, err
}
