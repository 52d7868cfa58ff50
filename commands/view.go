package commands

import (
	"context"
	"slices"

	"lockproxy/plain"
	"lockproxy/stat"
)

// What operators see of locks and masters by other ways than commands. Names of masters are shown as Options.ShowMasters says.

// Counts are how many of each there are at the moment.
type Counts struct {
	Waiters      int // clients that wait for a lock
	WaitedKeys   int // keys that they wait for
	SessionLocks int // locks that are renewed for their connection
}

// Counts returns the counts of this moment.
func (s *Service) Counts() (c Counts) {
	c.Waiters, c.WaitedKeys = s.queues.Total()
	c.SessionLocks = s.sessionLocks.Count()
	return c
}

// Waiting returns the keys with most clients that wait, at most limit.
func (s *Service) Waiting(limit int) []stat.Waiting { return s.queues.Longest(limit) }

// Locks is a page of locks, as Quorum.Scan gives it.
func (s *Service) Locks(ctx context.Context, cursor uint64, match string, count int) (next uint64, locks []stat.Lock, err error) {
	next, found, err := s.o.Locker.Scan(ctx, cursor, match, count)
	for _, info := range found {
		l := stat.Lock{Key: info.Key, Owner: info.Owner, Fence: info.Fence, Held: info.Held, TTL: info.TTL,
			Waiting: s.queues.Waiters(info.Key)}
		if info.Fence != 0 { // without a number nothing tells this lock from an earlier one of the key
			l.Age = s.grants.age(info.Key, info.Fence)
		}
		locks = append(locks, l)
	}
	return next, locks, err
}

// Masters tells how the masters stand. Their names are shown as to clients; no other text names one.
func (s *Service) Masters() []stat.Master {
	all := s.o.Locker.Masters()
	shown := slices.Clone(all)
	for i := range shown {
		shown[i].Name, shown[i].Reason = s.shownName(all, i), plain.Line(s.shownText(all, all[i].Reason))
	}
	return shown
}

// Explain is err of Locks in the words that a client would get.
func (s *Service) Explain(err error) string { return failureText(err, s.now().ShowMasters) }
