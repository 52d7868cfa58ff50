package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
)

// ExtendKeys is Extend for a token of several keys, which names all of them: ErrLost says that one
// at least is lost, and what is left of the others fades. The validity is the shortest.
//
// With share it makes an exclusive lock of one key a shared one, with the same token and fence.
// Those who join it have a greater fence. Clients that wait for the key are told. Whatever it
// returns, the lock may be shared from the call on. ErrWrongMode: the token has a slot. A token that
// is shared already is extended.
func (q *Quorum) ExtendKeys(ctx context.Context, keys []string, t Token, ttl time.Duration, share bool) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	kind := wire.Extend
	if share {
		kind = wire.Share
	}
	type result struct {
		left time.Duration
		err  error
	}
	done := make(chan result, len(keys))
	for _, key := range keys {
		q.extend(kind, key, t, ttl, func(left time.Duration, err error) { done <- result{left, err} })
	}
	q.Flush()
	var all result
	for i := range keys {
		got := <-done // it comes in time: each master has its timeout
		if i == 0 || got.left < all.left {
			all.left = got.left
		}
		if all.err == nil || errors.Is(got.err, ErrLost) {
			all.err = got.err
		}
	}
	if all.err == nil {
		return all.left, nil
	}
	if errors.Is(all.err, ErrLost) && len(keys) > 1 {
		for _, key := range keys {
			q.AbandonLost(key, t)
		}
	}
	return 0, all.err
}

// ReleaseKeys is Release for a token of several keys, or of some of them; it reports whether all
// were held until now. Those that are not named stay held, but the token can be extended no more.
//
// With keep, up to Options.MaxTTL, what the token held stays closed for that long, for everybody:
// the keys, or the slot, or the place among the readers. The token is dead at once. True says then
// that a majority of the masters has closed it.
func (q *Quorum) ReleaseKeys(ctx context.Context, keys []string, t Token, keep time.Duration) (bool, error) {
	if keep > q.opts.MaxTTL {
		return false, fmt.Errorf("%w: %v, want at most %v", ErrInvalidTTL, keep, q.opts.MaxTTL)
	}
	type result struct {
		held bool
		err  error
	}
	done := make(chan result, len(keys))
	for _, key := range keys {
		q.release(key, t, nil, keep, func(held bool, err error) { done <- result{held, err} })
	}
	q.Flush()
	all := result{held: true}
	for range keys {
		select {
		case got := <-done:
			all.held = all.held && got.held
			if all.err == nil {
				all.err = got.err
			}
		case <-ctx.Done():
			return false, context.Cause(ctx) // the releases go on, and Close waits for them
		}
	}
	if all.err != nil {
		return false, all.err
	}
	return all.held, nil
}

// Follow calls changed whenever key is granted or released, through any proxy, and where either
// may have been missed; once for each master. For the rest see Watch.
func (q *Quorum) Follow(ctx context.Context, key string, changed func()) (stop func()) {
	key = q.opts.KeyPrefix + key
	stops := make(chan func(), 2)
	subscribe := func(to *notify.Subscriptions, channel string) {
		stops <- to.Subscribe(ctx, channel, func(string) { changed() })
	}
	go subscribe(q.releases, wire.ReleasedPrefix+key)
	go subscribe(q.changes, wire.ChangedPrefix+key)
	all := [...]func(){<-stops, <-stops}
	return func() {
		for _, stop := range all {
			stop()
		}
	}
}
