package admin

import (
	"cmp"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// shownFought is how many keys a report has at most by events, and as many by the longest wait.
const shownFought = 20

// foughtReport is a key that clients fought over in the last minutes.
type foughtReport struct {
	Hex     string         `json:"hex"` // the bytes of the key
	Key     string         `json:"key"`
	Refused uint64         `json:"refused"` // LOCK without success
	Waited  uint64         `json:"waited"`  // LOCK with WAIT, with success or not
	Longest int64          `json:"longest_ms"`
	Mean    int64          `json:"mean_ms"` // of the commands that waited
	Holders []holderReport `json:"holders"` // the latest first
}

type holderReport struct {
	Owner  string `json:"owner"`
	Client string `json:"client"`
	Ago    int64  `json:"ago_ms"` // since it was granted
	Held   *int64 `json:"held_ms"`
}

// reports returns the keys with the most events and those with the longest waits.
func (f *fights) reports(now time.Time) []foughtReport {
	var all []foughtReport
	for i := range f.shards {
		all = append(all, f.shards[i].reports(now)...)
	}
	events := func(a, b foughtReport) int {
		return cmp.Or(cmp.Compare(b.Refused+b.Waited, a.Refused+a.Waited),
			strings.Compare(a.Key, b.Key))
	}
	slices.SortFunc(all, events)
	if len(all) > shownFought {
		rest := all[shownFought:]
		slices.SortStableFunc(rest, func(a, b foughtReport) int {
			return cmp.Compare(b.Longest, a.Longest)
		})
		all = all[:min(len(all), 2*shownFought)]
	}
	return append([]foughtReport{}, all...)
}

// holders returns the latest holders of key that are remembered: of a key that clients fought over
// up to three, of another one at most the last. The latest comes first.
func (f *fights) holders(key string) (list []stat.Holder) {
	hash := maphash.String(f.seed, key)
	s := &f.shards[hash%fightShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil {
		for i := range k.holders {
			if !k.holders[i].at.IsZero() {
				list = append(list, k.holders[i].stat())
			}
		}
		return list
	}
	if g := s.grantLocked(hash); g.hash == hash && !g.at.IsZero() {
		list = append(list, g.stat())
	}
	return list
}

// granted returns the ttl of the LOCK or last EXTEND of an exclusive lock, if it went through this
// proxy and is remembered; else 0.
func (f *fights) granted(l *stat.Lock) time.Duration {
	if l.Mode != "exclusive" || l.Fence == 0 {
		return 0
	}
	for _, h := range f.holders(l.Key) {
		if h.Fence == uint64(l.Fence) && h.Until.IsZero() {
			return h.TTL
		}
	}
	return 0
}

func (h *holder) stat() stat.Holder {
	s := stat.Holder{Owner: h.owner, Client: h.client, Fence: h.fence, Since: h.at, TTL: h.ttl}
	if h.held > 0 {
		s.Until = h.at.Add(h.held)
	}
	return s
}

func (s *fightShard) reports(now time.Time) (list []foughtReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.keys {
		m := k.sum(now)
		if m.refused+m.waited == 0 {
			delete(s.keys, key)
			continue
		}
		r := foughtReport{Hex: hex.EncodeToString([]byte(key)), Key: plain.Escape(key), Refused: m.refused, Waited: m.waited,
			Longest: m.longest.Milliseconds(), Holders: []holderReport{}}
		if m.waited > 0 {
			r.Mean = m.total.Milliseconds() / int64(m.waited)
		}
		for _, h := range k.holders {
			if !h.at.IsZero() {
				r.Holders = append(r.Holders, h.report(now))
			}
		}
		list = append(list, r)
	}
	return list
}

func (h *holder) report(now time.Time) holderReport {
	r := holderReport{Owner: plain.Escape(h.owner), Client: plain.Addr(h.client),
		Ago: now.Sub(h.at).Milliseconds()}
	if h.held > 0 {
		held := h.held.Milliseconds()
		r.Held = &held
	}
	return r
}
