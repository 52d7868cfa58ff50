package quorum

import (
	"slices"
	"time"
)

// maxOwed bounds the debts of a lane.
const maxOwed = 65536

// minTopUp is the rest of a ttl under which topping up is not worth it.
const minTopUp = 10 * time.Millisecond

type debtKind uint8

const (
	owesRelease debtKind = iota
	owesTopUp
)

type debtState uint8

const (
	debtIdle   debtState = iota // to be sent as soon as the lane can
	debtSent                    // on the lane, not answered
	debtFailed                  // answered with an error, to be sent again at the next tick
)

// debtKey is a token at a place: a token is good for one key, but a client may name it with another.
type debtKey struct{ key, secret string }

// debt is what a lane must still tell its master about one token: take it away, or set it.
type debt struct {
	debtKey
	kind    debtKind
	state   debtState
	fence   uint64        // top-up
	voters  voters        // top-up: whose grants made the lease
	owner   string        // top-up
	publish bool          // release: those who wait for the key are to be told
	until   time.Time     // top-up: when the ttl of the lock runs out
	ttl     time.Duration // how long the key can live once it has landed
	drop    time.Time     // when nothing is owed any more; zero while its SET may still land
	tried   uint64        // number of the hand-over that sent it last

	older, newer *debt // of the same lane
}

// owed is the debts of a lane, one for each token. Guarded by the lane's mu.
type owed struct {
	m              map[debtKey]*debt
	oldest, newest *debt
	active         int     // releases that are idle or sent
	spare          []*debt // paid, for the next ones; each is in here or in m, never in both
}

// all are the debts, oldest first: those that were owed for longest are told first. The one that is looked at may be removed.
func (o *owed) all(yield func(*debt) bool) {
	for d := o.oldest; d != nil; {
		newer := d.newer
		if !yield(d) {
			return
		}
		d = newer
	}
}

func (o *owed) append(d *debt) {
	o.m[d.debtKey] = d
	if d.older = o.newest; d.older != nil {
		d.older.newer = d
	} else {
		o.oldest = d
	}
	o.newest = d
}

// maxSpareDebts bounds the memory that is kept for debts to come.
const maxSpareDebts = 256

// put adds d. A release takes the place of a top-up of the same token, never the other way round, and two releases
// become one that is kept as long as the longer. It returns the debt that stands now, and how many others
// were dropped to make room.
func (o *owed) put(d debt, now time.Time) (stands *debt, dropped int) {
	if old := o.m[d.debtKey]; old != nil {
		if old.kind == owesRelease && d.kind == owesTopUp {
			return old, 0
		}
		if old.drop.IsZero() || d.drop.IsZero() {
			d.drop = time.Time{}
		} else if old.drop.After(d.drop) {
			d.drop = old.drop
		}
		o.count(old, -1)
		d.ttl, d.tried, d.publish = max(d.ttl, old.ttl), old.tried, d.publish || old.publish
		if d.kind == owesTopUp && old.until.After(d.until) {
			d.until = old.until
		}
		d.older, d.newer = old.older, old.newer
		*old = d
		o.count(old, 1)
		return old, 0
	}
	if o.m == nil {
		o.m = make(map[debtKey]*debt)
	}
	if len(o.m) >= maxOwed {
		dropped = o.makeRoom(now)
	}
	stands = o.fresh()
	*stands = d
	o.append(stands)
	o.count(stands, 1)
	return stands, dropped
}

// fresh is memory for a debt.
func (o *owed) fresh() *debt {
	if n := len(o.spare); n > 0 {
		d := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return d
	}
	return new(debt)
}

// makeRoom drops what is due, and at least a sixteenth: those that would be dropped soonest.
func (o *owed) makeRoom(now time.Time) int {
	before := len(o.m)
	o.purge(now)
	if len(o.m) <= maxOwed-maxOwed/16 {
		return 0
	}
	end := func(d *debt) time.Time {
		if d.drop.IsZero() {
			return now.Add(d.ttl)
		}
		return d.drop
	}
	all := make([]*debt, 0, len(o.m))
	for d := range o.all {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *debt) int { return end(a).Compare(end(b)) })
	for _, d := range all[:maxOwed/16] {
		o.remove(d)
	}
	return before - len(o.m)
}

func (o *owed) remove(d *debt) {
	o.count(d, -1)
	delete(o.m, d.debtKey)
	if d.older != nil {
		d.older.newer = d.newer
	} else {
		o.oldest = d.newer
	}
	if d.newer != nil {
		d.newer.older = d.older
	} else {
		o.newest = d.older
	}
	if len(o.spare) < maxSpareDebts {
		*d = debt{} // lets go of the strings
		o.spare = append(o.spare, d)
	}
}

// mark changes the state of d.
func (o *owed) mark(d *debt, s debtState) {
	o.count(d, -1)
	d.state = s
	o.count(d, 1)
}

// failed notes that the master answered d with an error: the SET in front of it has been answered too, so it
// can live no longer than its ttl from here.
func (o *owed) failed(d *debt, now time.Time) {
	o.mark(d, debtFailed)
	if d.drop.IsZero() {
		d.drop = now.Add(d.ttl)
	}
}

// count keeps active right; by is +1 after a change of d and -1 before it.
func (o *owed) count(d *debt, by int) {
	if d.kind == owesRelease && d.state != debtFailed {
		o.active += by
	}
}

// purge drops the debts that have run out, save those on the lane, whose answer is coming.
func (o *owed) purge(now time.Time) {
	for d := range o.all {
		if d.state != debtSent && !d.drop.IsZero() && !now.Before(d.drop) {
			o.remove(d)
		}
	}
}

// laneBroke makes everything sent owed again.
func (o *owed) laneBroke() {
	for d := range o.all {
		if d.state == debtSent {
			o.mark(d, debtIdle)
		}
	}
}

// handedOver starts the clocks: from here on nothing can land from the lane before. A top-up whose lock has run
// out is owed no more, but its SET, or an earlier top-up, may have landed late and would outlive the lock: those are returned. They are
// not to be released here, as the lock may live on, extended through another proxy.
func (o *owed) handedOver(now time.Time) (landed []debtKey) {
	for d := range o.all {
		mayHaveLanded := d.drop.IsZero()
		if mayHaveLanded {
			d.drop = now.Add(d.ttl)
		}
		if d.kind != owesTopUp || d.until.Sub(now) >= minTopUp {
			continue
		}
		if mayHaveLanded {
			landed = append(landed, d.debtKey)
		}
		o.remove(d)
	}
	return landed
}
