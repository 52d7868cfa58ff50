package quorum

import (
	"fmt"
	"strconv"
	"time"
)

// scriptLocked carries out a script.
func (m *fakeMaster) scriptLocked(op opKind, args []string) string {
	keys, _ := strconv.Atoi(args[2])
	key, argv := args[3], args[3+keys:]
	v, stands := m.store[key]
	now := time.Now()
	if stands && !now.Before(v.end) {
		delete(m.store, key)
		stands = false
	}
	ours := stands && len(argv) > 0 && v.secret == argv[0]
	switch op {
	case opAcquire:
		if stands {
			return fmt.Sprintf("*2\r\n:0\r\n:%d\r\n", v.end.Sub(now).Milliseconds())
		}
		fence := uint64(0)
		if argv[2] != "" {
			m.counters[argv[2]]++
			fence = m.counters[argv[2]]
		}
		m.store[key] = fakeValue{argv[0], fence, now.Add(millis(argv[1])), argv[3]}
		return fmt.Sprintf("*2\r\n:1\r\n:%d\r\n", fence)
	case opRaise:
		if !ours {
			return ":0\r\n"
		}
		v.fence = number(argv[1])
		m.counters[argv[2]] = max(m.counters[argv[2]], v.fence)
		m.store[key] = v
		return ":1\r\n"
	case opRelease:
		if !ours {
			return ":0\r\n"
		}
		delete(m.store, key)
		return ":1\r\n"
	case opExtend:
		if !ours {
			return ":0\r\n"
		}
		if end := now.Add(millis(argv[1])); end.After(v.end) {
			v.end = end
			m.store[key] = v
		}
		return bulk(fmt.Sprintf("%016d%s", v.fence, v.owner))
	case opInfo:
		if !stands {
			return "$-1\r\n"
		}
		return bulk(fmt.Sprintf("%d %s%016d%s", v.end.Sub(now).Milliseconds(), v.secret, v.fence, v.owner))
	case opFree:
		if !stands {
			return ":0\r\n"
		}
		delete(m.store, key)
		return ":1\r\n"
	case opTopUp:
		if ours {
			if end := now.Add(millis(argv[1])); end.After(v.end) {
				v.end = end
				m.store[key] = v
			}
			return ":2\r\n"
		}
		if stands {
			return ":0\r\n"
		}
		if argv[2] != "" {
			m.counters[argv[2]] = max(m.counters[argv[2]], number(argv[3]))
		}
		m.store[key] = fakeValue{argv[0], number(argv[3]), now.Add(millis(argv[1])), argv[4]}
		return ":1\r\n"
	default:
		if ours {
			return ":1\r\n"
		}
		return ":0\r\n"
	}
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func millis(s string) time.Duration { return time.Duration(number(s)) * time.Millisecond }
