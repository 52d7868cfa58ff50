package fake

import (
	"fmt"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// least is the lowest end that is the score of a holder. Members that are no holders have a score
// under zero, and the mark has at most the largest limit.
const least = 1000

// Unsound returns what is wrong with the members of a lock that several hold, empty if nothing is,
// or if the key is no such lock. Without exact it looks only for what no failure of a command may
// lead to: a key without an expiry.
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

// strays returns what is wrong with the members of a set that are no ends of holders.
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
