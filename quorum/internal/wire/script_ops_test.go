package wire

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// dealer makes random operations. Keys and tokens are few, so that operations meet.
type dealer struct {
	dice   *rand.Rand
	keys   []string
	mode   Mode // of most acquires
	limit  int  // of most slots
	tokens []string
	closed []string         // tokens that a lock was kept with
	used   map[TokenAt]bool // by acquires and top-ups
	waits  bool             // acquires may be of clients that wait
	narrow bool             // packets are small, and of one key
}

func newDealer(dice *rand.Rand) *dealer {
	d := &dealer{dice: dice, waits: true, used: map[TokenAt]bool{}}
	d.keys, d.mode, d.limit = fuzzKeys[:1+dice.IntN(4)], Mode(dice.IntN(4)), 1+dice.IntN(4)
	for range 3 + dice.IntN(10) {
		d.tokens = append(d.tokens, d.secret())
	}
	return d
}

func one[T any](d *dealer, all ...T) T { return all[d.dice.IntN(len(all))] }

// chance is true n times in of.
func (d *dealer) chance(n, of int) bool { return d.dice.IntN(of) < n }

// secret is a new token. Those of slots begin with 1, others with 0: a token has one kind of
// lock, but an exclusive one may become shared.
func (d *dealer) secret() string {
	return fmt.Sprintf("0%015x%024x", d.dice.Uint64()>>4, d.dice.Uint64())
}

func ofMode(secret string, mode Mode) string {
	if mode == Limited {
		return "1" + secret[1:]
	}
	return "0" + secret[1:]
}

// token is one of a few. Now and then a new one takes the place of another.
func (d *dealer) token() string {
	i := d.dice.IntN(len(d.tokens))
	if d.chance(1, 5) {
		d.tokens[i] = d.secret()
	}
	return d.tokens[i]
}

var fuzzKeys = []string{"lock:a", "lock:b", "lock:c", "lock:d"}

// counterOf is the counter of a key. Two of the keys share one.
func counterOf(key string) uint16 { return uint16(key[5]-'a') % 3 }

func (d *dealer) key() string {
	if d.narrow {
		return d.keys[0]
	}
	return one(d, d.keys...)
}

// short is the shortest ttl in ms. A packet that takes longer may find its own locks ended.
const short = 5

func (d *dealer) ttl() time.Duration {
	if d.chance(1, 10) {
		return time.Duration(short+d.dice.IntN(8)) * time.Millisecond
	}
	return time.Duration(1+d.dice.IntN(9)) * 20 * time.Second
}

// fence is a number near those of the counters, or near their limit.
func (d *dealer) fence() uint64 {
	if d.chance(11, 12) {
		return uint64(d.dice.IntN(60))
	}
	return one(d, FenceLimit(time.Now().Add(-time.Hour)), FenceLimit(time.Now().Add(time.Hour)), 1<<53-1)
}

func (d *dealer) terms(key string) *Terms {
	mode, limit := d.mode, d.limit
	if mode > Limited || d.chance(1, 4) {
		mode = Mode(d.dice.IntN(3))
	}
	if limit < MaxLimit && d.chance(2, 3) {
		limit = 1 + d.dice.IntN(4)
	}
	t := &Terms{Mode: mode, Limit: limit, Slot: d.dice.IntN(limit), Try: [2]int{d.dice.IntN(limit), d.dice.IntN(limit)}}
	if d.waits && d.chance(2, 5) {
		t.Waits = one(d, time.Minute, 150*time.Second)
	}
	if mode == Exclusive && d.chance(1, 3) {
		for _, more := range d.keys {
			if more != key && d.chance(1, 2) {
				t.More, t.Counters = append(t.More, more), append(t.Counters, counterOf(more))
			}
		}
	}
	return t
}

// held returns a token that holds a key, if there is one, and the lock.
func (d *dealer) held(m *model) (at TokenAt, l *lock) {
	var all []TokenAt
	for _, key := range slices.Sorted(maps.Keys(m.locks)) {
		for _, secret := range slices.Sorted(maps.Keys(m.locks[key].holders)) {
			if !strings.HasPrefix(secret, "kept") {
				all = append(all, TokenAt{key, secret})
			}
		}
	}
	if len(all) == 0 {
		return TokenAt{d.key(), d.token()}, nil
	}
	at = one(d, all...)
	return at, m.locks[at.Key]
}

var someKinds = []OpKind{Acquire, Acquire, Acquire, Acquire, Acquire, Acquire, Raise, Release, Release, Release,
	Release,
	Fade, TopUp, TopUp, Extend, Extend, Check, Share, Inspect, Refresh, Refresh, Refresh}

// op is any operation; m is what stood before the packet.
func (d *dealer) op(m *model) *Op {
	o := &Op{Kind: one(d, someKinds...), Fence: d.fence(), TTL: d.ttl(), Publish: d.chance(1, 2)}
	switch {
	case d.chance(1, 60):
		o.Kind = Free
	case d.narrow && d.chance(1, 2):
		o.Kind = one(d, Acquire, Share, TopUp, Raise)
	}
	o.Owner = one(d, "", "me", "a label with blanks", OwnerOf("\x00\r\n value"), OwnerOf(strings.Repeat("v", 512)))
	o.TokenAt = TokenAt{d.key(), d.token()}
	o.Terms = d.terms(o.Key)
	if o.Kind != Acquire && d.chance(2, 3) {
		var l *lock
		o.TokenAt, l = d.held(m)
		if o.Terms = d.terms(o.Key); l != nil {
			o.Terms.Mode = l.mode
			if h := l.holders[o.Secret]; d.chance(3, 4) {
				o.Terms.Slot = max(h.slot, 0)
			}
		}
	} else if o.Kind != Acquire && d.chance(1, 10) && d.closed != nil {
		o.Secret = one(d, d.closed...)
	}
	o.Counter = counterOf(o.Key)
	if o.Kind == Refresh {
		o.End = d.end(m.holds(o.Key, o.Secret))
	}
	d.fit(o, m)
	return o
}

// end is the end that a refresh names: that of the holder, one near it, or none.
func (d *dealer) end(h *holding) int64 {
	if h == nil || d.chance(1, 3) {
		return 0
	}
	return h.end + one(d, 0, 0, 0, 0, -1, 1, -h.end-1)
}

// fit changes what no client can ask for.
func (d *dealer) fit(o *Op, m *model) {
	switch o.Kind {
	case Acquire:
		d.fitAcquire(o, m)
	case Raise:
		if slices.Contains(d.closed, o.Secret) {
			o.Kind = Check
		}
	case TopUp:
		if slices.Contains(d.closed, o.Secret) {
			o.Kind = Check
		}
		switch limited := o.Secret[0] == '1'; {
		case limited:
			o.Terms.Mode = Limited
		case o.Terms.Mode == Limited:
			o.Terms.Mode = Shared
		}
		d.used[o.TokenAt] = true
	case Release:
		d.fitRelease(o)
	}
	if o.Terms != nil && (o.Terms.Mode != Exclusive || o.Kind == Release) {
		o.Terms.More, o.Terms.Counters = nil, nil
	}
}

// fitAcquire makes o ask for a token again only while it holds.
func (d *dealer) fitAcquire(o *Op, m *model) {
	o.Secret = ofMode(o.Secret, o.Terms.Mode)
	for _, key := range keys(o) {
		if at := (TokenAt{key, o.Secret}); d.used[at] && m.holds(key, o.Secret) == nil {
			o.Secret = ofMode(d.secret(), o.Terms.Mode)
		}
	}
	for _, key := range keys(o) {
		d.used[TokenAt{key, o.Secret}] = true
	}
	if t := o.Terms; t.Mode == Exclusive && t.More == nil && t.Waits == 0 && d.chance(1, 2) {
		o.Terms = nil
	}
}

// fitRelease makes o keep a place rarely. Then its token is dead.
func (d *dealer) fitRelease(o *Op) {
	if o.TTL >= time.Second && d.chance(4, 5) {
		o.TTL = 0
	}
	if o.TTL > 0 { // the token is dead
		d.closed = append(d.closed, o.Secret)
		if i := slices.Index(d.tokens, ofMode(o.Secret, Exclusive)); i >= 0 {
			d.tokens[i] = d.secret()
		}
	}
	o.Terms.Mode = Mode(d.dice.IntN(3)) // a hint
}

// batch is any packet.
func (d *dealer) batch(m *model) *Batch {
	b, most := new(Batch), one(d, 1, 4, 12, MaxOps)
	if d.narrow {
		most = 3
	}
	for range 1 + d.dice.IntN(most) {
		b.Add(d.op(m))
	}
	return b
}

// crowd returns packets that fill a key: with readers that end in a few milliseconds, or with
// most of 128 slots.
func (d *dealer) crowd() (all []*Batch) {
	d.mode, d.limit = Limited, MaxLimit
	n, terms := 126, &Terms{Mode: Limited, Limit: MaxLimit}
	if d.chance(1, 2) {
		d.mode = Shared
		n, terms = 300, &Terms{Mode: Shared}
	}
	for n > 0 {
		b := new(Batch)
		for ; n > 0 && b.Len() < MaxOps; n-- {
			at := TokenAt{d.keys[0], ofMode(d.secret(), d.mode)}
			d.used[at] = true
			b.Add(&Op{Kind: Acquire, TokenAt: at, Counter: counterOf(at.Key), TTL: time.Minute, Terms: terms})
		}
		all = append(all, b)
	}
	return all
}
