package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// model states what one master holds, and what each operation answers and changes. It knows no
// commands, no types of keys and no order of writes. There is one join, one change of an end and
// one removal for all modes: an exclusive lock has room for a single holder.
type model struct {
	now      int64 // ms
	fencing  bool
	record   string
	admitted bool          // the packet has the record
	age      time.Duration // of its oldest operation, if any is too old
	writes   uint64
	counters map[string]string // by field
	locks    map[string]*lock  // by key
	intents  map[string]intent // by key
	news     []string          // messages of the packet
}

// foreign is the mode of a key that is no lock.
const foreign = Mode(99)

type lock struct {
	mode    Mode
	holders map[string]*holding // by secret
	content string              // foreign: type and content
	end     int64               // foreign: in ms, 0 for never
}

type holding struct {
	end   int64 // ms; the holder holds until then, inclusive
	slot  int
	fence uint64
	owner string
	about bool // end is inexact: the master computed it from PTTL
	exact bool // of an exclusive lock: end is known to the millisecond
}

// intent is the mode that a client waits for.
type intent struct {
	mode Mode
	end  int64
}

func newModel(fencing bool) *model {
	return &model{fencing: fencing, counters: map[string]string{}, locks: map[string]*lock{},
		intents: map[string]intent{}}
}

// at moves the clock to now and removes locks and intents that have ended.
func (m *model) at(now int64) {
	m.now = now
	for key, l := range m.locks {
		for secret, h := range l.holders {
			if h.end < now {
				m.remove(key, secret)
			}
		}
		if l.mode == foreign && l.end > 0 && l.end < now {
			delete(m.locks, key)
		}
	}
	for key, i := range m.intents {
		if i.end < now {
			delete(m.intents, key)
		}
	}
}

// look takes the ages of the operations of a packet, which the master begins at that time.
func (m *model) look(ops []*Op, now time.Duration) {
	m.age = 0
	oldest, any := now, false
	for _, op := range ops {
		if op.Begun != 0 && op.setsKeys() {
			oldest, any = min(oldest, op.Begun), any || now-op.Begun > op.most()
		}
	}
	if any {
		m.age = now - oldest
	}
}

func (o *Op) setsKeys() bool { return o.Kind == Acquire || o.Kind == TopUp }

// most is how old an operation may be that sets keys.
func (o *Op) most() time.Duration {
	if o.Kind == Acquire {
		return time.Duration(max(o.TTL.Milliseconds(), 1)) * 99 * time.Millisecond / 100
	}
	return time.Duration(max(o.Within.Milliseconds(), 1)) * time.Millisecond
}

// begin starts a packet.
func (m *model) begin(now int64, record string) {
	m.at(now)
	if m.admitted = record == "" || record == m.record; m.admitted && record != "" && m.writes > 0 {
		m.writes++
	}
}

func (m *model) join(key, secret string, mode Mode, h holding) {
	if m.locks[key] == nil {
		m.locks[key] = &lock{mode: mode, holders: map[string]*holding{}}
	}
	m.locks[key].holders[secret] = &h
}

func (m *model) remove(key, secret string) {
	if l := m.locks[key]; len(l.holders) == 1 {
		delete(m.locks, key)
	} else {
		delete(l.holders, secret)
	}
}

// holds returns what secret holds at key, or nil.
func (m *model) holds(key, secret string) *holding {
	if l := m.locks[key]; l != nil {
		return l.holders[secret]
	}
	return nil
}

// left returns how long the key lives.
func (m *model) left(l *lock) int64 {
	end := l.end
	for _, h := range l.holders {
		end = max(end, h.end)
	}
	if end == 0 {
		return -1
	}
	return end - m.now
}

// keys are those of the operation, and counters the fields that it uses.
func keys(op *Op) []string { return append([]string{op.Key}, op.more()...) }

func (m *model) fields(op *Op) (all []string) {
	if m.fencing {
		all = append(all, strconv.Itoa(int(op.Counter)))
		for i := range op.more() {
			all = append(all, strconv.Itoa(int(op.Terms.Counters[i])))
		}
	}
	return all
}

// count returns the largest of some counters; ok is false if one of them is unusable.
func (m *model) count(fields ...string) (largest uint64, ok bool) {
	for _, field := range fields {
		if text, found := m.counters[field]; found {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil || n >= m.limit() {
				return 0, false
			}
			largest = max(largest, n)
		}
	}
	return largest, true
}

func (m *model) limit() uint64 { return FenceLimit(time.UnixMilli(m.now)) }

func (m *model) raise(fields []string, fence uint64) {
	for _, field := range fields {
		if n, _ := m.count(field); n < fence {
			m.counters[field] = strconv.FormatUint(fence, 10)
		}
	}
}

func (m *model) publish(what, key, id string) { m.news = append(m.news, what+key+" "+id) }

// run carries out an operation and returns its result. hint is the slot that the master granted:
// if both slots that are tried first are taken, the master may choose any free one. Of a Refresh,
// it is 1 if the master said that the lock ends later.
func (m *model) run(op *Op, hint int) []answer {
	t := op.Terms
	if t == nil {
		t = &Terms{}
	}
	fields := m.fields(op)
	_, usable := m.count(fields...)
	l, h, till := m.locks[op.Key], m.holds(op.Key, op.Secret), m.now+max(op.TTL.Milliseconds(), 1)
	switch {
	case op.Kind.Votes() && !m.admitted:
		return say(CodeNotAdmitted)
	case op.setsKeys() && m.age > op.most():
		return say(CodeTooLate)
	case (op.Kind == Raise || op.Kind == TopUp) && op.Fence > m.limit():
		return say("ERR")
	case (op.Kind == Acquire || op.Kind == TopUp) && !usable:
		return say("ERR")
	case op.Kind == Acquire:
		return m.acquire(op, t, fields, till, hint)
	case op.Kind == TopUp:
		return m.topUp(op, t, fields, till)
	case op.Kind == Raise:
		return m.raiseAll(op, fields)
	case op.Kind == Inspect:
		return m.inspect(l)
	case op.Kind == Free:
		return m.free(op.Key, l)
	case h == nil:
		return say("0")
	}
	switch op.Kind {
	case Check:
		return say("%d", 1+h.slot)
	case Share:
		return m.share(op.Key, op.Secret, fields, till)
	case Extend:
		h.raise(till)
		return say("%v slot %d fence %d owner %q", l.mode, h.slot, h.fence, h.owner)
	case Fade:
		h.exact = h.exact && till > h.end+tolerance
		h.end = min(h.end, till)
		return say("1")
	case Refresh:
		return m.refresh(op, l.mode, h, till, hint > 0)
	}
	return m.release(op, l, h, till)
}

func (m *model) acquire(op *Op, t *Terms, fields []string, till int64, slot int) []answer {
	longest := int64(0) // that a key lives for which the acquire is refused
	for _, key := range keys(op) {
		if left, refused := m.refuses(key, op.Secret, t, &slot); refused && (left == -1 || longest == -1) {
			longest = -1
		} else if refused {
			longest = max(longest, left, 1)
		}
	}
	if longest != 0 {
		return []answer{{"refused", longest}}
	}
	fence, _ := m.count(fields...)
	if m.fencing && (t.Mode != Shared || m.locks[op.Key] == nil) {
		fence++ // readers that join have the number of the first
	}
	m.raise(fields, fence)
	for _, key := range keys(op) {
		m.join(key, op.Secret, t.Mode, holding{end: till, slot: slot, fence: fence, owner: op.Owner})
		m.publish(ChangedPrefix, key, "")
		if t.Waits > 0 {
			delete(m.intents, key)
		}
	}
	return say("granted %d slot %d", fence, slot)
}

// refuses reports whether an acquire of the key is refused, and how long what refuses it lives.
// Otherwise it chooses the slot.
func (m *model) refuses(key, secret string, t *Terms, slot *int) (left int64, refused bool) {
	l, i := m.locks[key], m.intents[key]
	switch {
	case l != nil && (l.mode != t.Mode || l.mode == Exclusive):
		joinable := l.mode == Shared || l.mode == Limited
		if waits := t.Waits.Milliseconds(); waits > 0 && joinable && (i.end-m.now <= waits || i.mode == l.mode) {
			m.intents[key] = intent{t.Mode, m.now + waits}
		}
		return m.left(l), true
	case l != nil && l.holders[secret] != nil:
		return m.left(l), true
	case t.Mode != Exclusive && i.end > 0 && i.mode != t.Mode:
		return i.end - m.now, true
	case t.Mode == Limited:
		return m.chooseSlot(l, t, slot)
	}
	*slot = 0
	return 0, false
}

func (m *model) chooseSlot(l *lock, t *Terms, slot *int) (soonest int64, full bool) {
	taken := map[int]bool{}
	if l != nil {
		for _, h := range l.holders {
			if taken[h.slot] = true; soonest == 0 || h.end-m.now < soonest {
				soonest = h.end - m.now
			}
		}
	}
	for s := t.Limit - 1; s >= 0 && (*slot < 0 || *slot >= t.Limit || taken[*slot]); s-- {
		*slot = s
	}
	for _, s := range []int{t.Try[1], t.Try[0]} {
		if !taken[s] {
			*slot = s
		}
	}
	return soonest, taken[*slot]
}

// topUp acquires with a known fence, or extends the holder. It gives up another slot than that of
// the terms.
func (m *model) topUp(op *Op, t *Terms, fields []string, till int64) []answer {
	switch l, h := m.locks[op.Key], m.holds(op.Key, op.Secret); {
	case h != nil && l.mode == Limited && t.Mode == Limited && h.slot != t.Slot:
		m.remove(op.Key, op.Secret)
	case h != nil && l.mode == Exclusive && t.Mode == Shared:
		m.share(op.Key, op.Secret, fields, till)
		return say("2")
	case h != nil:
		h.raise(till)
		return say("2")
	}
	h, l, count := holding{end: till, fence: op.Fence, owner: op.Owner}, m.locks[op.Key], op.Fence
	if t.Mode == Limited {
		h.slot = t.Slot
	}
	if l != nil && (l.mode != t.Mode || l.mode == Exclusive || l.mode == Limited && l.has(h.slot)) {
		return say("0")
	}
	if n, _ := m.count(fields...); t.Mode == Shared && l == nil {
		count = max(count, n+1) // readers that join have a greater fence than the last exclusive holder
	}
	m.raise(fields, count)
	m.join(op.Key, op.Secret, t.Mode, h)
	m.publish(ChangedPrefix, op.Key, "")
	return say("1")
}

func (l *lock) has(slot int) bool {
	for _, h := range l.holders {
		if h.slot == slot {
			return true
		}
	}
	return false
}

// raiseAll raises the fence at all keys or none. Several keys must be held exclusively.
func (m *model) raiseAll(op *Op, fields []string) []answer {
	several := op.more() != nil
	for i, key := range keys(op) {
		_, usable := m.count(fields[min(i, len(fields)):min(i+1, len(fields))]...)
		held := m.holds(key, op.Secret) != nil && (!several || m.locks[key].mode == Exclusive)
		switch {
		case !usable && (several || held):
			return say("ERR")
		case !held:
			return say("0")
		}
	}
	for _, key := range keys(op) {
		m.holds(key, op.Secret).fence = op.Fence
	}
	m.raise(fields, op.Fence)
	return say("1")
}

// share makes an exclusive holder the first reader, and extends it. Readers that join have a
// greater fence.
func (m *model) share(key, secret string, fields []string, till int64) []answer {
	l, h := m.locks[key], m.holds(key, secret)
	switch _, usable := m.count(fields...); {
	case l.mode == Limited:
		return say(CodeWrongMode)
	case l.mode == Exclusive && !usable:
		return say("ERR")
	case l.mode == Exclusive:
		l.mode, h.about = Shared, true
		m.raise(fields, h.fence+1)
		m.publish(ReleasedPrefix, key, ReleaseID(secret))
	}
	h.raise(till)
	return say("%v slot %d fence %d owner %q", l.mode, h.slot, h.fence, h.owner)
}

// raise makes the holder end at till at the earliest.
func (h *holding) raise(till int64) {
	h.exact = h.exact && till < h.end-tolerance
	h.end = max(h.end, till)
}

// nextEnd returns the first end from till on that counts one more change than old.
func nextEnd(till, old int64) int64 {
	for (till-old)&7 != 1 {
		till++
	}
	return till
}

// refresh changes the end of an exclusive lock. kept is what the master did, which counts if the
// old end is not known to the millisecond.
func (m *model) refresh(op *Op, mode Mode, h *holding, till int64, kept bool) []answer {
	if h.exact {
		till = nextEnd(till, h.end)
	}
	shortens, named := till < h.end, op.End == h.end
	if !h.exact && near(till, h.end) {
		shortens = kept
	}
	if !h.exact && near(op.End, h.end) {
		named = !kept
	}
	switch {
	case mode != Exclusive:
		return say("0")
	case shortens && !named:
		return []answer{{fmt.Sprintf("longer fence %d owner %q", h.fence, h.owner), h.end - m.now}}
	}
	h.end = till
	return say("%v slot %d fence %d owner %q", Exclusive, 0, h.fence, h.owner)
}

// release lets a holder go, or puts a place that no token opens in its stead.
func (m *model) release(op *Op, l *lock, h *holding, till int64) []answer {
	m.remove(op.Key, op.Secret)
	last, keep := m.locks[op.Key] == nil, op.TTL > 0
	if keep || op.Publish && (last || l.mode == Limited) {
		m.publish(ReleasedPrefix, op.Key, ReleaseID(op.Secret))
	}
	if !keep && op.Publish && (!last || l.mode == Limited) {
		m.publish(ChangedPrefix, op.Key, "")
	}
	if keep {
		closed := *h
		closed.end, closed.exact = till, false
		m.join(op.Key, "kept"+op.Secret[4:], l.mode, closed)
		return say("%d", 1+h.slot)
	}
	return say("1")
}

// free removes any lock. Every string counts as a lock.
func (m *model) free(key string, l *lock) []answer {
	if l == nil || l.mode == foreign && !strings.HasPrefix(l.content, "string") {
		return say("0")
	}
	id := ""
	if _, text, foreign := strings.Cut(l.content, "string "); foreign {
		id = ReleaseID(text)
	}
	for secret := range l.holders {
		if l.mode == Exclusive {
			id = ReleaseID(secret)
		}
	}
	delete(m.locks, key)
	m.publish(ReleasedPrefix, key, id)
	return say("1")
}
