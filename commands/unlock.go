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
func (l *lockCommands) unlock(c *call) {
	released, _, err := quorum.Await(c.session.Context(), l.opts.Locker.Flush,
		func(done func(bool, error)) { l.askUnlock(&c.args, done) })
	l.unlocked(c, released, err)
}

func (l *lockCommands) beginUnlock(q *loopCall) {
	l.askUnlock(&q.args, func(released bool, err error) {
		q.finish(func() { l.unlocked(&q.call, released, err) })
	})
}

// askUnlock asks the masters for the release that UNLOCK wants.
func (l *lockCommands) askUnlock(a *args, done func(released bool, err error)) {
	l.sessionLocks.Forget(a.key, a.keys, a.token.Secret)
	want := quorum.ReleaseRequest{Key: a.key, Keys: a.keys, Token: a.token, Keep: a.keep}
	if a.keep == 0 {
		want.Likely = l.grants.mode(a.key, a.token)
	}
	l.opts.Locker.ReleaseAsync(want, done)
}

// unlocked writes the reply to UNLOCK.
func (l *lockCommands) unlocked(c *call, released bool, err error) {
	switch {
	case err != nil:
		l.outcomes.writeFailure(c, err)
	case released:
		l.outcomes.count(c, stat.OutcomeReleased)
		l.free(c, c.key)
		for _, key := range c.keys {
			l.free(c, key)
		}
		c.writeInt(1)
	default:
		l.outcomes.count(c, stat.OutcomeNotHeld)
		for _, key := range c.keys { // some of them may have been held
			l.queues.Wake(key)
		}
		if len(c.keys) > 0 {
			l.queues.Wake(c.key)
		}
		c.writeInt(0)
	}
}

// free records that UNLOCK has released key, and wakes the clients that wait for it. After KEEP
// they learn when it opens.
func (l *lockCommands) free(c *call, key string) {
	c.held = max(c.held, l.grants.released(key, c.token))
	if c.keep > 0 {
		l.queues.Wake(key)
		return
	}
	l.queues.Released(key, c.token.Secret)
}

// parseUnlock parses UNLOCK key token and its options.
func (p *argParser) parseUnlock(argv [][]byte) (a args, err error) {
	if len(argv) < 2 {
		return a, errArity("unlock")
	}
	if a.key, err = p.parseKey(argv[0]); err != nil {
		return a, err
	}
	if a.token, err = parseToken(argv[1]); err != nil || len(argv) == 2 {
		return a, err
	}
	a.blocks = true
	_, err = p.parseOptions(&a, "unlock", argv[2:], keysOption|keepOption)
	return a, err
}
