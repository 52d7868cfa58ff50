package admin

import (
	"hash/maphash"
	"net"
	"sync"
	"time"

	"lockproxy/stat"
)

// These limit the record of contended keys to under 2 MB with the longest keys and labels.
const (
	fightShards  = 16
	shardKeys    = 32                   // contended keys of a shard
	shardGrants  = 256                  // holders of any keys of a shard
	fightMinutes = 5                    // how long a key is contended after the last time
	shortWait    = 5 * time.Millisecond // a LOCK with WAIT that took less met no holder
	keptHolders  = 3
)

// fights knows the keys that clients of this proxy fought over in the last minutes: where LOCK was
// refused, or had to wait. When there are too many, keys with few such events are forgotten.
// Safe for concurrent use.
type fights struct {
	seed   maphash.Seed
	shards [fightShards]fightShard
}

type fightShard struct {
	mu     sync.Mutex
	keys   map[string]*fight
	grants [shardGrants]grant // each has two places; the newest overwrites the older of the two there
}

// grant is the last holder of a key, which may become contended later.
type grant struct {
	hash uint64
	holder
}

// holder is a client that was granted a lock through this proxy.
type holder struct {
	owner  string
	client net.Addr
	fence  uint64
	at     time.Time     // zero: there is none
	ttl    time.Duration // of its LOCK, or its last EXTEND through this proxy
	held   time.Duration // until UNLOCK; 0: not known, or it holds the lock still
}

// fight is the record of one contended key.
type fight struct {
	minutes [fightMinutes]fightMinute
	holders [keptHolders]holder // the latest first
}

// fightMinute counts the events of one minute.
type fightMinute struct {
	minute  int64 // since 1970
	refused uint64
	waited  uint64
	total   time.Duration // of all waits
	longest time.Duration
}

func newFights() *fights {
	f := &fights{seed: maphash.MakeSeed()}
	for i := range f.shards {
		f.shards[i].keys = map[string]*fight{}
	}
	return f
}

// note notes an event, for each of its keys.
func (f *fights) note(e *stat.Event, now time.Time) {
	granted := e.Command == "lock" && e.Outcome == stat.OutcomeGranted
	contended := e.Command == "lock" && met(e)
	released := (e.Command == "unlock" || e.Command == "session") && e.Held > 0
	extended := e.Command == "extend" && e.Outcome == stat.OutcomeExtended
	if !granted && !contended && !released && !extended || e.Key == "" {
		return
	}
	one := func(key string) {
		hash := maphash.String(f.seed, key)
		s := &f.shards[hash%fightShards]
		s.mu.Lock()
		defer s.mu.Unlock()
		if contended {
			s.contendedLocked(key, hash, e, now)
		}
		if granted {
			s.grantedLocked(key, hash, holder{e.Owner, e.Client, e.Fence, now, e.TTL, 0})
		}
		if released || extended {
			s.changedLocked(key, hash, e)
		}
	}
	one(e.Key)
	for _, key := range e.Keys {
		one(key)
	}
}

// met reports whether a LOCK met another client.
func met(e *stat.Event) bool {
	switch e.Outcome {
	case stat.OutcomeTaken, stat.OutcomeTimeout, stat.OutcomeGone, stat.OutcomeQueueFull:
		return true
	}
	return e.Outcome == stat.OutcomeGranted && e.Wait && e.Took >= shortWait
}

// contendedLocked counts an event of key.
func (s *fightShard) contendedLocked(key string, hash uint64, e *stat.Event, now time.Time) {
	k := s.keys[key]
	if k == nil {
		k = s.roomLocked(now)
		if last := s.grantLocked(hash); last.hash == hash {
			k.holders[0] = last.holder
		}
		s.keys[key] = k
	}
	minute := now.Unix() / 60
	m := &k.minutes[minute%fightMinutes]
	if m.minute != minute {
		*m = fightMinute{minute: minute}
	}
	if e.Outcome != stat.OutcomeGranted {
		m.refused++
	}
	if e.Wait {
		m.waited++
		m.total += e.Took
		m.longest = max(m.longest, e.Took)
	}
}

func (s *fightShard) grantedLocked(key string, hash uint64, h holder) {
	*s.grantLocked(hash) = grant{hash, h}
	if k := s.keys[key]; k != nil {
		copy(k.holders[1:], k.holders[:])
		k.holders[0] = h
	}
}

// changedLocked notes how long a holder that is known had the lock, or its new ttl.
func (s *fightShard) changedLocked(key string, hash uint64, e *stat.Event) {
	if g := s.grantLocked(hash); g.hash == hash && g.fence == e.Fence {
		g.change(e)
	}
	k := s.keys[key]
	for i := 0; k != nil && i < len(k.holders); i++ {
		if h := &k.holders[i]; h.fence == e.Fence && !h.at.IsZero() && h.held == 0 {
			h.change(e)
			return
		}
	}
}

// change notes the release or the extension of the holder's lock.
func (h *holder) change(e *stat.Event) {
	switch {
	case h.held > 0:
	case e.Held > 0:
		h.held = e.Held
	default:
		h.ttl = e.TTL
	}
}

// grantLocked returns the place of the last holder of the key with that hash: of two places the
// one that has it, or else the one with the older grant.
func (s *fightShard) grantLocked(hash uint64) *grant {
	at := hash / fightShards % shardGrants
	one, other := &s.grants[at], &s.grants[at^1]
	if other.hash == hash || one.hash != hash && other.at.Before(one.at) {
		return other
	}
	return one
}

// roomLocked returns a fight for a new key. If there is no room it forgets the key with the fewest
// events of four: to look at all would cost each LOCK of a new key too much.
func (s *fightShard) roomLocked(now time.Time) *fight {
	if len(s.keys) < shardKeys {
		return &fight{}
	}
	worst, fewest, looked := "", ^uint64(0), 0
	for key, k := range s.keys { // begins anywhere
		if m := k.sum(now); m.refused+m.waited < fewest {
			worst, fewest = key, m.refused+m.waited
		}
		if looked++; looked == 4 {
			break
		}
	}
	k := s.keys[worst]
	delete(s.keys, worst)
	*k = fight{}
	return k
}

// sum adds up the last four to five minutes: the record has one entry for each minute of the
// clock.
func (k *fight) sum(now time.Time) (all fightMinute) {
	for _, m := range k.minutes {
		if m.minute > now.Unix()/60-fightMinutes {
			all.refused += m.refused
			all.waited += m.waited
			all.total += m.total
			all.longest = max(all.longest, m.longest)
		}
	}
	return all
}
