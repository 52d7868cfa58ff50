package quorum

import (
	"context"
	"sync"

	"lockproxy/quorum/internal/wire"
)

// Remember keeps value with every master that is connected, whether it votes or not: under about
// in the hash called ReservedPrefix, name, ":" and Options.KeyPrefix. It is for what proxies have
// learnt and want to know after a restart; a master may lose it at any time. kept is how many
// masters have confirmed within Options.MasterTimeout. Safe for concurrent use.
func (q *Quorum) Remember(ctx context.Context, name, about, value string) (kept int) {
	q.callAll(ctx, func(int, wire.Reply) { kept++ }, wire.AppendCommand(nil, "HSET", q.nameOf(name), about, value))
	return kept
}

// Recall returns what Remember has kept, a value for every master in the order of Options.Masters.
// It is empty if the master has none, is not connected or does not answer within
// Options.MasterTimeout. Safe for concurrent use.
func (q *Quorum) Recall(ctx context.Context, name, about string) []string {
	values := make([]string, len(q.lanes))
	q.callAll(ctx, func(lane int, r wire.Reply) { values[lane] = r.Text },
		wire.AppendCommand(nil, "HGET", q.nameOf(name), about))
	return values
}

func (q *Quorum) nameOf(name string) string { return ReservedPrefix + name + ":" + q.opts.KeyPrefix }

// callAll sends a command to all masters at once and hands the answers to use, one at a time.
// Errors are left out.
func (q *Quorum) callAll(ctx context.Context, use func(lane int, r wire.Reply), request []byte) {
	q.enter()
	defer q.leave()
	ctx, cancel := context.WithTimeout(ctx, q.opts.MasterTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, l := range q.lanes {
		wg.Go(func() {
			if r, err := l.Call(ctx, request); err == nil {
				mu.Lock()
				defer mu.Unlock()
				use(i, r)
			}
		})
	}
	wg.Wait()
}
