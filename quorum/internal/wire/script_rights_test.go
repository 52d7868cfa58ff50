package wire

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// losable are the rights that the user of lockproxy may lose while it runs.
var losable = strings.Fields("zadd zrem zscore zrevrange zrangebyscore zcount hset hmget " +
	"pexpire pexpireat pttl get getrange set setrange del publish pubsub|numsub")

// withoutRights runs packets while the user lacks one or two rights, and gives them back.
func (f *fuzz) withoutRights() {
	f.lost = append(f.lost, one(f.dealer, losable...))
	switch f.dice.IntN(4) {
	case 0: // rights to make, end and count locks
		f.lost = []string{one(f.dealer, "zadd", "zrem", "del", "set", "hset"), one(f.dealer, "pexpireat", "hset")}
	case 1:
		f.lost = append(f.lost, one(f.dealer, losable...))
	}
	packets := 1 + f.dice.IntN(3)
	if f.narrow = f.chance(1, 2); f.narrow {
		packets = 8
	}
	for _, right := range f.lost {
		f.admin.must("ACL", "SETUSER", "lockproxy", "-"+right)
	}
	for range packets {
		f.denied++
		f.careful(f.batch(f.model))
	}
	f.grant()
	f.lost = nil
	for f.narrow && f.chance(1, 2) { // before the releases that are pending
		f.careful(f.batch(f.model))
	}
	f.narrow = false
	f.repair()
}

// careful runs a packet of which operations may fail. Operations that fail must do no harm, and
// the results of the others must be true.
func (f *fuzz) careful(b *Batch) {
	if f.faults != nil {
		return
	}
	f.wait()
	before := f.model
	p, ops := f.send(b, one(f.dealer, "", before.record))
	for i, op := range ops {
		f.tell("%s: %s", describe(op), text(&p.Results[i]))
	}
	f.order(ops, p)
	faults := f.read()
	for i, op := range ops {
		r := &p.Results[i]
		if f.owe(op, r); r.IsError() {
			f.errors++
		} else {
			f.believe(op, r, ops[i+1:], p.Clock.Milliseconds())
		}
	}
	for _, bad := range faults {
		if bad.grade == wrong || bad.grade == early && !f.allPending(bad.key) {
			f.fail("%s: %s", bad.key, bad.text)
		}
	}
	f.nobodyLost(before, ops)
	f.nobodyNew(before, ops)
	if f.model.record != before.record {
		f.fail("the record is %q", f.model.record)
	}
	for field, text := range before.counters {
		had, err := strconv.ParseUint(text, 10, 64)
		has, _ := strconv.ParseUint(f.model.counters[field], 10, 64)
		if has < had && err == nil {
			f.fail("counter %s fell from %d to %d", field, had, has)
		}
	}
	f.heard()
}

// owe notes the operations that follow a failure. The token of an acquire that fails or is refused
// is released; a release that fails is sent again.
func (f *fuzz) owe(op *Op, r *Reply) {
	_, _, granted := Granted(r)
	switch {
	case r.Code() == CodeNotAdmitted || r.Code() == CodeWrongMode || r.Code() == CodeTooLate:
	case op.Kind == Acquire && !granted, op.Kind == TopUp && r.IsError():
		for _, key := range keys(op) {
			release := &Op{Kind: Release, TokenAt: TokenAt{key, op.Secret}, Terms: &Terms{Mode: op.Mode()}}
			release.Publish = f.chance(1, 2)
			f.pending = append(f.pending, release)
		}
	case (op.Kind == Release || op.Kind == Fade) && r.IsError():
		f.pending = append(f.pending, op)
	}
}

// allPending reports whether a release is pending for all who end later than the key.
func (f *fuzz) allPending(key string) bool {
	if l := f.model.locks[key]; l != nil {
		for secret, h := range l.holders {
			pending := slices.ContainsFunc(f.pending, func(o *Op) bool { return ends(o, key, secret) })
			if h.end > f.last.keys[key].expire && !pending {
				return false
			}
		}
	}
	return true
}

// closes reports whether an operation puts a place that no token opens, which is called secret.
func closes(op *Op, key, secret string) bool {
	return op.Kind == Release && op.TTL > 0 && op.Key == key && "kept"+op.Secret[4:] == secret
}

// ends reports whether an operation may end what secret holds at key, or make it end earlier.
func ends(op *Op, key, secret string) bool {
	mine := op.Secret == secret && (op.Kind == Release || op.Kind == Fade || op.Kind == TopUp && op.Mode() == Limited ||
		op.Kind == Refresh && op.End != 0)
	return op.Key == key && (op.Kind == Free || mine || closes(op, key, secret))
}

// asks reports whether an operation may make secret a holder of key, or make it end later.
func asks(op *Op, key, secret string) bool {
	asked := op.Kind == Acquire || op.Kind == TopUp || op.Kind == Extend || op.Kind == Share ||
		op.Kind == Refresh
	return asked && op.Secret == secret && slices.Contains(keys(op), key) || closes(op, key, secret)
}

// believe checks that the result of an operation is true, unless later ones of the packet change
// it.
func (f *fuzz) believe(op *Op, r *Reply, later []*Op, now int64) {
	for _, key := range keys(op) {
		secret := op.Secret
		if op.Kind == Release && op.TTL > 0 {
			secret = "kept" + secret[4:]
		}
		if slices.ContainsFunc(later, func(o *Op) bool {
			return ends(o, key, secret) || asks(o, key, secret) || o.Kind == Raise && o.Secret == secret
		}) {
			continue
		}
		h, mode := f.model.holds(key, secret), Exclusive
		if h == nil {
			h = &holding{slot: -1}
		} else {
			mode = f.model.locks[key].mode
		}
		if !f.agrees(op, r, key, h, mode, now) {
			count, _ := f.model.count(strconv.Itoa(int(op.Counter)))
			f.fail("%s says %s, but has %+v at %s, counter %d", describe(op), text(r), *h, key, count)
		}
	}
}

// agrees reports whether the reply to op agrees with h, the state of its secret at key in the
// model.
func (f *fuzz) agrees(op *Op, r *Reply, key string, h *holding, mode Mode, now int64) bool {
	fence, slot, granted := Granted(r)
	_, _, extended := Extended(r)
	done, keeps, brief := r.Kind == ':' && r.Int > 0, op.Kind == Release && op.TTL > 0, op.TTL < time.Second
	lives := brief || h.end >= now+op.TTL.Milliseconds()-tolerance
	counted := f.hasCounted(op, fence)
	switch op.Kind {
	case Acquire:
		return !granted || counted && (brief || lives && h.fence == fence && h.slot == slot && mode == op.Mode())
	case TopUp:
		return !done || lives && (counted || !r.Is(1))
	case Extend, Share:
		return !extended || lives
	case Refresh:
		return endAgrees(op, r, h.end, now)
	case Raise:
		return !done || counted && (h.end == 0 || h.fence == op.Fence) // it may have ended
	case Fade:
		return !done || h.end <= now+op.TTL.Milliseconds()+tolerance
	case Release:
		return !done || !keeps && h.slot < 0 || keeps && lives && f.model.holds(key, op.Secret) == nil
	}
	return true
}

// endAgrees reports whether the reply to a refresh agrees with the end. A lock of a brief ttl may
// have ended since.
func endAgrees(op *Op, r *Reply, end, now int64) bool {
	longer, _, refreshed := Refreshed(r)
	return !refreshed || op.TTL < time.Second || longer == end || longer == 0 && near(end, now+op.TTL.Milliseconds())
}

// hasCounted reports whether the counter of op is at least its fence, that of an acquire is
// granted.
func (f *fuzz) hasCounted(op *Op, granted uint64) bool {
	count, _ := f.model.count(strconv.Itoa(int(op.Counter)))
	if op.Kind == Acquire {
		return !f.enc.Fencing || count >= granted
	}
	return !f.enc.Fencing || count >= op.Fence
}

// nobodyLost checks that all holders that no operation ended still hold.
func (f *fuzz) nobodyLost(before *model, ops []*Op) {
	for key, l := range before.locks {
		now := f.model.locks[key]
		freed := slices.ContainsFunc(ops, func(o *Op) bool { return o.Kind == Free && o.Key == key })
		if l.mode == foreign && !freed && (now == nil || now.content != l.content) {
			f.fail("%s: %v was %v", key, now, l)
		}
		for secret, h := range l.holders {
			has := f.model.holds(key, secret)
			switch {
			case h.end <= f.last.now+1 || slices.ContainsFunc(ops, func(o *Op) bool { return ends(o, key, secret) }):
			case has == nil:
				f.fail("%s has lost %s", secret, key)
			case has.end < h.end-tolerance, has.end < h.end && l.mode != Exclusive, has.slot != h.slot,
				has.owner != h.owner, now.mode != l.mode && l.mode != Exclusive:
				f.fail("%s has %+v at %s, and had %+v", secret, *has, key, *h)
			}
		}
	}
}

// nobodyNew checks that each holder asked for its lock.
func (f *fuzz) nobodyNew(before *model, ops []*Op) {
	for key, l := range f.model.locks {
		for secret, h := range l.holders {
			had := before.holds(key, secret)
			asked := slices.ContainsFunc(ops, func(o *Op) bool { return asks(o, key, secret) })
			if !asked && (had == nil || h.end > had.end+tolerance) {
				f.fail("%s did not ask for %+v at %s", secret, *h, key)
			}
		}
	}
}

// repair runs the pending operations. Then no member of the tokens of failed operations may be
// left.
func (f *fuzz) repair() {
	pending := f.pending
	for f.pending = nil; len(pending) > 0 && f.faults == nil; {
		b, n := new(Batch), 0
		for ; n < len(pending) && b.Add(pending[n]); n++ {
			f.counts.pending++
		}
		if f.careful(b); f.pending != nil {
			f.fail("with all rights, %s fails", describe(f.pending[0]))
		}
		for _, op := range pending[:n] {
			left, l := strings.Join(f.last.keys[op.Key].content, " "), f.model.locks[op.Key]
			if op.Kind == Release && strings.Contains(left, op.Secret) && l != nil && l.mode != foreign {
				f.fail("%s is left at %s: %q", op.Secret, op.Key, left)
			}
		}
		pending = pending[n:]
	}
	if f.faults != nil {
		return
	}
	f.repairEnds()
	f.look()
}

// repairEnds lowers the expiry of keys that outlive their last holder. Other faults fail.
func (f *fuzz) repairEnds() {
	for _, bad := range f.read() {
		if bad.grade != late {
			f.fail("%s: %s", bad.key, bad.text)
			continue
		}
		f.late++
		last := int64(1)
		if l := f.model.locks[bad.key]; l != nil {
			for _, h := range l.holders {
				last = max(last, h.end)
			}
		}
		f.admin.must("PEXPIREAT", bad.key, last) // as it ends anyway
	}
}
