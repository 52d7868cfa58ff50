package commands

import (
	"context"
	"sync"
	"time"

	"lockproxy/commands/internal/queue"
	"lockproxy/quorum"
)

// followers are the clients that wait in LOCKINFO for another holder of a key. However many follow
// one key, one goroutine subscribes and asks the masters for it: followed.run. It asks only
// after a message, an expiry or a long time.
type followers struct {
	masters  keyInspector
	watcher  keyFollower
	maxTTL   time.Duration
	draining chan struct{} // closed by drain
	loops    sync.WaitGroup

	mu      sync.Mutex
	clients int
	byKey   map[string]*followed
}

// keyInspector asks the masters about a key. An Inspector is one.
type keyInspector interface {
	Inspect(ctx context.Context, key string) (quorum.Info, error)
}

// keyFollower subscribes to changes of a key. A Watcher is one.
type keyFollower interface {
	Follow(ctx context.Context, key string, changed func()) (stop func())
}

func newFollowers(masters keyInspector, watcher keyFollower, maxTTL time.Duration) *followers {
	return &followers{masters: masters, watcher: watcher, maxTTL: maxTTL, draining: make(chan struct{}),
		byKey: make(map[string]*followed)}
}

// follower is a client that follows a key.
type follower struct {
	ctx          context.Context
	disconnected <-chan struct{}
	since        uint64        // the fence that it knows; 0: free
	timeout      time.Duration // 0: none
	joined       time.Time
	from         uint64 // it ignores the answers to this request and older ones
	expired      bool   // timeout has passed: the next answer is its own
}

// wait returns the holders of key as soon as the fence of the latest one is not c.since, or when
// c.timeout has passed. max is how many clients may wait.
//
// Errors: queue.ErrFull, queue.ErrDraining, queue.ErrDisconnected when c.disconnected is closed,
// context.Cause(c.ctx), and a *quorum.NoQuorumError if the masters cannot be asked when the
// timeout ends; without a timeout, if they could not be for maxTTL.
func (f *followers) wait(key string, max int, c follower) (quorum.Info, error) {
	k, err := f.join(key, max, &c)
	if err != nil {
		return quorum.Info{}, err
	}
	defer f.leave(k)
	var expired <-chan time.Time
	if c.timeout > 0 {
		timer := time.NewTimer(c.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		last, news := f.last(k)
		if c.wants(&last, f.maxTTL) {
			return last.info, last.err
		}
		select {
		case <-news:
		case <-expired: // the last answer may be old: the holder may have extended the lock
			c.expired = true
			f.ask(k, &c)
		case <-f.draining:
			return quorum.Info{}, queue.ErrDraining
		case <-c.disconnected:
			return quorum.Info{}, queue.ErrDisconnected
		case <-c.ctx.Done():
			return quorum.Info{}, context.Cause(c.ctx)
		}
	}
}

// wants reports whether s is the answer for the client.
func (c *follower) wants(s *sight, maxTTL time.Duration) bool {
	switch {
	case s.number <= c.from:
		return false
	case c.expired:
		return true
	case s.err != nil:
		return c.timeout == 0 && min(time.Since(s.faultSince), time.Since(c.joined)) >= maxTTL
	}
	return s.info.Fence != c.since
}

// join makes c follow key.
func (f *followers) join(key string, max int, c *follower) (*followed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.draining:
		return nil, queue.ErrDraining
	default:
	}
	if f.clients >= max {
		return nil, queue.ErrFull
	}
	f.clients++
	c.joined = time.Now()
	k := f.byKey[key]
	if k == nil {
		ctx, cancel := context.WithCancel(context.Background())
		k = &followed{f: f, key: key, cancel: cancel, news: make(chan struct{}),
			changed: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
		f.byKey[key] = k
		f.loops.Go(func() { k.run(ctx) })
	} else {
		wake(k.wanted)
	}
	k.clients++
	c.from = k.asked
	return k, nil
}

// leave ends what join began.
func (f *followers) leave(k *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
	if k.clients--; k.clients == 0 {
		delete(f.byKey, k.key)
		k.cancel()
	}
}

// last returns the last answer of the masters, and a channel that is closed at the next one.
func (f *followers) last(k *followed) (sight, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return k.last, k.news
}

// ask makes c wait for the answer to a request that has not begun yet.
func (f *followers) ask(k *followed, c *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.from = k.asked
	wake(k.wanted)
}

// count returns how many clients wait.
func (f *followers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clients
}

// drain ends the wait of all clients, now and later. It may be called once.
func (f *followers) drain() { close(f.draining) }

// close waits for the goroutines. No client may wait any more.
func (f *followers) close() { f.loops.Wait() }
