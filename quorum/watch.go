package quorum

import (
	"context"

	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
)

// Watch calls released whenever key is released, through any proxy: once for each master, with the
// ReleaseID of the token. It is called with "" where a release may have been missed: when a
// subscription that was lost is made anew, or is first confirmed after Watch returned without a
// majority. It comes from other goroutines, must not block, and may come once more shortly after
// stop. Locks that run out are not told.
//
// Watch returns when a majority of the masters has confirmed the subscription, when
// Options.MasterTimeout is over, or when ctx ends; whatever comes first, the subscription stands,
// or is still being made, until stop is called. stop returns at once and may be called more than
// once.
//
// Safe for concurrent use; several of one key may overlap and share one subscription.
func (q *Quorum) Watch(ctx context.Context, key string, released func(id string)) (stop func()) {
	return q.releases.Subscribe(ctx, wire.ReleasedPrefix+q.opts.KeyPrefix+key, released)
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

// newSubscriptions returns subscriptions to channels, each connection beginning with first. A
// master that must not vote is not asked.
func (q *Quorum) newSubscriptions(first string) *notify.Subscriptions {
	o := notify.Options{First: first, Timeout: q.opts.MasterTimeout, Log: q.log, Jitter: q.opts.Dice.Jitter}
	for _, l := range q.lanes {
		o.Masters = append(o.Masters, notify.Master{Name: l.Name(), Options: l.Options(), MayServe: l.MayServe})
	}
	return notify.New(o)
}

// ReleaseID is what Watch calls the release of the token with that secret. The secret cannot be
// told from it.
func ReleaseID(secret string) string { return wire.ReleaseID(secret) }
