package queue

import (
	"slices"
	"strings"
	"time"

	"lockproxy/stat"
)

// longest returns the keys with most clients that wait, at most limit.
func (ls *Queues) Longest(limit int) []stat.Waiting {
	now := time.Now()
	ls.mu.Lock()
	all := make([]stat.Waiting, 0, len(ls.byKey))
	for _, l := range ls.byKey {
		if len(l.waiters) > 0 {
			all = append(all, stat.Waiting{Key: l.key, Clients: len(l.waiters), Longest: now.Sub(l.waiters[0].joined)})
		}
	}
	ls.mu.Unlock()
	slices.SortFunc(all, func(a, b stat.Waiting) int {
		if a.Clients != b.Clients {
			return b.Clients - a.Clients
		}
		return strings.Compare(a.Key, b.Key)
	})
	return all[:min(limit, len(all))]
}

// total returns how many clients wait, and for how many keys.
func (ls *Queues) Total() (clients, keys int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.waiting, len(ls.byKey)
}
