package quorum

import (
	"context"
	"time"

	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// Info describes the lock of one key on the masters.
type Info struct {
	// Key is the key without Options.KeyPrefix.
	Key string
	// Held is the number of masters that hold the winning token. 0: no token holds a majority, and
	// all fields below Masters are zero.
	Held int
	// Masters is the number of all masters.
	Masters int
	// TTL is the time after which no majority holds the lock: the majority-th largest of the ttls.
	// Negative: the keys of a majority have no expiry.
	TTL time.Duration
	// Latest is the TTL of the winning token alone. Other holders of the lock may live longer.
	Latest time.Duration
	// Fence is the fence of the winning token, 0 for the value of another Redlock library. Of
	// Shared and Limited, the winning token is the one with the largest fence.
	Fence uint64
	// Owner is the label given to Acquire; of an adopted lock, "adopted" and the first 8 hex digits
	// of the SHA-256 of its value.
	Owner string
	// Adopted says that the lock was taken with Request.Value.
	Adopted bool
	// Mode is Foreign for a key that is no lock and lies on so many masters that no majority can
	// grant. Then Held counts these masters, TTL is the time until a majority can grant, and
	// Holders is 0.
	Mode Mode
	// Type is the type of a Foreign key in Redis' words: "hash", "list" ...; "hash on 2, list on
	// 1" if masters differ; empty if no master says.
	Type string
	// Holders is the number of holders.
	Holders int
	// Slots are the taken slots of a Limited lock, in order, each with its own fence, owner and ttl.
	Slots []stat.Slot
}

// Inspect asks every master for the holders of key, and returns the token that holds a majority,
// without its secret. The value of another Redlock library counts as a token. It waits for all
// masters that make progress, a second at most. Only for a Foreign key it asks for type and ttl,
// for up to master-timeout each.
//
// Errors: ErrNoQuorum (as *NoQuorumError) if less than a majority answered, or if the silent
// masters could make a majority for some token, or for a Foreign key that others have; its Seen is
// that of the other masters. context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Inspect(ctx context.Context, key string) (Info, error) {
	l, err := q.fleet.look(ctx, key)
	switch {
	case err != nil:
		return Info{}, err
	case l.fault != nil:
		return Info{}, l.fault
	}
	return l.info, nil
}

// ReleaseKey deletes the lock of key on every master that answers, for any holder, and reports
// whether it found one. Any string counts as a lock, also the value of another Redlock library
// and the remains of a lock without a majority; keys of other types stay. Callers of Watch are
// notified.
//
// Masters that do not answer keep the lock until its ttl ends.
// Errors, if no lock was found: ErrNoQuorum (as *NoQuorumError) if less than a majority
// answered; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) ReleaseKey(ctx context.Context, key string) (bool, error) {
	q.calls.enter()
	defer q.calls.leave()
	begun := time.Now()
	r, err := q.fleet.survey(ctx, wire.Free, key)
	if err == nil && r.tally.yes == 0 && r.verdict == noQuorum {
		err = q.fleet.noQuorum(r.answers, time.Since(begun))
	}
	return r.tally.yes > 0, err
}
