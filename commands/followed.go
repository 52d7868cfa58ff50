package commands

import (
	"context"
	"math/rand/v2"
	"time"

	"lockproxy/quorum"
)

const (
	// changeTime is the pause after the first message about a change, in which the other masters
	// make the same change.
	changeTime = 5 * time.Millisecond
	// firstAgain and lastAgain bound the time to further requests after a message, if the first
	// one finds the holder unchanged: a majority had not made the change yet.
	firstAgain = 50 * time.Millisecond
	lastAgain  = 200 * time.Millisecond
	// followEvery is the time to the next request in case all messages were lost.
	followEvery = 30 * time.Second
	// firstFault and lastFault bound the longest time between requests without a quorum, which
	// doubles; the time is at random half of it or more.
	firstFault = 20 * time.Millisecond
	lastFault  = time.Second
)

// followed is a key that clients follow.
type followed struct {
	f       *followers
	key     string
	cancel  func()
	changed chan struct{} // capacity 1: the key was granted or released, or may have been
	wanted  chan struct{} // capacity 1: a client wants an answer

	// Guarded by followers.mu.
	clients int
	asked   uint64 // requests that have begun
	last    sight
	news    chan struct{} // closed when last is set
}

// sight is the answer of the masters to one request.
type sight struct {
	number     uint64 // of the request
	info       quorum.Info
	err        error
	faultSince time.Time // of err: since when there are only errors
}

// wake leaves a sign in a channel of capacity 1.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// drained takes the sign out of a channel, and reports whether there was one.
func drained(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// run asks the masters about the key until ctx ends. It subscribes before it asks, so
// that it receives every later change.
func (k *followed) run(ctx context.Context) {
	stop := k.f.watcher.Follow(ctx, k.key, func() { wake(k.changed) })
	defer stop()
	for p := (askPace{}); ctx.Err() == nil; {
		drained(k.wanted) // the request comes later
		if drained(k.changed) {
			p.again = firstAgain
		}
		info, err := k.inspect(ctx)
		k.await(ctx, p.next(info, err))
	}
}

// inspect asks the masters and publishes the answer to the clients.
func (k *followed) inspect(ctx context.Context) (quorum.Info, error) {
	k.f.mu.Lock()
	k.asked++
	s := sight{number: k.asked}
	k.f.mu.Unlock()
	s.info, s.err = k.f.masters.Inspect(ctx, k.key)
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	if s.err != nil {
		if s.faultSince = k.last.faultSince; s.faultSince.IsZero() {
			s.faultSince = time.Now()
		}
	}
	k.last = s
	close(k.news)
	k.news = make(chan struct{})
	return s.info, s.err
}

// await waits until it is time to ask the masters again: when the key changes, when a client
// wants it, or after d.
func (k *followed) await(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-k.wanted:
	case <-k.changed:
		pause := time.NewTimer(changeTime)
		defer pause.Stop()
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		wake(k.changed) // for run
	}
}

// askPace decides when the masters are asked next if no message comes before.
type askPace struct {
	fence uint64        // of the latest holder
	again time.Duration // after a message; 0: without
	fault time.Duration // after an error
}

func (p *askPace) next(info quorum.Info, err error) time.Duration {
	if err != nil {
		p.fault = min(max(firstFault, 2*p.fault), lastFault)
		return p.fault/2 + rand.N(p.fault/2)
	}
	p.fault = 0
	if info.Fence != p.fence {
		p.fence, p.again = info.Fence, 0
	}
	d := followEvery
	if info.Held > 0 && info.Latest >= 0 { // it may run out
		d = min(d, info.Latest+time.Millisecond+rand.N(2*time.Millisecond))
	}
	if p.again > 0 {
		d = min(d, p.again)
		if p.again *= 4; p.again > lastAgain {
			p.again = 0
		}
	}
	return d
}
