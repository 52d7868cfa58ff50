package commands

import (
	"context"
	"errors"
	"time"

	"lockproxy/quorum"
	"lockproxy/stat"
)

// extend is EXTEND key token ttl [KEYS n key ...] [SHARED] [SESSION] [FULL]
//
//	> *4\r\n$6\r\nEXTEND\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n$4\r\n5000\r\n
//	< :1\r\n  held for at least ttl from here, or
//	< :0\r\n  this token does not hold the lock any more
//
// With FULL: *2\r\n:1\r\n:4941\r\n, the validity in milliseconds, or *2\r\n:0\r\n:0\r\n
func (s *Service) extend(c *call) {
	ctx := c.session.Context()
	validity, err := quorum.AwaitValidity(ctx, s.o.Locker.Flush,
		func(done func(time.Duration, error)) { s.askExtend(ctx, &c.args, done) })
	s.extended(c, validity, err)
}

func (s *Service) beginExtend(q *loopCall) {
	s.askExtend(context.Background(), &q.args, func(validity time.Duration, err error) {
		q.finish(func() { s.extended(&q.call, validity, err) })
	})
}

// askExtend asks the masters for the extension that EXTEND wants.
func (s *Service) askExtend(ctx context.Context, a *args, done func(validity time.Duration, err error)) {
	s.sessionLocks.Claim(a.key, a.keys, a.token.Secret, a.session)
	want := quorum.ExtendRequest{Key: a.key, Keys: a.keys, Token: a.token, TTL: a.ttl, Share: a.share}
	s.o.Locker.ExtendAsync(ctx, want, done)
}

// extended writes the reply to EXTEND.
func (s *Service) extended(c *call, validity time.Duration, err error) {
	held, how := int64(1), stat.OutcomeExtended
	if err != nil && c.args.session {
		s.sessionLocks.Stays(c.token.Secret)
	}
	switch {
	case errors.Is(err, quorum.ErrLost):
		held, how, validity = 0, stat.OutcomeLost, 0
	case err != nil:
		s.writeFailure(c, err)
		return
	default:
		if c.args.session {
			s.keep(c, quorum.Lease{Token: c.token, Validity: validity})
		} else {
			s.sessionLocks.Extended(c.key, c.keys, c.token.Secret, validity)
		}
		if c.share {
			s.grants.shared(c.key, c.token)
			s.queues.Wake(c.key) // others may share it
		}
	}
	s.count(c, how)
	if c.full {
		c.writeArray(2)
	}
	c.writeInt(held)
	if c.full {
		c.writeInt(validity.Milliseconds())
	}
}

// parseExtend parses EXTEND key token ttl and its options.
func parseExtend(s *Service, argv [][]byte) (a args, err error) {
	if len(argv) < 3 {
		return a, errArity("extend")
	}
	if a.key, err = s.parseKey(argv[0]); err != nil {
		return a, err
	}
	if a.token, err = parseToken(argv[1]); err != nil {
		return a, err
	}
	if a.ttl, err = s.parseTTL("extend", argv[2]); err != nil || len(argv) == 3 {
		return a, err
	}
	seen, err := s.parseOptions(&a, "extend", argv[3:], keysOption|sharedOption|sessionOption|fullOption)
	a.share = seen&sharedOption != 0
	a.blocks = a.share || len(a.keys) > 0
	return a, err
}
