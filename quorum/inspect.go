package quorum

import (
	"context"
	"time"

	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Info is what the masters hold for one key.
type Info struct {
	Key     string        // without Options.KeyPrefix
	Held    int           // masters that hold the winning token; 0: no token holds a majority, and what follows Masters is zero
	Masters int           // all masters
	TTL     time.Duration // after which no majority holds it: the majority-th largest; negative: a majority never lets go
	Latest  time.Duration // as TTL, of the winning token alone: others that hold the lock with it may live longer
	Fence   uint64        // the token's; 0 for the value of another Redlock library
	Owner   string        // label given to Acquire
	Mode    Mode
	Holders int         // how many hold it; of Shared and Limited what is above is of the one with the largest fence
	Slots   []stat.Slot // of Limited: the slots that are taken, in order
}

// Inspect asks every master what it holds for key, and returns the token that holds a majority,
// without its secret. The value of another Redlock library counts as a token. It waits for all
// masters that make progress, a second at most.
//
// Errors: ErrNoQuorum (as *NoQuorumError) if less than a majority answered, or if those that did
// not could make a majority for some token; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Inspect(ctx context.Context, key string) (Info, error) {
	begun := time.Now()
	r, err := q.survey(ctx, wire.Inspect, key)
	if err != nil {
		return Info{}, err
	}
	values := make([]wire.Inspected, len(r.answers))
	for i, a := range r.answers {
		if a.found != nil {
			values[i] = *a.found
		}
	}
	info, most := winner(values)
	info.Key = key
	silent := len(values) - r.tally.answered()
	if maj := majority(len(values)); info.Held == 0 && (silent > len(values)-maj || most+silent >= maj) {
		return Info{}, q.noQuorum(r.answers, time.Since(begun))
	}
	return info, nil
}

// ReleaseKey deletes the lock of key on every master that answers, whoever holds it, and reports
// whether one stood there. Any string counts as a lock, also the value of another Redlock library
// and what is left of a lock without a majority; keys of other types stay. Those who Watch the key
// are told.
//
// Masters that do not answer keep what they hold until its ttl.
// Errors, when nothing was found: ErrNoQuorum (as *NoQuorumError) if less than a majority
// answered; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) ReleaseKey(ctx context.Context, key string) (bool, error) {
	begun := time.Now()
	r, err := q.survey(ctx, wire.Free, key)
	if err == nil && r.tally.yes == 0 && r.verdict == noQuorum {
		err = q.noQuorum(r.answers, time.Since(begun))
	}
	return r.tally.yes > 0, err
}
