package fake

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// Holder is one of several who hold a lock: a reader, or who has a slot.
type Holder struct {
	Secret string
	Fence  uint64
	Owner  string
	End    time.Time // by the master's clock
	Slot   int       // of wire.Limited
}

func (h Holder) value() string { return h.Secret + fenceText(h.Fence) + h.Owner }

// lives reports whether it holds the lock still. Scripts count in whole milliseconds, and a key
// lives in the millisecond of its end.
func (h Holder) lives(now time.Time) bool {
	return !h.End.Truncate(time.Millisecond).Before(now.Truncate(time.Millisecond))
}

// held is the key of those who hold a lock together.
func held(mode wire.Mode, holders []Holder) Value {
	v := Value{Mode: mode, Holders: holders}
	for _, h := range holders {
		if h.End.After(v.End) {
			v.End = h.End
		}
	}
	return v
}

// Live are those who hold the lock at now.
func (v Value) Live(now time.Time) (live []Holder) {
	for _, h := range v.Holders {
		if h.lives(now) {
			live = append(live, h)
		}
	}
	return live
}

// holder is the place of a secret among the holders, -1 for none.
func (v Value) holder(secret string) int {
	return slices.IndexFunc(v.Holders, func(h Holder) bool { return h.Secret == secret })
}

// with is the key with another holder in the place of one, or beside the others at -1.
func (v Value) with(at int, h Holder) Value {
	holders := slices.Clone(v.Holders)
	if at < 0 {
		holders = append(holders, h)
	} else {
		holders[at] = h
	}
	return held(v.Mode, holders)
}

// settle writes a key with fewer holders, or that live shorter. It reports whether it is gone.
func (p *packet) settle(key string, v Value) (gone bool) {
	if live := v.Live(p.now); len(live) == 0 {
		delete(p.db.Keys, key)
		return true
	}
	p.db.Keys[key] = held(v.Mode, v.Holders)
	return false
}

func (p *packet) intent(key string) string { return wire.IntentPrefix + key }

// refuse answers an acquire of mode that found v.
func (p *packet) refuse(key string, v Value, mode wire.Mode, waits string) string {
	if waits != "" && (v.Mode == wire.Shared || v.Mode == wire.Limited) && v.Mode != mode {
		p.intend(key, mode, v.Mode, millis(waits))
	}
	if v.End.IsZero() {
		return integer(-1)
	}
	return integer(-2 - v.left(p.now))
}

// intend leaves an intent, unless one stands that lives longer and keeps those of kind out.
func (p *packet) intend(key string, mode, kind wire.Mode, waits time.Duration) {
	v, stands := p.db.get(p.intent(key), p.now)
	if (!stands || v.left(p.now) <= waits.Milliseconds() || v.Text == string("XSL"[kind])) && p.denied(true) == "" {
		p.db.Keys[p.intent(key)] = Value{Text: string("XSL"[mode]), End: p.now.Add(waits)}
	}
}

// closed is the refusal where somebody of another mode waits.
func (p *packet) closed(key string, mode wire.Mode) (refusal string, is bool) {
	v, stands := p.db.get(p.intent(key), p.now)
	if !stands || v.Text == string("XSL"[mode]) {
		return "", false
	}
	return integer(-2 - v.left(p.now)), true
}

// granted is what follows a grant.
func (p *packet) granted(key string, waits string) {
	if waits != "" && p.denied(false) == "" {
		delete(p.db.Keys, p.intent(key))
	}
	p.tell(wire.ChangedPrefix, key, "")
}

func (p *packet) acquireShared(o *Op) string {
	return p.join(o, o.Args[1], o.Args[2], o.Args[3], o.Args[4], "")
}

// join is the Lua function of that name.
func (p *packet) join(o *Op, ttl, field, owner string, waits string, text string) string {
	if err := p.ahead(number(text), field); err != "" {
		return err
	}
	v, stands := p.db.get(o.Key, p.now)
	if stands && v.Mode != wire.Shared {
		return p.refuse(o.Key, v, wire.Shared, waits)
	}
	if stands && text == "" && v.holder(o.Args[0]) >= 0 {
		return p.refuse(o.Key, v, wire.Shared, "")
	}
	v = held(wire.Shared, v.Live(p.now))
	if refusal, is := p.closed(o.Key, wire.Shared); is && text == "" {
		return refusal
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	fence := p.db.Counters[field]
	switch {
	case text != "" && len(v.Holders) == 0:
		fence = number(text)
		p.db.raise(field, max(fence, p.db.Counters[field]+1))
	case text != "":
		fence = number(text)
		p.db.raise(field, fence)
	case field == "":
		fence = 0
	case len(v.Holders) == 0:
		fence++
		p.db.Counters[field] = fence
	}
	p.db.Keys[o.Key] = v.with(-1, Holder{Secret: o.Args[0], Fence: fence, Owner: owner, End: p.now.Add(millis(ttl))})
	p.granted(o.Key, waits)
	return integer(int64(fence))
}

// slots says whether slots may be taken at a key, else the refusal.
func (p *packet) slots(o *Op, waits string) (v Value, refusal string) {
	v, stands := p.db.get(o.Key, p.now)
	if stands && v.Mode != wire.Limited {
		return v, p.refuse(o.Key, v, wire.Limited, waits)
	}
	v.Mode = wire.Limited
	return v, ""
}

func (p *packet) acquireSlot(o *Op) string {
	field, waits, limit := o.Args[2], o.Args[4], int(number(o.Args[5]))
	if err := p.ahead(0, field); err != "" {
		return err
	}
	v, refusal := p.slots(o, waits)
	if refusal != "" {
		return refusal
	}
	if refusal, is := p.closed(o.Key, wire.Limited); is {
		return refusal
	}
	if v.holder(o.Args[0]) >= 0 {
		return p.refuse(o.Key, v, wire.Limited, "")
	}
	try := []int{int(number(o.Args[6])), int(number(o.Args[7]))}
	for slot := range limit {
		try = append(try, slot)
	}
	soonest, fence := time.Time{}, uint64(0)
	if field != "" {
		fence = p.db.Counters[field] + 1
	}
	for _, slot := range try {
		at := slices.IndexFunc(v.Holders, func(h Holder) bool { return h.Slot == slot })
		if at < 0 || !v.Holders[at].lives(p.now) {
			return p.occupy(o, v, at, slot, o.Args[1], field, o.Args[3], fence, waits)
		}
		if end := v.Holders[at].End; slot < limit && (soonest.IsZero() || end.Before(soonest)) {
			soonest = end
		}
	}
	return integer(-2 - soonest.Sub(p.now).Milliseconds())
}

// occupy takes a slot.
func (p *packet) occupy(o *Op, v Value, at, slot int, ttl, field, owner string, fence uint64, waits string) string {
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	p.db.raise(field, fence)
	h := Holder{Secret: o.Args[0], Fence: fence, Owner: owner, End: p.now.Add(millis(ttl)), Slot: slot}
	p.db.Keys[o.Key] = v.with(at, h)
	p.granted(o.Key, waits)
	return bulk(strconv.Itoa(slot) + " " + fenceText(fence))
}

// leaveOtherSlot gives up another slot than the one that a top-up is for.
func (p *packet) leaveOtherSlot(key, secret, mode string) {
	v, stands := p.db.get(key, p.now)
	if !stands || v.Mode != wire.Limited || mode == "" || mode == "S" {
		return
	}
	if at := v.holder(secret); at >= 0 && strconv.Itoa(v.Holders[at].Slot) != mode && p.denied(false) == "" {
		v.Holders = slices.Delete(slices.Clone(v.Holders), at, at+1)
		p.settle(key, v)
	}
}

// topUpAs tops up a reader or a slot.
func (p *packet) topUpAs(o *Op, mode string) string {
	ttl, field, text, owner := o.Args[1], o.Args[2], o.Args[3], o.Args[4]
	v, stands := p.db.get(o.Key, p.now)
	if mode == "S" {
		if stands && v.Mode != wire.Shared {
			return integer(0)
		}
		return onlySet(p.join(o, ttl, field, owner, "", text))
	}
	slot := int(number(mode))
	v.Mode = cmp.Or(v.Mode, wire.Limited)
	at := slices.IndexFunc(v.Holders, func(h Holder) bool { return h.Slot == slot })
	if stands && (v.Mode != wire.Limited || v.Other || v.Text != "") || at >= 0 && v.Holders[at].lives(p.now) {
		return integer(0)
	}
	return onlySet(p.occupy(o, v, at, slot, ttl, field, owner, number(text), ""))
}

// onlySet is the result of a top-up that set something.
func onlySet(result string) string {
	if result[0] == '-' {
		return result
	}
	return integer(1)
}

// several are the keys of an operation, with their counters, which begin at an argument.
func (o *Op) several(first int) (keys, fields []string) {
	return append([]string{o.Key}, o.More...), o.Args[first:]
}

func (p *packet) acquireSeveral(o *Op) string {
	keys, fields := o.several(5)
	secret, ttl, owner, waits := o.Args[0], o.Args[1], o.Args[3], o.Args[4]
	fence, longest, stands := uint64(0), int64(0), false
	if err := p.ahead(0, fields...); err != "" {
		return err
	}
	for i, key := range keys {
		if fields[i] != "" {
			fence = max(fence, p.db.Counters[fields[i]]+1)
		}
		if v, is := p.db.get(key, p.now); is {
			p.refuse(key, v, wire.Exclusive, waits)
			left := v.left(p.now)
			if longest = max(longest, left); left < 0 {
				longest = math.MaxInt64 - 2
			}
			stands = true
		}
	}
	switch {
	case longest == math.MaxInt64-2:
		return integer(-1)
	case stands:
		return integer(-2 - longest)
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	for i, key := range keys {
		p.db.raise(fields[i], fence)
		p.db.Keys[key] = LockValue(secret, fence, owner, p.now.Add(millis(ttl)))
		p.granted(key, waits)
	}
	return integer(int64(fence))
}

func (p *packet) raiseSeveral(o *Op) string {
	keys, fields := o.several(3)
	fence := number(o.Args[1])
	if err := p.ahead(fence, fields...); err != "" {
		return err
	}
	for _, key := range keys {
		if v, ours := p.db.ours(key, o.Args[0], p.now); !ours || v.Mode != wire.Exclusive {
			return integer(0)
		}
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	for i, key := range keys {
		v, _ := p.db.ours(key, o.Args[0], p.now)
		p.db.raise(fields[i], fence)
		p.db.Keys[key] = LockValue(v.Secret(), fence, v.Owner(), v.End)
	}
	return integer(1)
}

// keep closes a key, or the place of one holder.
func (p *packet) keep(o *Op) string {
	v, ours := p.db.ours(o.Key, o.Args[0], p.now)
	if !ours {
		return integer(0)
	}
	if err := p.denied(true); err != "" {
		return failure(err)
	}
	secret, end := o.Args[0], p.now.Add(millis(o.Args[1]))
	dead := "kept" + secret[min(4, len(secret)):]
	if v.Mode == wire.Exclusive {
		p.db.Keys[o.Key] = Value{Text: dead + v.tail(), End: end}
		p.tell(wire.ReleasedPrefix, o.Key, secret)
		return integer(1)
	}
	at := v.holder(secret)
	h := v.Holders[at]
	h.Secret, h.End = dead, end
	p.settle(o.Key, v.with(at, h))
	p.tell(wire.ReleasedPrefix, o.Key, secret)
	return integer(1 + int64(h.Slot))
}

// share makes the holder of an exclusive lock a reader.
func (p *packet) share(o *Op) string {
	v, ours := p.db.ours(o.Key, o.Args[0], p.now)
	switch {
	case !ours:
		return integer(0)
	case v.Mode == wire.Limited:
		return failure("WRONGMODE a slot cannot be shared")
	case v.Mode == wire.Shared:
		return p.extend(o)
	}
	if err := p.ahead(v.Fence()+1, o.Args[2]); err != "" {
		return err
	}
	if err := p.denied(false); err != "" {
		return failure(err)
	}
	end := p.now.Add(millis(o.Args[1]))
	if v.End.After(end) {
		end = v.End
	}
	h := Holder{Secret: v.Secret(), Fence: v.Fence(), Owner: v.Owner(), End: end}
	p.db.raise(o.Args[2], h.Fence+1)
	p.db.Keys[o.Key] = held(wire.Shared, []Holder{h})
	p.tell(wire.ReleasedPrefix, o.Key, v.Secret())
	return p.tailOf(p.db.Keys[o.Key], h.Secret)
}

// tailOf is the result of an extension.
func (p *packet) tailOf(v Value, secret string) string {
	if v.Mode == wire.Exclusive {
		tail := v.tail()
		return bulk(tail[:min(80, len(tail))])
	}
	h := v.Holders[v.holder(secret)]
	head := "S"
	if v.Mode == wire.Limited {
		head = "L" + strconv.Itoa(h.Slot) + " "
	}
	return bulk(head + h.value()[len(h.Secret):])
}

// inspectHolders is what an inspection finds where several may hold a lock.
func (p *packet) inspectHolders(v Value) string {
	live := v.Live(p.now)
	slices.SortStableFunc(live, func(a, b Holder) int {
		return cmp.Or(b.End.Compare(a.End), strings.Compare(a.value(), b.value()))
	})
	var all strings.Builder
	all.WriteString(bulk(v.Mode.String()) + integer(v.left(p.now)) + integer(int64(len(live))))
	shown := live[:min(len(live), wire.MaxLimit)]
	for _, h := range shown {
		head := ""
		if v.Mode == wire.Limited {
			head = strconv.Itoa(h.Slot) + " "
		}
		all.WriteString(bulk(head+h.value()) + integer(h.End.Sub(p.now).Milliseconds()))
	}
	return "*" + strconv.Itoa(3+2*len(shown)) + "\r\n" + all.String()
}
