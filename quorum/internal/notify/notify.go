// Package notify announces releases: each master publishes the release of a key to the subscribers
// of the key's channel. One connection to each master carries the subscriptions to all channels.
// It is open while a channel has watchers. [Subscriptions.Subscribe] adds one.
package notify

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/master"
)

// Endpoint names a master and the way to it.
type Endpoint struct {
	Name     string // for the log
	Options  *master.Options
	MayServe func() error // returns why the master must not be asked, or nil
}

// Options are the settings of Subscriptions. All fields but First are needed.
type Options struct {
	Masters []Endpoint
	First   string        // a channel to which each connection subscribes before all others; empty for none
	Timeout time.Duration // how long Subscribe waits for a majority
	Log     *zap.Logger
	Jitter  func(time.Duration) time.Duration // shortens a pause at random
}

// Subscriptions are all subscriptions of this process. Safe for concurrent use.
type Subscriptions struct {
	opts   Options
	cancel context.CancelFunc
	closed <-chan struct{}
	wg     sync.WaitGroup // the subscribers

	mu          sync.Mutex
	subscribers []*subscriber
	topics      map[string]*topic // by channel: with watchers, or with a subscription at a master
}

// New starts a subscriber for each master. None connects before the first Subscribe. The caller
// must call Close.
func New(o Options) *Subscriptions {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Subscriptions{opts: o, cancel: cancel, closed: ctx.Done(), topics: make(map[string]*topic)}
	for i, m := range o.Masters {
		s.subscribers = append(s.subscribers, &subscriber{subs: s, master: m, index: i, wake: make(chan struct{}, 1)})
	}
	for _, b := range s.subscribers {
		s.wg.Go(func() { b.run(ctx) })
	}
	return s
}

// Close ends all connections and waits for the goroutines. A later Subscribe returns at once and
// never calls released.
func (s *Subscriptions) Close() {
	s.cancel()
	s.wg.Wait()
}

// Subscribe calls released with the message of every release that a master publishes to channel.
// It calls released with "" if a message may have been missed: when a lost subscription is made
// anew, and when a master confirms after Subscribe has returned without a majority. The calls come
// from other goroutines. released must not block; one more call may come shortly after stop.
//
// Subscribe returns when a majority of the masters has confirmed the subscription, after
// Options.Timeout, or when ctx ends. In each case the subscription lasts, or is still being made,
// until stop is called. stop returns at once and may be called more than once.
//
// Watchers of one channel share its subscriptions.
func (s *Subscriptions) Subscribe(ctx context.Context, channel string, released func(id string)) (stop func()) {
	w := s.add(channel, released)
	timeout := time.NewTimer(s.opts.Timeout)
	defer timeout.Stop()
	select {
	case <-w.sure:
	case <-timeout.C:
	case <-ctx.Done():
	case <-s.closed:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.state == waiting {
		w.state = unsure
	}
	return func() { s.remove(w) }
}

func (s *Subscriptions) add(channel string, released func(id string)) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil {
		t = &topic{channel: channel, watchers: make(map[*watcher]struct{}), at: make([]subscription, len(s.subscribers))}
		s.topics[channel] = t
	}
	w := &watcher{topic: t, released: released, sure: make(chan struct{})}
	t.watchers[w] = struct{}{}
	if len(t.watchers) == 1 {
		s.changedLocked(t)
	}
	t.assure(w)
	return w
}

func (s *Subscriptions) remove(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := w.topic
	if _, there := t.watchers[w]; !there {
		return
	}
	delete(t.watchers, w)
	if len(t.watchers) == 0 {
		s.changedLocked(t)
		s.tidyLocked(t)
	}
}

// changedLocked wakes the subscribers after t got its first watcher, or lost its last.
func (s *Subscriptions) changedLocked(t *topic) {
	for _, b := range s.subscribers {
		b.changedLocked(t)
	}
}

// tidyLocked deletes t if it is empty.
func (s *Subscriptions) tidyLocked(t *topic) {
	if t.empty() {
		delete(s.topics, t.channel)
	}
}

// idle reports whether there is no topic.
func (s *Subscriptions) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.topics) == 0
}

// notify calls the watchers of a channel that who returns: with the message that a master has
// published, or with "" after it has answered a SUBSCRIBE or an UNSUBSCRIBE.
func (s *Subscriptions) notify(channel, id string, who func(t *topic) []*watcher) {
	s.mu.Lock()
	var watchers []*watcher
	if t := s.topics[channel]; t != nil {
		watchers = who(t)
		s.tidyLocked(t)
	}
	s.mu.Unlock()
	for _, w := range watchers {
		w.released(id)
	}
}
