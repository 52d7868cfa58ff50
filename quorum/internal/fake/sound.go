package fake

import (
	"fmt"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// least is the lowest score of a holder. Entries have a score under zero, and the mark has at most
// the largest limit.
const least = 1000

// Unsound returns a fault in the members of a lock with several holders. It is empty for a
// sound lock and for any other key. Without exact it looks only for a key without an expiry:
// not even a command that fails may lead to that.
func (m *Memory) Unsound(key string, exact bool) string {
	m.begin()
	v := m.get(key)
	if v == nil || v.kind != typeZSet || !m.holders(v.set, new(Lock)) {
		return ""
	}
	if v.end == 0 {
		return "the key has no expiry"
	}
	if !exact {
		return ""
	}
	ends := v.set.between(bound{score: least}, endless)
	if last := ends[max(len(ends)-1, 0):]; len(last) == 0 || int64(last[0].score)/1000 != v.end {
		return fmt.Sprintf("the key ends at %d, and its last holder does not: %v", v.end, last)
	}
	return v.set.strays(m.now.UnixMilli())
}

// strays returns a fault in the entries of such a lock, empty without one.
func (s *sortedSet) strays(now int64) string {
	entries, fault := s.entries()
	if fault != "" {
		return fault
	}
	holds := make(map[int64]string)
	for name, score := range s.scores {
		if score < least {
			continue
		}
		name = strings.TrimPrefix(name, "=")
		entry, ok := entries[name]
		mode, h, right := wire.ParseEntry(entry)
		if !ok || !right {
			return fmt.Sprintf("a holder has the entry %q", entry)
		}
		delete(entries, name)
		end, place := int64(score)/1000, int64(score)%1000
		if slotted := mode == wire.Limited; slotted != (place < 999) || slotted && int64(h.Slot) != place {
			return fmt.Sprintf("a holder at place %d has the entry %q", place, entry)
		}
		if mode != wire.Limited || end < now {
			continue
		}
		if holds[place] != "" {
			return fmt.Sprintf("two hold slot %d", place)
		}
		holds[place] = name
	}
	if len(entries) > 0 {
		return fmt.Sprintf("%d entries of holders that are gone take room", len(entries))
	}
	return ""
}

// entries returns the entries by secret, or the fault of a member.
func (s *sortedSet) entries() (entries map[string]string, fault string) {
	entries = make(map[string]string)
	for name, score := range s.scores {
		switch {
		case score >= least || strings.HasPrefix(name, "lockproxy-"):
		case len(name) < wire.SecretLen:
			return nil, fmt.Sprintf("%q is a member", name)
		default:
			secret := name[:wire.SecretLen]
			if _, twice := entries[secret]; twice {
				return nil, "a holder has two entries"
			}
			entries[secret] = name[wire.SecretLen:]
		}
	}
	return entries, ""
}
