package fake

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// hash is a Redis hash. Fields keep the order of insertion until one is removed. The order has no
// other cause, so a run can be repeated.
type hash struct {
	at     map[string]int // index into fields
	fields []field
}

type field struct{ name, text string }

func (h *hash) clone() *hash { return &hash{maps.Clone(h.at), slices.Clone(h.fields)} }

func (h *hash) get(name string) (text string, ok bool) {
	i, ok := h.at[name]
	if !ok {
		return "", false
	}
	return h.fields[i].text, true
}

// set reports whether the field is new.
func (h *hash) set(name, text string) bool {
	if i, ok := h.at[name]; ok {
		h.fields[i].text = text
		return false
	}
	h.at[name] = len(h.fields)
	h.fields = append(h.fields, field{name, text})
	return true
}

// remove puts the last field in the place of the one that it removes.
func (h *hash) remove(name string) bool {
	i, ok := h.at[name]
	if !ok {
		return false
	}
	last := len(h.fields) - 1
	h.fields[i] = h.fields[last]
	h.at[h.fields[i].name] = i
	h.fields[last] = field{}
	h.fields = h.fields[:last]
	delete(h.at, name)
	return true
}

// sortedSet is a Redis sorted set. A change of the slice copies up to all of it, which takes
// microseconds for ten thousand members.
type sortedSet struct {
	scores map[string]float64
	sorted []member // by score, then by name
}

type member struct {
	score float64
	name  string
}

func (m member) compare(n member) int {
	return cmp.Or(cmp.Compare(m.score, n.score), strings.Compare(m.name, n.name))
}

func (s *sortedSet) clone() *sortedSet {
	return &sortedSet{maps.Clone(s.scores), slices.Clone(s.sorted)}
}

// add reports whether the member is new.
func (s *sortedSet) add(name string, score float64) bool {
	had := s.remove(name)
	s.scores[name] = score
	at, _ := slices.BinarySearchFunc(s.sorted, member{score, name}, member.compare)
	s.sorted = slices.Insert(s.sorted, at, member{score, name})
	return !had
}

func (s *sortedSet) remove(name string) bool {
	score, ok := s.scores[name]
	if ok {
		at, _ := slices.BinarySearchFunc(s.sorted, member{score, name}, member.compare)
		s.sorted = slices.Delete(s.sorted, at, at+1)
		delete(s.scores, name)
	}
	return ok
}

// between returns the members with scores in a range.
func (s *sortedSet) between(low, high bound) []member {
	from, _ := slices.BinarySearchFunc(s.sorted, low, func(m member, b bound) int {
		if m.score < b.score || b.open && m.score == b.score {
			return -1
		}
		return 1
	})
	to, _ := slices.BinarySearchFunc(s.sorted, high, func(m member, b bound) int {
		if m.score < b.score || !b.open && m.score == b.score {
			return -1
		}
		return 1
	})
	return s.sorted[from:max(from, to)]
}

// bound is one end of a range of scores.
type bound struct {
	score float64
	open  bool // excludes the score itself
}
