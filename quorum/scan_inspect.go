package quorum

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
)

var errInspect = errors.New("answered an unexpected reply")

// inspect asks all masters for keys that master at holds, and returns those that hold a majority.
// It leaves out those that an earlier master holds too: they were found there.
func (p *page) inspect(ctx context.Context, keys []string, at int) ([]Info, error) {
	stand := make([][]standing, len(p.clients)) // by master and key; nil without an answer
	var wg sync.WaitGroup
	for i := range p.clients {
		if p.answers[i].state != answerYes {
			continue
		}
		wg.Go(func() {
			var err error
			if stand[i], err = p.standings(ctx, i, keys); err != nil {
				p.fail(ctx, i, err)
			}
		})
	}
	wg.Wait()
	if err := p.enough(); err != nil {
		return nil, err
	}
	var locks []Info
	for k, key := range keys {
		values := make([]standing, len(stand))
		for i := range stand {
			if stand[i] != nil {
				values[i] = stand[i][k]
			}
		}
		info, _ := winner(values)
		if info.Held == 0 || foundBefore(values, at) {
			continue
		}
		info.Key = strings.TrimPrefix(key, p.q.opts.KeyPrefix)
		locks = append(locks, info)
	}
	return locks, nil
}

// foundBefore reports whether a master before at holds what at holds.
func foundBefore(values []standing, at int) bool {
	for _, h := range values[at].holders {
		for _, before := range values[:at] {
			if slices.ContainsFunc(before.holders, func(o holder) bool { return o.id == h.id }) {
				return true
			}
		}
	}
	return false
}

// standings asks one master for all keys, in packets.
func (p *page) standings(ctx context.Context, at int, keys []string) ([]standing, error) {
	c, err := p.client(ctx, at)
	if err != nil {
		return nil, err
	}
	pipe := c.Pipeline()
	for some := range slices.Chunk(keys, wire.MaxOps) {
		names, args := p.q.enc.InspectArgs(some)
		pipe.Eval(ctx, wire.Packet.Body, names, args...)
	}
	packets, err := pipe.Exec(ctx)
	if err != nil {
		return nil, notify.Reason(err)
	}
	values := make([]standing, 0, len(keys))
	for _, packet := range packets {
		results, err := packet.(*redis.Cmd).Slice() // admitted, seconds, microseconds, one for each key
		if err != nil {
			return nil, notify.Reason(err)
		}
		for _, result := range results[min(3, len(results)):] {
			found, ok := wire.ParseInspect(replyOf(result))
			if !ok {
				return nil, errInspect
			}
			values = append(values, standingOf(&found))
		}
	}
	if len(values) != len(keys) {
		return nil, errInspect
	}
	return values, nil
}

// replyOf is the reply that go-redis turned into v. An error is no reply.
func replyOf(v any) *wire.Reply {
	if all, is := v.([]any); is {
		r := &wire.Reply{Kind: '*'}
		for _, elem := range all {
			r.Elems = append(r.Elems, *replyOf(elem))
		}
		return r
	}
	if n, is := v.(int64); is {
		return &wire.Reply{Kind: ':', Int: n}
	}
	text, ok := v.(string)
	switch {
	case v == nil:
		return &wire.Reply{Kind: '$', Null: true}
	case ok && text == "OTHER":
		return &wire.Reply{Kind: '+', Text: text}
	case ok:
		return &wire.Reply{Kind: '$', Text: text}
	}
	return &wire.Reply{}
}
