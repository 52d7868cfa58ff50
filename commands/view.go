package commands

import (
	"context"
	"slices"
	"strings"
	"time"

	"lockproxy/quorum"
)

// What operators see of locks and masters by other ways than commands. Names of masters are shown as Options.ShowMasters says.

// Counts are how many of each there are at the moment.
type Counts struct {
	Waiters      int // clients that wait for a lock
	Lines        int // keys that they wait for
	SessionLocks int // locks that are renewed for their connection
}

// Counts returns the counts of this moment.
func (s *Service) Counts() Counts {
	s.lines.mu.Lock()
	c := Counts{Waiters: s.lines.waiting, Lines: len(s.lines.m)}
	s.lines.mu.Unlock()
	c.SessionLocks = s.holds.count()
	return c
}

// Waiting is a key that clients of this proxy wait for.
type Waiting struct {
	Key     string
	Clients int
	Longest time.Duration // how long the first in line has waited
}

// Waiting returns the keys with most clients that wait, at most limit.
func (s *Service) Waiting(limit int) []Waiting {
	now := time.Now()
	s.lines.mu.Lock()
	all := make([]Waiting, 0, len(s.lines.m))
	for _, l := range s.lines.m {
		if len(l.waiters) > 0 {
			all = append(all, Waiting{l.key, len(l.waiters), now.Sub(l.waiters[0].joined)})
		}
	}
	s.lines.mu.Unlock()
	slices.SortFunc(all, func(a, b Waiting) int {
		if a.Clients != b.Clients {
			return b.Clients - a.Clients
		}
		return strings.Compare(a.Key, b.Key)
	})
	return all[:min(limit, len(all))]
}

// Lock is a lock that holds a majority, as this proxy knows it.
type Lock struct {
	quorum.Info
	Waiting int           // clients of this proxy
	Age     time.Duration // since it was granted; 0 if that was not here, or is forgotten
}

// Locks is a page of locks, as Quorum.Scan gives it.
func (s *Service) Locks(ctx context.Context, cursor uint64, match string, count int) (next uint64, locks []Lock, err error) {
	next, found, err := s.o.Locker.Scan(ctx, cursor, match, count)
	for _, info := range found {
		l := Lock{Info: info, Waiting: s.lines.count(info.Key)}
		if info.Fence != 0 { // without a number nothing tells this lock from an earlier one of the key
			l.Age = s.grants.age(info.Key, info.Fence)
		}
		locks = append(locks, l)
	}
	return next, locks, err
}

// Masters tells how the masters stand. Their names are shown as to clients; no other text names one.
func (s *Service) Masters() []quorum.MasterStatus {
	all := s.o.Locker.Masters()
	shown := slices.Clone(all)
	for i := range shown {
		shown[i].Name, shown[i].Reason = s.shownName(all, i), oneLine(s.shownText(all, all[i].Reason))
	}
	return shown
}

// Explain is err of Locks in the words that a client would get.
func (s *Service) Explain(err error) string { return failureText(err, s.o.ShowMasters) }
