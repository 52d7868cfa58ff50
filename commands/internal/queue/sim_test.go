package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockproxy/quorum"
)

// holder is who has a key of simMasters.
type holder struct {
	owner string
	mode  quorum.Mode
	until time.Time
}

// attempt is one attempt that was decided.
type attempt struct {
	owner string
	at    time.Duration // since the start of the bubble; when it was decided
	waits time.Duration // 0: it does not say that it waits
}

// simMasters are locks of all modes in virtual time. An attempt is decided half-way.
type simMasters struct {
	takes func() time.Duration // how long one way takes

	mu       sync.Mutex
	held     map[string][]holder // by key
	watchers map[string]map[int]func(id string)
	watched  int
	log      []attempt
	asking   int
	mostAsk  int                      // most attempts at a time
	slow     map[string]time.Duration // how much longer the attempts of an owner take
	err      error                    // instead of an answer
	refuse   map[string]int           // so many attempts of an owner are refused, even if the keys are free
	changed  func()                   // under mu, after each change of held
	granting func(quorum.Request)     // under mu, before each grant
}

func newSimMasters() *simMasters {
	return &simMasters{
		takes: func() time.Duration { return time.Millisecond / 2 },
		held:  make(map[string][]holder), watchers: make(map[string]map[int]func(string)),
		refuse: make(map[string]int), slow: make(map[string]time.Duration),
		changed: func() {}, granting: func(quorum.Request) {},
	}
}

// freeInLocked returns when one more may hold key in that mode: 0 for now.
func (s *simMasters) freeInLocked(key string, mode quorum.Mode, limit int) time.Duration {
	now := time.Now()
	s.held[key] = slices.DeleteFunc(s.held[key], func(h holder) bool { return !h.until.After(now) })
	var first, last time.Duration
	alike := true
	for _, h := range s.held[key] {
		left := h.until.Sub(now)
		if first == 0 || left < first {
			first = left
		}
		last = max(last, left)
		alike = alike && h.mode == mode
	}
	switch {
	case alike && (mode == quorum.Shared || mode == quorum.Limited && len(s.held[key]) < limit):
		return 0
	case alike && mode == quorum.Limited:
		return first
	}
	return last
}

func keysOf(want quorum.Request) []string { return append([]string{want.Key}, want.Keys...) }

// AcquireAsync is Acquire on a goroutine of its own.
func (s *simMasters) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	go func() { done(s.Acquire(context.Background(), r)) }()
	return nil
}

func (*simMasters) Flush() {}

func (s *simMasters) Acquire(_ context.Context, want quorum.Request) (quorum.Lease, error) {
	s.mu.Lock()
	s.asking++
	s.mostAsk = max(s.mostAsk, s.asking)
	s.mu.Unlock()
	time.Sleep(s.takes() + s.slow[want.Owner])
	free := s.decide(want)
	time.Sleep(s.takes())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if s.err != nil {
		return quorum.Lease{}, s.err
	}
	if free > 0 {
		return quorum.Lease{}, &quorum.HeldError{Free: free}
	}
	return quorum.Lease{Token: quorum.Token{Secret: want.Owner}, Validity: want.TTL}, nil
}

// decide grants the lock, or returns when it will be free.
func (s *simMasters) decide(want quorum.Request) (free time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keysOf(want) {
		free = max(free, s.freeInLocked(key, want.Mode, want.Limit))
	}
	if s.refuse[want.Owner] > 0 {
		s.refuse[want.Owner]--
		free = max(free, time.Second)
	}
	s.log = append(s.log, attempt{want.Owner, time.Since(bubbleStart), want.Waits})
	if free == 0 && s.err == nil {
		s.granting(want)
		s.holdLocked(want.Owner, want.Mode, want.TTL, keysOf(want)...)
	}
	return free
}

func (s *simMasters) holdLocked(owner string, mode quorum.Mode, ttl time.Duration, keys ...string) {
	for _, key := range keys {
		s.held[key] = append(s.held[key], holder{owner, mode, time.Now().Add(ttl)})
	}
	s.changed()
	time.AfterFunc(ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed()
	})
}

// hold gives keys to a holder that the queues do not know.
func (s *simMasters) hold(owner string, mode quorum.Mode, ttl time.Duration, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked(owner, mode, ttl, keys...)
}

// end takes owner's share of key away, or with share makes its lock a shared one.
func (s *simMasters) end(key, owner string, share bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.held[key], func(h holder) bool { return h.owner == owner })
	switch {
	case at < 0:
		return
	case share:
		s.held[key][at].mode = quorum.Shared
	default:
		s.held[key] = slices.Delete(s.held[key], at, at+1)
	}
	s.changed()
}

// release ends owner's share of key. One of five masters releases and sends a message at each of
// these times from now; the third makes the majority.
func (s *simMasters) release(key, owner string, share bool, masters ...time.Duration) {
	slices.Sort(masters)
	for i, d := range masters {
		time.AfterFunc(d, func() {
			if i == 2 {
				s.end(key, owner, share)
			}
			s.tell(key, quorum.ReleaseID(owner))
		})
	}
}

func (s *simMasters) tell(key, id string) {
	s.mu.Lock()
	var listeners []func(string)
	for _, f := range s.watchers[key] {
		listeners = append(listeners, f)
	}
	s.mu.Unlock()
	for _, f := range listeners {
		f(id)
	}
}

func (s *simMasters) Watch(ctx context.Context, key string, released func(id string)) func() {
	select {
	case <-time.After(2 * s.takes()):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched++
	id := s.watched
	if s.watchers[key] == nil {
		s.watchers[key] = make(map[int]func(string))
	}
	s.watchers[key][id] = released
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[key], id)
	}
}

func (s *simMasters) asked() (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}
