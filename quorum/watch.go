package quorum

import (
	"context"

	"lockproxy/quorum/internal/notify"
	"lockproxy/quorum/internal/wire"
)

// Watch calls released each time key is released, through any proxy: once for each master, with
// the ReleaseID of the token. It calls released with "" if it may have missed a release: when it
// renews a lost subscription, or when a confirmation comes after Watch returned without a
// majority. The calls come from other goroutines and must not block; one may come shortly after
// stop. Locks that expire are not announced.
//
// Watch returns when a majority of the masters has confirmed the subscription, after
// Options.MasterTimeout, or when ctx ends. In each case the subscription lasts, or is still being
// made, until stop is called. stop returns at once and may be called more than once.
//
// Safe for concurrent use; several of one key may overlap and share one subscription.
func (q *Quorum) Watch(ctx context.Context, key string, released func(id string)) (stop func()) {
	return q.releases.Subscribe(ctx, wire.ReleasedPrefix+q.opts.KeyPrefix+key, released)
}

// Follow calls changed each time key is granted or released, through any proxy, and if it may have
// missed either; once for each master. For the rest see Watch.
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
func newSubscriptions(f *fleet, first string) *notify.Subscriptions {
	o := notify.Options{First: first, Timeout: f.opts.MasterTimeout, Log: f.log, Jitter: f.opts.Dice.Jitter}
	for _, l := range f.lanes {
		o.Masters = append(o.Masters, notify.Endpoint{Name: l.Name(), Options: l.Options(), MayServe: l.MayServe})
	}
	return notify.New(o)
}

// ReleaseID returns the name of the release of a token with that secret, for Watch. It does not
// reveal the secret.
func ReleaseID(secret string) string { return wire.ReleaseID(secret) }
