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

// Only this file knows the format in which the scripts store a key: the state hash, and locks of
// every kind. Tests use it to inspect a master and to change it. Callers hold the master's mutex
// (Set).

// StateKey is the state hash under key-prefix lock:, which all tests have.
const StateKey = "lockproxy:state:lock:"

// Lock is the lock stored at a key.
type Lock struct {
	Mode    wire.Mode // Exclusive for every string
	Secret  string    // of Exclusive; all of a string that is too short to be a lock
	Fence   uint64    // of Exclusive
	Owner   string    // of Exclusive
	Holders []Holder  // of Shared and Limited: the current holders, the first to expire first
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

// Lock returns the lock stored at a key. ok is false if there is none.
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
		l.Fence, l.Owner, _ = wire.ParseFenceOwner(v.text[len(l.Secret):])
	case v.kind == typeZSet && m.holders(v.set, &l):
	default:
		l.Other = true
	}
	slices.SortStableFunc(l.Holders, func(a, b Holder) int {
		return cmp.Or(a.End.Compare(b.End), strings.Compare(a.Secret, b.Secret))
	})
	return l, true
}

var endless = bound{score: math.Inf(1)}

// holders reads a sorted set of secrets with their ends, and of their entries.
func (m *Memory) holders(set *sortedSet, l *Lock) bool {
	if _, shared := set.scores["lockproxy-shared"]; shared {
		l.Mode = wire.Shared
	} else if _, limit := set.scores["lockproxy-limit"]; limit {
		l.Mode = wire.Limited
	} else {
		return false
	}
	entries := make(map[string]wire.Entry)
	for _, one := range set.between(bound{score: math.Inf(-1)}, bound{score: -1}) {
		if len(one.name) > wire.SecretLen {
			if _, h, ok := wire.ParseEntry(one.name[wire.SecretLen:]); ok {
				entries[one.name[:wire.SecretLen]] = h
			}
		}
	}
	for _, one := range set.between(bound{score: float64(m.now.UnixMilli()) * 1000}, endless) {
		secret := strings.TrimPrefix(one.name, "=")
		h := entries[secret]
		l.Holders = append(l.Holders, Holder{secret, h.Fence, h.Owner, time.UnixMilli(int64(one.score) / 1000), h.Slot})
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
	if m.SetState(field, ""); n > 0 { // counters begin at 1, so 0 leaves none
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
