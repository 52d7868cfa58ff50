package quorum

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
)

// inspect asks all masters for keys that master at holds, and returns the locks that hold a
// majority; if less than a majority answers, what most of these masters have. It leaves out locks
// that an earlier master holds too: that master has shown them.
func (p *page) inspect(ctx context.Context, keys []string, at int) (locks []Info) {
	byMaster := make([][]wire.Inspected, len(p.clients)) // each by key; nil without an answer
	var wg sync.WaitGroup
	for i := range p.clients {
		wg.Go(func() {
			p.ask(ctx, i, func(c *notify.Client) (err error) {
				byMaster[i], err = p.inspectAt(ctx, c, keys)
				return err
			})
		})
	}
	wg.Wait()
	_, fault := p.enough()
	for k, key := range keys {
		values := make([]wire.Inspected, len(byMaster))
		for i := range byMaster {
			if byMaster[i] != nil {
				values[i] = byMaster[i][k]
			}
		}
		info, _ := winner(values)
		if fault != nil {
			info, _ = mostHeld(values)
		}
		if info.Held == 0 || p.foundBefore(values, at) {
			continue
		}
		info.Key = strings.TrimPrefix(key, p.fleet.opts.KeyPrefix)
		locks = append(locks, info)
	}
	return locks
}

// foundBefore reports whether a master before at, which was not skipped, has one of the holders
// at at.
func (p *page) foundBefore(values []wire.Inspected, at int) bool {
	for _, h := range values[at].Holders {
		for i, before := range values[:at] {
			if p.skipped&(1<<i) == 0 && slices.ContainsFunc(before.Holders, func(o wire.Entry) bool { return o.ID == h.ID }) {
				return true
			}
		}
	}
	return false
}

// inspectAt asks one master for all keys, in packets.
func (p *page) inspectAt(ctx context.Context, c *notify.Client, keys []string) ([]wire.Inspected, error) {
	pipe := c.Pipeline()
	for some := range slices.Chunk(keys, wire.MaxOps) {
		_ = pipe.Process(ctx, redis.NewRawCmd(ctx, p.fleet.enc.InspectArgs(some)...))
	}
	packets, err := pipe.Exec(ctx)
	if err != nil {
		return nil, notify.Reason(err)
	}
	values := make([]wire.Inspected, 0, len(keys))
	for _, packet := range packets {
		var r wire.Reply
		if _, err := wire.Parse(packet.(*redis.RawCmd).Val(), &r); err != nil {
			return nil, err
		}
		said, ok := wire.ParsePacket(&r, min(len(keys)-len(values), wire.MaxOps))
		if !ok {
			return nil, master.Answered(&r)
		}
		for i := range said.Results {
			found, ok := wire.ParseInspect(&said.Results[i])
			if !ok {
				return nil, master.Answered(&said.Results[i])
			}
			values = append(values, found)
		}
	}
	return values, nil
}
