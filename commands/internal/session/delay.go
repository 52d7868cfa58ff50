package session

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

// ended is a key of a lock whose connection has ended, until session-lock-delay has passed and the
// proxy releases it.
type ended struct{ key, secret string }

// awaitEndLocked records that l will be released after session-lock-delay.
func (ls *Locks) awaitEndLocked(l *lock) {
	for _, key := range l.keys {
		ls.ending[ended{key, l.token.Secret}] = l
	}
}

// Claim must be called before a client extends the lock of key and more itself: from there on it
// counts on them. If the proxy would release the lock after session-lock-delay, it no longer
// releases these keys: they run out, or belong to the client's connection. With moves, the lock
// will belong to that: then it runs out if its present connection ends, unless Stays is called.
func (ls *Locks) Claim(key string, more []string, secret string, moves bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.bySecret[secret]; l != nil && moves {
		l.moves = true
	}
	if len(ls.ending) == 0 {
		return
	}
	delete(ls.ending, ended{key, secret})
	for _, k := range more {
		delete(ls.ending, ended{k, secret})
	}
}

// Stays undoes Claim with moves, after an extension that failed.
func (ls *Locks) Stays(secret string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.bySecret[secret]; l != nil {
		l.moves = false
	}
}

// releaseLater keeps the key closed for session-lock-delay, because the holder's last writes may
// still arrive. If the proxy ends meanwhile, the key runs out. It counts as a renewal.
func (ls *Locks) releaseLater(l *lock, delay time.Duration) {
	defer ls.renewals.Done()
	ctx, cancel := context.WithTimeout(context.Background(), l.ttl)
	defer cancel()
	if _, err := ls.extend(ctx, l, l.keys, delay); err != nil {
		ls.log.Warn("session-lock-delay cannot be kept", zap.String("key", l.keys[0]), zap.Error(err))
	}
	time.AfterFunc(delay, func() { ls.release(l, ls.takeEnding(l)) })
}

// takeEnding returns the keys of l that no client has claimed.
func (ls *Locks) takeEnding(l *lock) []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.keys), func(key string) bool {
		at := ended{key, l.token.Secret}
		if ls.ending[at] != l {
			return true
		}
		delete(ls.ending, at)
		return false
	})
}
