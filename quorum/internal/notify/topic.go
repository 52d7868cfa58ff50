package notify

import (
	"maps"
	"slices"
)

// topic is a channel and its watchers. Subscriptions.mu guards it.
type topic struct {
	channel  string
	watchers map[*watcher]struct{}
	at       []subscription // by master
}

// watcher is one call of Subscribe.
type watcher struct {
	topic    *topic
	released func(id string)
	sure     chan struct{} // closed when a majority has confirmed
	state    watcherState  // guarded by Subscriptions.mu
}

type watcherState uint8

const (
	waiting watcherState = iota // Subscribe has not returned
	unsure                      // Subscribe has returned, and no majority had confirmed so far
	assured                     // a majority has confirmed
)

// subscription is a channel on the connection to one master. SUBSCRIBE and UNSUBSCRIBE take turns
// and a master answers in order, so counting is enough to know which of them has been answered.
type subscription struct {
	sent      int  // commands since the connection began; the last was SUBSCRIBE if this is odd
	confirmed int  // answers
	missed    bool // it was confirmed on an earlier connection, and is not yet on this one
}

func (s *subscription) on() bool     { return s.sent%2 == 1 }
func (s *subscription) active() bool { return s.on() && s.confirmed == s.sent }

// wanted reports whether t needs subscriptions.
func (t *topic) wanted() bool { return len(t.watchers) > 0 }

// empty reports whether t has no watcher, and no master has or will get a subscription.
func (t *topic) empty() bool {
	return !t.wanted() && !slices.ContainsFunc(t.at, func(s subscription) bool { return s.on() || s.confirmed != s.sent })
}

// confirmed counts an answer of master. It returns the watchers that may have missed a message.
func (t *topic) confirmed(master int) (missed []*watcher) {
	s := &t.at[master]
	if s.confirmed == s.sent {
		return nil // an unexpected answer
	}
	if s.confirmed++; !s.active() {
		return nil
	}
	for w := range t.watchers {
		if s.missed || w.state == unsure {
			missed = append(missed, w)
		}
		t.assure(w)
	}
	s.missed = false
	return missed
}

// assure closes w.sure if a majority has confirmed.
func (t *topic) assure(w *watcher) {
	active := 0
	for i := range t.at {
		if t.at[i].active() {
			active++
		}
	}
	if active > len(t.at)/2 && w.state != assured {
		w.state = assured
		close(w.sure)
	}
}

// disconnected notes that the connection to master is gone.
func (t *topic) disconnected(master int) {
	s := &t.at[master]
	*s = subscription{missed: s.missed || s.active()}
}

func (t *topic) all() []*watcher { return slices.Collect(maps.Keys(t.watchers)) }
