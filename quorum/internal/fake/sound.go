package fake

import (
	"fmt"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// least is the lowest end that is the score of a holder. Members that are no holders have a score
// under zero, and the mark has at most the largest limit.
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
	if last := ends[max(len(ends)-1, 0):]; len(last) == 0 || int64(last[0].score) != v.end {
		return fmt.Sprintf("the key ends at %d, and its last holder does not: %v", v.end, last)
	}
	return v.set.strays(m.now.UnixMilli())
}

// strays returns a fault in the entries and the index of slots of such a lock, empty without one.
func (s *sortedSet) strays(now int64) string {
	entries, slots, holds := make(map[string]string), make(map[string]bool), make(map[string]string)
	for name, score := range s.scores {
		switch {
		case score >= least || strings.HasPrefix(name, "lockproxy:"):
		case strings.HasPrefix(name, "#"):
			slots[name] = true
		case len(name) < wire.SecretLen:
			return fmt.Sprintf("%q is a member", name)
		default:
			secret := name[:wire.SecretLen]
			if _, twice := entries[secret]; twice {
				return "a holder has two entries"
			}
			entries[secret] = name[wire.SecretLen:]
		}
	}
	for name, score := range s.scores {
		if score < least {
			continue
		}
		entry, ok := entries[name]
		if _, _, right := wire.ParseEntry(entry); !ok || !right {
			return fmt.Sprintf("a holder has the entry %q", entry)
		}
		delete(entries, name)
		if entry[0] != 'L' {
			continue
		}
		slot := "#" + entry[1:4]
		if !slots[slot+name] {
			return "the slot of a holder is not in the index"
		}
		delete(slots, slot+name)
		if other := holds[slot]; other != "" && int64(score) >= now {
			return "two hold slot " + slot
		} else if int64(score) >= now {
			holds[slot] = name
		}
	}
	if len(entries)+len(slots) > 0 {
		return fmt.Sprintf("%d entries and %d slots of holders that are gone take room", len(entries), len(slots))
	}
	return ""
}
