package master

import (
	"hash/maphash"
	"sync"
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
)

// maxRepairs bounds the repairs of a lane.
const maxRepairs = 65536

// minTopUp is the rest of a ttl under which topping up is not worth it.
const minTopUp = 10 * time.Millisecond

type repairState uint8

const (
	repairIdle   repairState = iota // to be sent as soon as the lane can
	repairSent                      // on the lane, not answered
	repairFailed                    // answered with an error, to be sent again at the next tick
)

// repair is a write that the master still misses: the end of a lock (Release, Fade), or a lock
// that is still held (TopUp). The lane keeps each release as a repair until the master has
// answered it.
type repair struct {
	op          wire.Op // TTL, Begun and Within of a TopUp are set when it is sent
	state       repairState
	serial      uint64          // of the entry that was queued for it last: only that one's answer ends it
	unsent      bool            // TopUp: no SET of the token was carried out there, and none is on its way
	maybe       bool            // the connection broke while it was on it: it may have been carried out
	alone       bool            // it goes out in its own packet: see entry
	until       time.Time       // TopUp: when the ttl of the lock ends; Release: until when the key stays closed
	since       clock.Stopwatch // TopUp: since until was certain
	lives       time.Duration   // how long the key can live once it has landed
	drop        time.Time       // when the repair is pointless; zero while a SET of the token may still land
	unconfirmed uint64          // Release: the masters that had not confirmed it when the last had answered
	voters      uint64          // TopUp: the masters whose grants made the lease
	voted       time.Time       // TopUp: until then they keep it

	older, newer *repair  // in its list
	next         *repair  // in its bucket
	bucket       **repair // where its bucket begins
}

// ends reports whether the repair ends a lock.
func (r *repair) ends() bool { return r.op.Kind != wire.TopUp }

// within returns how long a top-up that is sent now may be on its way: 2.5 % of the ttl less than
// it lasts. Until then those that made the lock hold it, if all clocks' rates differ by less than
// 1 %.
func (r *repair) within(now time.Time) time.Duration {
	return r.until.Sub(now) - r.lives/40
}

// repairs are the repairs of a lane, one for each token at a key. Every UNLOCK looks here, so a
// hash table finds them: a map with strings as keys costs several times as much.
type repairs struct {
	buckets []*repair // up to maxBuckets, grows with the repairs; none before the first
	seed    maphash.Seed
	ending  repairList // Release and Fade
	topUps  repairList
	n       int
	start   time.Time // of the lane's clock
	serial  uint64    // of the entry that was queued last for a repair
	backlog bool      // some repairs are idle because the queue was full
}

const (
	minBuckets = 256 // a small table stays in the processor's cache
	maxBuckets = 4096
)

// spares are repairs for reuse.
var spares = sync.Pool{New: func() any { return new(repair) }}

// all yields every repair, releases first: a key in the way is taken away before another is set.
func (s *repairs) all(yield func(*repair) bool) {
	for _, list := range []*repairList{&s.ending, &s.topUps} {
		for r := range list.all {
			if !yield(r) {
				return
			}
		}
	}
}

func (s *repairs) listOf(r *repair) *repairList {
	if r.ends() {
		return &s.ending
	}
	return &s.topUps
}

// bucket goes by key and secret: clients choose the secrets of their UNLOCKs, maybe one for many
// keys.
func (s *repairs) bucket(t wire.TokenAt) **repair {
	hash := maphash.String(s.seed, t.Secret) + 31*maphash.String(s.seed, t.Key)
	return &s.buckets[hash&uint64(len(s.buckets)-1)]
}

// grow makes a table twice as large.
func (s *repairs) grow() {
	s.buckets, s.seed = make([]*repair, max(2*len(s.buckets), minBuckets)), maphash.MakeSeed()
	for r := range s.all {
		r.bucket = s.bucket(r.op.TokenAt)
		r.next, *r.bucket = *r.bucket, r
	}
}

// find returns the repair of the token; nil without one.
func (s *repairs) find(t wire.TokenAt) *repair {
	if s.n == 0 {
		return nil
	}
	return (*s.bucket(t)).find(t)
}

// find looks for the repair of the token in a bucket, from r on.
func (r *repair) find(t wire.TokenAt) *repair {
	for r != nil && r.op.TokenAt != t {
		r = r.next
	}
	return r
}

// put adds r and returns the repair that is now pending for the token. A Release replaces a Fade,
// and both replace a TopUp, never the other way round. Where two repairs become one, that is kept
// for the longer of both times. dropped reports that there was no room: either r was dropped, and
// pending is nil, or a top-up was, to make room for a release.
func (s *repairs) put(r repair) (pending *repair, dropped bool) {
	if s.n >= len(s.buckets) && len(s.buckets) < maxBuckets {
		s.grow()
	}
	r.bucket = s.bucket(r.op.TokenAt)
	if old := (*r.bucket).find(r.op.TokenAt); old != nil {
		s.merge(old, r)
		return old, false
	}
	if s.n >= maxRepairs {
		if !r.ends() || s.topUps.oldest == nil {
			return nil, true
		}
		s.remove(s.topUps.oldest)
		dropped = true
	}
	pending = spares.Get().(*repair)
	*pending = r
	pending.next, *r.bucket = *r.bucket, pending
	s.listOf(pending).push(pending)
	s.n++
	return pending, dropped
}

// merge makes r and the repair old of the same token one.
func (s *repairs) merge(old *repair, r repair) {
	if old.ends() && !r.ends() {
		return
	}
	if old.drop.IsZero() || r.drop.IsZero() {
		r.drop = time.Time{}
	} else if old.drop.After(r.drop) {
		r.drop = old.drop
	}
	r.lives, r.unconfirmed, r.unsent = max(r.lives, old.lives), r.unconfirmed|old.unconfirmed, old.unsent
	r.serial, r.maybe, r.alone = old.serial, old.maybe, old.alone
	r.op.Publish = r.op.Publish || old.op.Publish
	if old.op.Kind == wire.Release && r.op.Kind == wire.Fade {
		r.op.Kind, r.op.TTL, r.until, r.state = wire.Release, old.op.TTL, old.until, old.state
	}
	if old.op.Kind == wire.Release && r.op.TTL == 0 {
		r.op.TTL, r.until = old.op.TTL, old.until // a second release does not open it
	}
	if !r.ends() {
		r.voters &= old.voters // one that granted and was filled since is no voter any more
		if old.until.After(r.until) {
			r.until, r.since = old.until, old.since
		}
		if old.voted.After(r.voted) {
			r.voted = old.voted
		}
	}
	s.listOf(old).cut(old)
	r.next = old.next
	*old = r
	s.listOf(old).push(old)
}

func (s *repairs) remove(r *repair) {
	s.listOf(r).cut(r)
	at := r.bucket
	for *at != r {
		at = &(*at).next
	}
	*at = r.next
	s.n--
	*r = repair{} // lets go of the strings
	spares.Put(r)
}

// failed notes that the master answered r with an error. It has then answered the SET in front of
// r as well, so the key lives no longer than its ttl from here. Others are tried before r comes
// again.
func (s *repairs) failed(r *repair, now time.Time) {
	list := s.listOf(r)
	list.cut(r)
	list.push(r)
	r.state = repairFailed
	if r.drop.IsZero() {
		r.drop = now.Add(r.lives)
	}
}

// active counts the releases that the master has neither answered nor refused.
func (s *repairs) active() (n int) {
	for r := range s.ending.all {
		if r.state != repairFailed {
			n++
		}
	}
	return n
}

// purge drops the repairs that are pointless by now. Those on the lane wait for their answers.
func (s *repairs) purge(now time.Time) {
	for r := range s.all {
		if r.state != repairSent && !r.drop.IsZero() && !now.Before(r.drop) {
			s.remove(r)
		}
	}
}

// connLost makes every repair that was on the lane due again.
func (s *repairs) connLost() {
	for r := range s.all {
		if r.state == repairSent {
			r.state = repairIdle
			r.maybe = true
		}
	}
}

// fenced starts the clocks after a barrier: commands that were sent before it can no longer land.
// It drops the top-ups of locks that have expired, and returns the ones that may have landed late:
// they may outlive their lock. It does not release them because another proxy may have extended
// the lock.
func (s *repairs) fenced(now time.Time) (landed []wire.TokenAt) {
	for r := range s.all {
		mayHaveLanded := r.drop.IsZero()
		if mayHaveLanded {
			r.drop = now.Add(r.lives)
		}
		if r.ends() || r.within(now.Add(r.since.Suspended())) >= minTopUp {
			continue
		}
		if mayHaveLanded {
			landed = append(landed, r.op.TokenAt)
		}
		s.remove(r)
	}
	return landed
}

// repairList holds repairs, oldest first.
type repairList struct{ oldest, newest *repair }

// all yields the repairs of the list. The loop may remove the one it looks at.
func (l *repairList) all(yield func(*repair) bool) {
	for r := l.oldest; r != nil; {
		newer := r.newer
		if !yield(r) {
			return
		}
		r = newer
	}
}

func (l *repairList) push(r *repair) {
	r.older, r.newer = l.newest, nil
	if r.older != nil {
		r.older.newer = r
	} else {
		l.oldest = r
	}
	l.newest = r
}

func (l *repairList) cut(r *repair) {
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		l.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		l.newest = r.older
	}
}
