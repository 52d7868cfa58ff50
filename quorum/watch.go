package quorum

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"sync"
	"time"
)

// releasedPrefix and the full key are the channel on which a master tells that the key was released.
const releasedPrefix = ReservedPrefix + "released:"

// ReleaseID is what Watch calls the release of the token with that secret: the first 16 hex digits of its SHA-1, of which the
// secret cannot be told.
func ReleaseID(secret string) string {
	sum := sha1.Sum([]byte(secret))
	return hex.EncodeToString(sum[:8])
}

// Watch calls released whenever key is released, through any proxy: once for each master, with the ReleaseID of the token. It
// is called with "" where a release may have been missed: when a subscription that was lost is made anew, or is first confirmed
// after Watch returned without a majority. It comes from other goroutines, must not block, and may come once more
// shortly after stop. Locks that run out are not told.
//
// Watch returns when a majority of the masters has confirmed the subscription, when Options.MasterTimeout is over, or when
// ctx ends; whatever comes first, the subscription stands, or is still being made, until stop is called. stop returns at
// once and may be called more than once.
//
// Safe for concurrent use; several of one key may overlap and share one subscription.
func (q *Quorum) Watch(ctx context.Context, key string, released func(id string)) (stop func()) {
	w, l := q.ears.add(q.opts.KeyPrefix+key, released)
	if w == nil {
		return func() {} // closed
	}
	deadline := time.NewTimer(max(q.opts.MasterTimeout, minAttempt))
	defer deadline.Stop()
	select {
	case <-l.confirmed:
	case <-deadline.C:
	case <-ctx.Done():
	case <-q.stopped:
	}
	q.ears.settle(w, l)
	return sync.OnceFunc(func() { q.ears.remove(w, l) })
}

// ears is what this process hears of releases: one connection to each master carries the subscriptions of all watched keys.
// The connections are there while anything is watched.
type ears struct {
	q     *Quorum
	start func(func(context.Context)) // runs a goroutine until the Quorum is closed

	mu      sync.Mutex
	closed  bool
	watched map[string]*watched // by channel
	masters []*ear
	idle    time.Time // when the last key was let go; zero while there is one
}

// watched is one key that somebody watches.
type watched struct {
	channel   string
	listeners map[*listener]struct{}
	heard     []bool // by master: the subscription stands
	lost      []bool // by master: it stood, and broke
	count     int    // of heard
}

// listener is one Watch.
type listener struct {
	released  func(id string)
	confirmed chan struct{} // closed when a majority has confirmed
	sure      bool          // confirmed is closed
	returned  bool
}

func (e *ears) init(q *Quorum, start func(func(context.Context))) {
	e.q, e.start = q, start
	e.watched = make(map[string]*watched)
}

// add returns nil if everything is closed.
func (e *ears) add(fullKey string, released func(id string)) (*watched, *listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil
	}
	n := len(e.q.lanes)
	if e.masters == nil {
		for _, l := range e.q.lanes {
			e.masters = append(e.masters, &ear{ears: e, lane: l, wake: make(chan struct{}, 1)})
		}
	}
	channel := releasedPrefix + fullKey
	w := e.watched[channel]
	if w == nil {
		w = &watched{channel: channel, listeners: make(map[*listener]struct{}), heard: make([]bool, n), lost: make([]bool, n)}
		e.watched[channel] = w
		e.idle = time.Time{}
		for _, m := range e.masters {
			m.startLocked()
			m.changedLocked(channel)
		}
	}
	l := &listener{released: released, confirmed: make(chan struct{})}
	w.listeners[l] = struct{}{}
	w.assureLocked(l)
	return w, l
}

// assureLocked tells l when a majority has confirmed.
func (w *watched) assureLocked(l *listener) {
	if !l.sure && w.count >= majority(len(w.heard)) {
		l.sure = true
		close(l.confirmed)
	}
}

// settle notes that l's Watch returns. From here on a first confirmation is news to it unless a majority was there.
func (e *ears) settle(w *watched, l *listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.assureLocked(l)
	l.returned = true
}

func (e *ears) remove(w *watched, l *listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(w.listeners, l)
	if len(w.listeners) > 0 || e.watched[w.channel] != w {
		return
	}
	delete(e.watched, w.channel)
	for _, m := range e.masters {
		m.changedLocked(w.channel)
	}
	if len(e.watched) == 0 {
		e.idle = time.Now()
	}
}

// close ends all; the goroutines are among those that Quorum.Close waits for.
func (e *ears) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

// confirmedByLocked notes that master has confirmed the subscription to channel, and returns who is to be woken.
func (e *ears) confirmedByLocked(channel string, master int) (wake []*listener) {
	w := e.watched[channel]
	if w == nil || w.heard[master] {
		return nil
	}
	again := w.lost[master]
	w.heard[master], w.lost[master] = true, false
	w.count++
	for l := range w.listeners {
		if again || l.returned && !l.sure {
			wake = append(wake, l)
		}
		w.assureLocked(l)
	}
	return wake
}

// lostLocked notes that the subscriptions of a master are gone.
func (e *ears) lostLocked(master int) {
	for _, w := range e.watched {
		if w.heard[master] {
			w.heard[master], w.lost[master] = false, true
			w.count--
		}
	}
}
