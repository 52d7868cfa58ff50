package commands

import (
	"errors"

	"lockproxy/commands/internal/queue"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// infoCommand runs LOCKINFO: it reads locks.
type infoCommand struct {
	*sharedOptions
	permissions *permissions
	outcomes    *outcomes
	queues      *queue.Queues
	followers   *followers
}

// lockinfo is LOCKINFO key [SINCE fence [WAIT timeout]]
//
//	> *2\r\n$8\r\nLOCKINFO\r\n$3\r\njob\r\n
//	< *16\r\n$4\r\nheld\r\n:3\r\n$7\r\nmasters\r\n:3\r\n$3\r\nttl\r\n:4712\r\n
//	  $5\r\nfence\r\n:7\r\n$5\r\nowner\r\n$3\r\nme1\r\n
//	  $7\r\nwaiting\r\n:0\r\n$4\r\nmode\r\n$9\r\nexclusive\r\n$7\r\nholders\r\n:1\r\n
//	< $-1\r\n  no token holds a majority
//
// RESP3: a map, %8\r\n..., and _\r\n. Without WAIT the reply comes at once, with any fence.
func (i *infoCommand) lockinfo(c *call) {
	info, err := i.inspect(c)
	if err == nil && c.wait { // the user may have lost the right meanwhile
		if refusal := i.permissions.permit(c); refusal != nil {
			c.refuse(refusal)
			return
		}
	}
	switch {
	case errors.Is(err, queue.ErrDisconnected):
		c.outcome = stat.OutcomeGone
		c.writeNull()
	case err != nil:
		i.outcomes.writeFailure(c, err)
	case info.Held == 0:
		c.writeNull()
	default:
		l := lockOf(&info, i.queues.Waiters(c.key))
		c.writeLock(&l, false)
	}
}

// inspect asks the masters about the key, or waits until its holder is another one.
func (i *infoCommand) inspect(c *call) (quorum.Info, error) {
	ctx := c.session.Context()
	if !c.wait {
		return i.opts.Inspector.Inspect(ctx, c.key)
	}
	return i.followers.wait(c.key, i.now().MaxWaiters,
		follower{ctx: ctx, disconnected: c.session.ClientClosed(), since: c.since, timeout: c.timeout})
}

// writeLock writes the map for one lock: with its key first if withKey.
func (c *call) writeLock(l *stat.Lock, withKey bool) {
	fields, more := l.Fields(), 0
	if !withKey {
		fields = fields[1:]
	}
	limited, foreign := l.Mode == quorum.Limited.String(), l.Mode == quorum.Foreign.String()
	if limited || foreign {
		more = 1
	}
	c.writeFields(fields, more)
	if foreign {
		c.writeText("type", l.Type)
	}
	if limited {
		c.writeBulk("slots")
		c.writeArray(len(l.Slots))
		for i := range l.Slots {
			c.writeFields(l.Slots[i].Fields(), 0)
		}
	}
}

// parseInfo parses LOCKINFO key and its options.
func (p *argParser) parseInfo(argv [][]byte) (a args, err error) {
	if len(argv) < 1 {
		return a, errArity("lockinfo")
	}
	if a.key, err = p.parseKey(argv[0]); err != nil || len(argv) == 1 {
		return a, err
	}
	seen, err := p.parseOptions(&a, "lockinfo", argv[1:], sinceOption|waitOption)
	if err == nil && seen&sinceOption == 0 {
		err = errSyntax("WAIT needs SINCE and a fence")
	}
	return a, err
}
