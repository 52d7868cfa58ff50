package commands

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/commands/internal/adopt"
	"lockproxy/plain"
	"lockproxy/resp"
	"lockproxy/stat"
)

// maxRefusals is how many kinds of refused commands are kept for operators.
const maxRefusals = 100

// listenerRefusals logs and keeps the refusals of the lock listener by kind: a reason, and the
// SHA1 of a script.
type listenerRefusals struct {
	log *zap.Logger

	mu    sync.Mutex
	kinds map[[2]string]*stat.RefusedKind
}

func newRefusals(log *zap.Logger) *listenerRefusals {
	return &listenerRefusals{log: log, kinds: make(map[[2]string]*stat.RefusedKind)}
}

// note counts a refusal. The first of its kind is logged.
func (r *listenerRefusals) note(refused *adopt.Refusal, session *resp.Session) {
	now := stat.RefusedKind{Reason: string(refused.Reason), SHA1: refused.SHA1, Text: refused.Text, Key: refused.Key,
		Library: plain.Short(session.Library()), Client: session.RemoteAddr(), Count: 1, Last: time.Now()}
	if !r.add(&now) {
		return
	}
	fields := []zap.Field{zap.String("reason", now.Reason), zap.Stringer("client", now.Client),
		zap.String("library", now.Library), zap.String("key", now.Key), zap.String("error", now.Text)}
	if refused.SHA1 != "" {
		fields = append(fields, zap.String("sha1", refused.SHA1), zap.String("form", refused.Form))
	}
	r.log.Warn("a lock library was refused", fields...)
}

// add reports whether a refusal is the first of its kind. With too many kinds the one that was
// seen least recently goes.
func (r *listenerRefusals) add(now *stat.RefusedKind) (first bool) {
	kind := [2]string{now.Reason, now.SHA1}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.kinds[kind]; before != nil {
		now.Count += before.Count
		r.kinds[kind] = now
		return false
	}
	if len(r.kinds) >= maxRefusals {
		var oldest [2]string
		var last time.Time
		for kind, kept := range r.kinds {
			if last.IsZero() || kept.Last.Before(last) {
				oldest, last = kind, kept.Last
			}
		}
		delete(r.kinds, oldest)
	}
	r.kinds[kind] = now
	return true
}

// Refusals returns the refusals of the lock listener, a row for each kind, the latest first.
func (s *Service) Refusals() []stat.RefusedKind {
	if s.adopter == nil {
		return nil
	}
	r := s.adopter.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]stat.RefusedKind, 0, len(r.kinds))
	for _, kept := range r.kinds {
		all = append(all, *kept)
	}
	slices.SortFunc(all, func(a, b stat.RefusedKind) int { return b.Last.Compare(a.Last) })
	return all
}
