package queue

import (
	"slices"
	"strings"
	"time"

	"lockproxy/stat"
)

// Longest returns the keys with the most waiting clients, at most limit. A client that waits for
// several keys counts for each. The mutex is free while they are sorted.
func (qs *Queues) Longest(limit int) []stat.Waiting {
	now := time.Now()
	qs.mu.Lock()
	all := make([]stat.Waiting, 0, len(qs.byKey))
	for _, q := range qs.byKey {
		all = append(all, stat.Waiting{Key: q.key, Clients: len(q.waiters),
			Longest: now.Sub(q.waiters[0].joined)})
	}
	qs.mu.Unlock()
	slices.SortFunc(all, func(a, b stat.Waiting) int {
		if a.Clients != b.Clients {
			return b.Clients - a.Clients
		}
		return strings.Compare(a.Key, b.Key)
	})
	all = all[:min(limit, len(all))]
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for i := range all {
		all[i].First = qs.firstLocked(all[i].Key, now)
	}
	return all
}

// maxFirst is how many clients of a queue Longest tells.
const maxFirst = 8

// firstLocked returns the first clients of a queue; none if it has ended meanwhile.
func (qs *Queues) firstLocked(key string, now time.Time) []stat.Waiter {
	q := qs.byKey[key]
	if q == nil {
		return nil
	}
	first := make([]stat.Waiter, 0, min(len(q.waiters), maxFirst))
	for _, w := range q.waiters[:cap(first)] {
		first = append(first, stat.Waiter{From: w.from, Owner: w.want.Owner, Mode: w.want.Mode.String(),
			Since: max(now.Sub(w.joined), 0)})
	}
	return first
}

// Waiters returns how many clients wait for key, alone or with others.
func (qs *Queues) Waiters(key string) int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byKey[key]; q != nil {
		return len(q.waiters)
	}
	return 0
}

// Total returns how many clients wait, and for how many keys.
func (qs *Queues) Total() (clients, keys int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.waiting, len(qs.byKey)
}
