package fake

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// This file is all that knows what the scripts keep at a key: the state hash, and locks of every
// kind. Tests look at a master, and change it, through it. Callers hold the master's lock (Set).

// StateKey is the state hash under key-prefix lock:, which all tests have.
const StateKey = "lockproxy:state:lock:"

// Lock is what stands at a key.
type Lock struct {
	Mode    wire.Mode // Exclusive for every string
	Secret  string    // of Exclusive; all of a string that is too short to be a lock
	Fence   uint64    // of Exclusive
	Owner   string    // of Exclusive
	Holders []Holder  // of Shared and Limited: those who hold it now, the first to end first
	End     time.Time // by the master's clock; zero: for ever
	Other   bool      // it is no lock
}

// Holder is one of several who hold a lock: a reader, or who has a slot.
type Holder struct {
	Secret string
	Fence  uint64
	Owner  string
	End    time.Time // by the master's clock
	Slot   int       // of wire.Limited
}

// Lock returns what stands at a key. ok is false for nothing.
func (m *Memory) Lock(key string) (l Lock, ok bool) {
	m.begin()
	v := m.get(key)
	if v == nil {
		return l, false
	}
	if v.end != 0 {
		l.End = time.UnixMilli(v.end)
	}
	switch {
	case v.kind == typeString:
		l.Secret = v.text[:min(wire.SecretLen, len(v.text))]
		l.Fence, l.Owner, _ = wire.BehindSecret(v.text[len(l.Secret):])
	case v.kind == typeZSet && m.readers(v.set, &l):
	case v.kind == typeHash && m.slots(v.hash, &l):
	case v.kind == typeZSet && m.holders(key, v.set, &l):
	default:
		l.Other = true
	}
	slices.SortStableFunc(l.Holders, func(a, b Holder) int {
		return cmp.Or(a.End.Compare(b.End), strings.Compare(a.Secret, b.Secret))
	})
	return l, true
}

var endless = bound{score: math.Inf(1)}

// holders reads a sorted set of secrets with their ends, and the hash beside it.
func (m *Memory) holders(key string, set *sortedSet, l *Lock) bool {
	if _, shared := set.scores["lockproxy:shared"]; shared {
		l.Mode = wire.Shared
	} else if _, limit := set.scores["lockproxy:limit"]; limit {
		l.Mode = wire.Limited
	} else {
		return false
	}
	beside := m.get("lockproxy:holders:" + key)
	for _, one := range set.between(bound{score: float64(m.now.UnixMilli())}, endless) {
		h := Holder{Secret: one.name, End: time.UnixMilli(int64(one.score))}
		if beside != nil && beside.kind == typeHash {
			text, _ := beside.hash.get(one.name)
			if cut := wire.FenceLen + 3; len(text) >= cut {
				h.Fence, _, _ = wire.BehindSecret(text)
				h.Slot, _ = strconv.Atoi(text[wire.FenceLen:cut])
				h.Owner = text[cut:]
			}
		}
		l.Holders = append(l.Holders, h)
	}
	return true
}

// readers reads a sorted set that has the end of each secret, and minus that of each value.
func (m *Memory) readers(set *sortedSet, l *Lock) bool {
	if _, ok := set.scores["lockproxy"]; !ok {
		return false
	}
	l.Mode = wire.Shared
	for _, one := range set.between(bound{score: float64(m.now.UnixMilli())}, endless) {
		h := Holder{Secret: one.name, End: time.UnixMilli(int64(one.score))}
		for _, value := range set.between(bound{score: -one.score}, bound{score: -one.score}) {
			if rest, ok := strings.CutPrefix(value.name, one.name); ok {
				h.Fence, h.Owner, _ = wire.BehindSecret(rest)
			}
		}
		l.Holders = append(l.Holders, h)
	}
	return true
}

// slots reads a hash of slots.
func (m *Memory) slots(of *hash, l *Lock) bool {
	if mark, _ := of.get("lockproxy"); mark != "limit" {
		return false
	}
	l.Mode = wire.Limited
	for _, f := range of.fields {
		slot, err := strconv.Atoi(f.name)
		if err != nil {
			continue
		}
		end, value, _ := strings.Cut(f.text, " ")
		ms, _ := strconv.ParseInt(end, 10, 64)
		h := Holder{Secret: value[:min(wire.SecretLen, len(value))], End: time.UnixMilli(ms), Slot: slot}
		h.Fence, h.Owner, _ = wire.BehindSecret(value[len(h.Secret):])
		if ms >= m.now.UnixMilli() {
			l.Holders = append(l.Holders, h)
		}
	}
	return true
}

// SetLock puts an exclusive lock at a key; a zero end is for ever.
func (m *Memory) SetLock(key, secret string, fence uint64, owner string, end time.Time) {
	m.SetText(key, string(wire.AppendFence([]byte(secret), fence))+owner, end)
}

// SetText puts any string at a key.
func (m *Memory) SetText(key, text string, end time.Time) {
	m.keys[key] = &value{kind: typeString, text: text}
	m.SetEnd(key, end)
}

// SetOther puts something at a key that is no lock.
func (m *Memory) SetOther(key string) { m.keys[key] = &value{kind: typeOther} }

// SetEnd changes when a key ends.
func (m *Memory) SetEnd(key string, end time.Time) {
	if m.keys[key].end = 0; !end.IsZero() {
		m.keys[key].end = end.UnixMilli()
	}
}

// Delete deletes a key.
func (m *Memory) Delete(key string) { delete(m.keys, key) }

// Names are the names of all keys but the state hash, sorted.
func (m *Memory) Names() []string {
	return slices.DeleteFunc(m.names(), func(key string) bool { return key == StateKey })
}

// DeleteAll deletes all keys but the state hash.
func (m *Memory) DeleteAll() {
	for key := range m.keys {
		if key != StateKey {
			delete(m.keys, key)
		}
	}
}

// State is a field of the state hash: the record, for one.
func (m *Memory) State(field string) (text string) {
	if v := m.keys[StateKey]; v != nil {
		text, _ = v.hash.get(field)
	}
	return text
}

// SetState sets a field of the state hash, or deletes it where text is empty.
func (m *Memory) SetState(field, text string) {
	v, _ := m.make(StateKey, typeHash)
	if v.hash.set(field, text); text == "" {
		v.hash.remove(field)
	}
	if len(v.hash.fields) == 0 {
		delete(m.keys, StateKey)
	}
}

// Counter is a counter, 0 without one.
func (m *Memory) Counter(field string) uint64 {
	n, _ := strconv.ParseUint(m.State(field), 10, 64)
	return n
}

// SetCounter sets a counter; 0 deletes it.
func (m *Memory) SetCounter(field string, n uint64) {
	if m.SetState(field, ""); n > 0 {
		m.SetState(field, strconv.FormatUint(n, 10))
	}
}

// Counters are all counters by their fields.
func (m *Memory) Counters() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		v := m.keys[StateKey]
		for i := 0; v != nil && i < len(v.hash.fields); i++ {
			f := v.hash.fields[i]
			if f.name[0] < '0' || f.name[0] > '9' {
				continue
			}
			if n, err := strconv.ParseUint(f.text, 10, 64); err == nil && !yield(f.name, n) {
				return
			}
		}
	}
}
