package fake

import (
	"maps"
	"strconv"
	"time"

	"lockproxy/quorum/internal/wire"
)

// Value is a string key, or one that several hold. A zero End lives for ever. Other stands for a
// key of another type.
type Value struct {
	Text    string
	End     time.Time // by the master's clock
	Other   bool
	Mode    wire.Mode // Shared and Limited have Holders
	Holders []Holder  // never changed in place
}

// secretLen and fenceLen cut the value of a lock: secret, fence, owner label.
const (
	secretLen = 40
	fenceLen  = 16
)

// LockValue is a lock as the scripts write it.
func LockValue(secret string, fence uint64, owner string, end time.Time) Value {
	return Value{Text: secret + fenceText(fence) + owner, End: end}
}

// Secret is the part of the value that decides whose lock it is. A value too short for one is all
// secret, so that tests may use short names.
func (v Value) Secret() string {
	if v.Other {
		return ""
	}
	return v.Text[:min(secretLen, len(v.Text))]
}

// tail is what stands behind the secret.
func (v Value) tail() string { return v.Text[min(secretLen, len(v.Text)):] }

// Fence is the number that the value carries, 0 without one.
func (v Value) Fence() uint64 {
	tail := v.tail()
	n, _ := strconv.ParseUint(tail[:min(fenceLen, len(tail))], 10, 64)
	return n
}

// Owner is the label behind the fence.
func (v Value) Owner() string {
	tail := v.tail()
	return tail[min(fenceLen, len(tail)):]
}

// lives reports whether the key still exists at now.
func (v Value) lives(now time.Time) bool { return v.End.IsZero() || now.Before(v.End) }

// left is what PTTL says: -1 for ever.
func (v Value) left(now time.Time) int64 {
	if v.End.IsZero() {
		return -1
	}
	return v.End.Sub(now).Milliseconds()
}

// Memory is what one database keeps.
type Memory struct {
	Keys     map[string]Value
	Counters map[string]uint64            // fields of the state hash that are numbers
	State    map[string]string            // the other fields of it: record, settings, known, durable
	Hashes   map[string]map[string]string // other hashes
}

func newMemory() *Memory {
	return &Memory{Keys: map[string]Value{}, Counters: map[string]uint64{}, State: map[string]string{}, Hashes: map[string]map[string]string{}}
}

// Clone copies everything.
func (m *Memory) Clone() *Memory {
	c := &Memory{Keys: maps.Clone(m.Keys), Counters: maps.Clone(m.Counters), State: maps.Clone(m.State), Hashes: map[string]map[string]string{}}
	for key, hash := range m.Hashes {
		c.Hashes[key] = maps.Clone(hash)
	}
	return c
}

// set makes m hold what of holds, in place: whoever has m sees it.
func (m *Memory) set(of *Memory) {
	c := of.Clone()
	m.Keys, m.Counters, m.State, m.Hashes = c.Keys, c.Counters, c.State, c.Hashes
}

// get returns the key if it exists at now, and deletes one that has run out.
func (m *Memory) get(key string, now time.Time) (v Value, stands bool) {
	v, stands = m.Keys[key]
	if stands && !v.lives(now) {
		delete(m.Keys, key)
		return Value{}, false
	}
	return v, stands
}

// ours returns the key if it exists and the secret holds it.
func (m *Memory) ours(key, secret string, now time.Time) (v Value, ours bool) {
	v, stands := m.get(key, now)
	if stands && v.Mode != wire.Exclusive {
		at := v.holder(secret)
		return v, at >= 0 && v.Holders[at].lives(now)
	}
	return v, stands && !v.Other && v.Secret() == secret
}

// raise makes a counter at least n.
func (m *Memory) raise(field string, n uint64) {
	if field != "" && m.Counters[field] < n {
		m.Counters[field] = n
	}
}

// fenceText is how a script writes a fence: string.format('%016.0f').
func fenceText(n uint64) string {
	text := strconv.FormatFloat(float64(n), 'f', 0, 64)
	for len(text) < fenceLen {
		text = "0000000000000000"[:fenceLen-len(text)] + text
	}
	return text
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func millis(s string) time.Duration { return time.Duration(number(s)) * time.Millisecond }
