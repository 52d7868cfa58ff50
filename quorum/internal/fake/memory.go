package fake

import (
	"maps"
	"slices"
	"time"
)

// Memory is the keyspace of one database, with the types that the scripts use. An end is in ms by
// the master's clock. A key still exists in the millisecond of its end.
type Memory struct {
	keys  map[string]*value
	clock func() time.Time // the master's
	now   time.Time        // read once for each command or script
}

// value is the value of a key.
type value struct {
	kind string // as TYPE says
	end  int64  // 0: none

	text string     // of a string
	hash *hash      // of a hash
	set  *sortedSet // of a zset
}

// Types of keys.
const (
	typeString = "string"
	typeHash   = "hash"
	typeZSet   = "zset"
	typeOther  = "set" // represents all others; no command reads or writes it
)

func newMemory(clock func() time.Time) *Memory {
	return &Memory{keys: map[string]*value{}, clock: clock}
}

// Clone copies everything.
func (m *Memory) Clone() *Memory {
	c := newMemory(m.clock)
	for key, v := range m.keys {
		w := *v
		switch v.kind {
		case typeHash:
			w.hash = v.hash.clone()
		case typeZSet:
			w.set = v.set.clone()
		}
		c.keys[key] = &w
	}
	return c
}

// set replaces the data of m by a copy of the data of another.
func (m *Memory) set(of *Memory) { m.keys = of.Clone().keys }

// begin reads the clock for a command, a script or an accessor.
func (m *Memory) begin() { m.now = m.clock() }

// get returns the value of a key, nil if there is none, and deletes the key if it has expired.
func (m *Memory) get(key string) *value {
	v := m.keys[key]
	if v != nil && v.end != 0 && m.now.UnixMilli() > v.end {
		delete(m.keys, key)
		return nil
	}
	return v
}

// getAs is get for a command on keys of one type. ok is false for a key of another type.
func (m *Memory) getAs(key, kind string) (v *value, ok bool) {
	v = m.get(key)
	return v, v == nil || v.kind == kind
}

// make is getAs, but creates an empty value if there is none.
func (m *Memory) make(key, kind string) (v *value, ok bool) {
	v, ok = m.getAs(key, kind)
	if v == nil {
		v = &value{kind: kind}
		switch kind {
		case typeHash:
			v.hash = &hash{at: map[string]int{}}
		case typeZSet:
			v.set = &sortedSet{scores: map[string]float64{}}
		}
		m.keys[key] = v
	}
	return v, ok
}

// names returns the names of the keys that exist, sorted.
func (m *Memory) names() []string {
	m.begin()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.keys)), func(key string) bool { return m.get(key) == nil })
}
