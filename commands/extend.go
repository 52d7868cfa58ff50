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
func (l *lockCommands) extend(c *call) {
	ctx := c.session.Context()
	validity, err := quorum.AwaitValidity(ctx, l.opts.Locker.Flush,
		func(done func(time.Duration, error)) { l.askExtend(ctx, &c.args, done) })
	l.extended(c, validity, err)
}

func (l *lockCommands) beginExtend(q *loopCall) {
	l.askExtend(context.Background(), &q.args, func(validity time.Duration, err error) {
		q.finish(func() { l.extended(&q.call, validity, err) })
	})
}

// askExtend asks the masters for the extension that EXTEND wants.
func (l *lockCommands) askExtend(ctx context.Context, a *args, done func(validity time.Duration, err error)) {
	l.sessionLocks.Claim(a.key, a.keys, a.token.Secret, a.session)
	want := quorum.ExtendRequest{Key: a.key, Keys: a.keys, Token: a.token, TTL: a.ttl, Share: a.share}
	l.opts.Locker.ExtendAsync(ctx, want, done)
}

// extended writes the reply to EXTEND.
func (l *lockCommands) extended(c *call, validity time.Duration, err error) {
	held, how := int64(1), stat.OutcomeExtended
	if err != nil && c.args.session {
		l.sessionLocks.Stays(c.token.Secret)
	}
	switch {
	case errors.Is(err, quorum.ErrLost):
		held, how, validity = 0, stat.OutcomeLost, 0
	case err != nil:
		l.outcomes.writeFailure(c, err)
		return
	default:
		if c.args.session {
			l.keep(c, quorum.Lease{Token: c.token, Validity: validity})
		} else {
			l.sessionLocks.Extended(c.key, c.keys, c.token.Secret, validity)
		}
		if c.share {
			l.grants.shared(c.key, c.token)
			l.queues.Wake(c.key) // others may share it
		}
	}
	l.outcomes.count(c, how)
	if c.full {
		c.writeArray(2)
	}
	c.writeInt(held)
	if c.full {
		c.writeInt(validity.Milliseconds())
	}
}

// parseExtend parses EXTEND key token ttl and its options.
func (p *argParser) parseExtend(argv [][]byte) (a args, err error) {
	if len(argv) < 3 {
		return a, errArity("extend")
	}
	if a.key, err = p.parseKey(argv[0]); err != nil {
		return a, err
	}
	if a.token, err = parseToken(argv[1]); err != nil {
		return a, err
	}
	if a.ttl, err = p.parseTTL("extend", argv[2]); err != nil || len(argv) == 3 {
		return a, err
	}
	seen, err := p.parseOptions(&a, "extend", argv[3:], keysOption|sharedOption|sessionOption|fullOption)
	a.share = seen&sharedOption != 0
	a.blocks = a.share || len(a.keys) > 0
	return a, err
}
