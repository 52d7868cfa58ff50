package quorum

import (
	"context"

	"lockproxy/quorum/internal/wire"
)

// Remember keeps value with every master that is connected, whether it votes or not: under about
// in the hash called ReservedPrefix, name, ":" and Options.KeyPrefix. It is for what proxies have
// learnt and want to know after a restart; a master may lose it at any time. kept is how many
// masters have confirmed within Options.MasterTimeout. Safe for concurrent use.
func (q *Quorum) Remember(ctx context.Context, name, about, value string) (kept int) {
	q.calls.enter()
	defer q.calls.leave()
	q.fleet.callAll(ctx, func(int, wire.Reply) { kept++ },
		wire.AppendCommand(nil, "HSET", q.opts.memoryKey(name), about, value))
	return kept
}

// Recall returns what Remember has kept, a value for every master in the order of Options.Masters.
// It is empty if the master has none, is not connected or does not answer within
// Options.MasterTimeout. Safe for concurrent use.
func (q *Quorum) Recall(ctx context.Context, name, about string) []string {
	values := make([]string, len(q.fleet.lanes))
	q.calls.enter()
	defer q.calls.leave()
	q.fleet.callAll(ctx, func(lane int, r wire.Reply) { values[lane] = r.Text },
		wire.AppendCommand(nil, "HGET", q.opts.memoryKey(name), about))
	return values
}

// memoryKey returns the key of the hash that holds the values remembered under name.
func (o *Options) memoryKey(name string) string { return ReservedPrefix + name + ":" + o.KeyPrefix }
