package session

import (
	"slices"
	"time"
)

// A session lock may have several keys. It is renewed as long as it has all of them.

// Forget ends the renewal of a token of key and more, which is about to be released there. The
// other keys of the token run out by their validity, or are released when the connection ends.
func (ls *Locks) Forget(key string, more []string, secret string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.bySecret[secret]
	if l == nil {
		return
	}
	var left []string
	for _, k := range l.keys {
		if k != key && !slices.Contains(more, k) {
			left = append(left, k)
		}
	}
	switch len(left) {
	case 0:
		ls.dropLocked(l)
	case len(l.keys): // the token of another key
	default:
		l.keys, l.lapses = left, true
		if l.cancel != nil { // it would find a key lost, and take the others away
			l.cancel()
		} else if !ls.draining {
			ls.setTimerLocked(l, l.deadline)
		}
	}
}

// Extended records that the client has extended the lock of key and more itself, and may count on
// it for validity from now on, even if renewals fail.
func (ls *Locks) Extended(key string, more []string, secret string, validity time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.bySecret[secret]
	if l == nil {
		return
	}
	for _, k := range l.keys {
		if k != key && !slices.Contains(more, k) {
			return
		}
	}
	l.extendDeadline(ls.now(), validity)
}

// release releases keys of l in the background, and wakes the clients that wait for them.
func (ls *Locks) release(l *lock, keys []string) {
	for _, key := range keys {
		ls.locker.Abandon(key, l.token)
	}
	for _, key := range keys {
		ls.released(key, l.token.Secret)
	}
}

// wake wakes the clients that wait for the keys of l, which was released.
func (ls *Locks) wake(l *lock) {
	for _, key := range l.keys {
		ls.released(key, l.token.Secret)
	}
}
