package session

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

// ended is a key of a lock whose connection has ended, until it is released after
// session-lock-delay.
type ended struct{ key, secret string }

// awaitEndLocked notes that l is to be released after session-lock-delay.
func (ls *Locks) awaitEndLocked(l *lock) {
	for _, key := range l.keys {
		ls.ending[ended{key, l.token.Secret}] = l
	}
}

// Claim must be called before a client extends the lock of key and more itself: from there on it
// counts on them. If the lock is to be released after session-lock-delay, these keys no longer are:
// they run out, or belong to the client's connection. moves says that the lock is to belong to that:
// then it runs out if its present connection ends, unless Stays is called.
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

// Stays is called where a lock that was to move has not.
func (ls *Locks) Stays(secret string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.bySecret[secret]; l != nil {
		l.moves = false
	}
}

// releaseLater keeps the key closed for session-lock-delay, as the holder's last writes may still
// be on their way. If the proxy ends meanwhile, the key runs out. It counts as a renewal.
func (ls *Locks) releaseLater(l *lock, delay time.Duration) {
	defer ls.renewals.Done()
	ctx, cancel := context.WithTimeout(context.Background(), l.ttl)
	defer cancel()
	if _, err := ls.extend(ctx, l, l.keys, delay); err != nil {
		ls.log.Warn("session-lock-delay cannot be kept", zap.String("key", l.keys[0]), zap.Error(err))
	}
	time.AfterFunc(delay, func() { ls.release(l, ls.takeEnding(l)) })
}

// takeEnding returns the keys of l that nobody has claimed.
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
