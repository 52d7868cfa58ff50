package commands

import (
	"lockproxy/quorum"
	"lockproxy/stat"
)

// unlock is UNLOCK key token [KEYS n key ...] [KEEP ttl]
//
//	> *3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
//	< :1\r\n  released, or
//	< :0\r\n  this token does not hold the lock: expired, taken over, released before
func (s *Service) unlock(c *call) {
	released, _, err := quorum.Await(c.session.Context(), s.o.Locker.Flush,
		func(done func(bool, error)) { s.askUnlock(&c.args, done) })
	s.unlocked(c, released, err)
}

func (s *Service) beginUnlock(q *loopCall) {
	s.askUnlock(&q.args, func(released bool, err error) {
		q.finish(func() { s.unlocked(&q.call, released, err) })
	})
}

// askUnlock asks the masters for the release that UNLOCK wants.
func (s *Service) askUnlock(a *args, done func(released bool, err error)) {
	s.sessionLocks.Forget(a.key, a.keys, a.token.Secret)
	want := quorum.ReleaseRequest{Key: a.key, Keys: a.keys, Token: a.token, Keep: a.keep}
	if a.keep == 0 {
		want.Likely = s.grants.mode(a.key, a.token)
	}
	s.o.Locker.ReleaseAsync(want, done)
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
