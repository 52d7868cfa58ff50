package quorum

import (
	"context"
	"sync"
)

// Remember keeps value with every master that is connected, whether it votes or not: under about in the hash called ReservedPrefix, name, ":" and
// Options.KeyPrefix. It is for what proxies have learnt and want to know after a restart; a master may lose it at any time. kept is how many
// masters have confirmed within Options.MasterTimeout. Safe for concurrent use.
func (q *Quorum) Remember(ctx context.Context, name, about, value string) (kept int) {
	for _, a := range q.askConnected(ctx, command{op: opRemember, key: q.nameOf(name), args: []string{about, value}}) {
		if a.err == nil {
			kept++
		}
	}
	return kept
}

// Recall returns what Remember has kept, a value for every master in the order of Options.Masters. It is empty where the master has none, is not
// connected or does not answer within Options.MasterTimeout. Safe for concurrent use.
func (q *Quorum) Recall(ctx context.Context, name, about string) []string {
	answers := q.askConnected(ctx, command{op: opRecall, key: q.nameOf(name), args: []string{about}})
	values := make([]string, len(answers))
	for i, a := range answers {
		if a.err == nil && a.kind == '$' {
			values[i] = a.text
		}
	}
	return values
}

func (q *Quorum) nameOf(name string) string { return ReservedPrefix + name + ":" + q.opts.KeyPrefix }

// askConnected asks all masters at once and returns what each said.
func (q *Quorum) askConnected(ctx context.Context, c command) []answer {
	q.enter()
	defer q.leave()
	ctx, cancel := context.WithTimeout(ctx, max(q.opts.MasterTimeout, minAttempt))
	defer cancel()
	answers := make([]answer, len(q.lanes))
	var wg sync.WaitGroup
	for i, l := range q.lanes {
		wg.Go(func() { answers[i], answers[i].err = l.ask(ctx, c) })
	}
	wg.Wait()
	return answers
}
