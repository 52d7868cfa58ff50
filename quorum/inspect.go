package quorum

import (
	"context"
	"time"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// Info is what the masters hold for one key.
type Info struct {
	Key     string        // without Options.KeyPrefix
	Held    int           // masters that hold the winning token; 0: no token holds a majority, and what follows Masters is zero
	Masters int           // all masters
	TTL     time.Duration // after which no majority holds it: the majority-th largest; negative: a majority never lets go
	Fence   uint64        // the largest counted for the token; 0 for the value of another Redlock library
	Owner   string        // label given to Acquire
	Mode    Mode
	Holders int    // how many hold it; of Shared and Limited what is above is of the one with the largest fence
	Slots   []Slot // of Limited: the slots that are taken, in order
}

// Slot is one that is taken of a lock with Limited.
type Slot struct {
	Slot  int // from 0
	Fence uint64
	Owner string
	TTL   time.Duration // as Info.TTL
}

// Inspect asks every master what it holds for key, and returns the token that holds a majority,
// without its secret. The value of another Redlock library counts as a token. It waits for all
// masters, at most Options.MasterTimeout.
//
// Errors: ErrNoQuorum (as *NoQuorumError) if less than a majority answered, or if those that did
// not could make a majority for some token; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Inspect(ctx context.Context, key string) (Info, error) {
	op := wire.Op{Kind: wire.Inspect, TokenAt: q.tokenAt(key, Token{})}
	timeout := max(q.opts.MasterTimeout, minAttempt)
	answers, err := q.survey(ctx, op, timeout, func(x *question, l *master.Lane) error { return l.Ask(op, x) })
	if err != nil {
		return Info{}, err
	}
	values := make([]standing, len(answers))
	silent := 0
	for i, a := range answers {
		if a.state.counts() {
			values[i] = standingOf(a.found)
		} else {
			silent++
		}
	}
	info, most := winner(values)
	info.Key = key
	if maj := majority(len(values)); info.Held == 0 && (silent > len(values)-maj || most+silent >= maj) {
		return Info{}, q.noQuorum(answers, timeout)
	}
	return info, nil
}

// ReleaseKey deletes the lock of key on every master that answers, whoever holds it, and reports
// whether one stood there. Any string counts as a lock, also the value of another Redlock library
// and what is left of a lock without a majority; keys of other types stay. Those who Watch the key
// are told.
//
// Masters that do not answer within Options.MasterTimeout keep what they hold until its ttl.
// Errors, when nothing was found: ErrNoQuorum (as *NoQuorumError) if less than a majority
// answered; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) ReleaseKey(ctx context.Context, key string) (bool, error) {
	op := wire.Op{Kind: wire.Free, TokenAt: q.tokenAt(key, Token{})}
	timeout := max(q.opts.MasterTimeout, minAttempt)
	answers, err := q.survey(ctx, op, timeout, func(x *question, l *master.Lane) error { return l.Ask(op, x) })
	if err != nil {
		return false, err
	}
	var t tally
	for _, a := range answers {
		switch a.state {
		case answerYes:
			return true, nil
		case answerNo:
			t.no++
		default:
			t.none++
		}
	}
	if decideAll(t) == noQuorum {
		return false, q.noQuorum(answers, timeout)
	}
	return false, nil
}
