package quorum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scriptLocked carries out a script.
func (m *fakeMaster) scriptLocked(op opKind, args []string) string {
	keys, _ := strconv.Atoi(args[2])
	key, argv := args[3], args[3+keys:]
	v, stands := m.store[key]
	now := m.now()
	if op >= opLook {
		return m.stateScriptLocked(op, argv)
	}
	admitted := true
	if op != opFree {
		if want := argv[len(argv)-1]; want != "" && m.state["record"] != want {
			admitted = false
		}
	}
	if !admitted && op != opRelease {
		return fakeNotAdmitted
	}
	if stands && !now.Before(v.end) {
		delete(m.store, key)
		stands = false
	}
	ours := stands && len(argv) > 0 && v.secret == argv[0]
	switch op {
	case opAcquire:
		if stands {
			return fmt.Sprintf("*4\r\n:0\r\n:%d\r\n:%d\r\n:%d\r\n", v.end.Sub(now).Milliseconds(), now.Unix(), now.Nanosecond()/1000)
		}
		fence := uint64(0)
		if argv[2] != "" {
			m.counters[argv[2]]++
			fence = m.counters[argv[2]]
		}
		m.store[key] = fakeValue{argv[0], fence, now.Add(millis(argv[1])), argv[3]}
		return fmt.Sprintf("*4\r\n:1\r\n:%d\r\n:%d\r\n:%d\r\n", fence, now.Unix(), now.Nanosecond()/1000)
	case opRaise:
		if !ours {
			return ":0\r\n"
		}
		v.fence = number(argv[1])
		m.counters[argv[2]] = max(m.counters[argv[2]], v.fence)
		m.store[key] = v
		return ":1\r\n"
	case opRelease:
		if ours {
			delete(m.store, key)
		}
		switch {
		case !admitted:
			return fakeNotAdmitted
		case ours:
			return ":1\r\n"
		}
		return ":0\r\n"
	case opExtend:
		if !ours {
			return ":0\r\n"
		}
		if end := now.Add(millis(argv[1])); end.After(v.end) {
			v.end = end
			m.store[key] = v
		}
		return bulk(fmt.Sprintf("%d %d %016d%s", now.Unix(), now.Nanosecond()/1000, v.fence, v.owner))
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

const fakeNotAdmitted = "-NOTADMITTED the record of this master has changed\r\n"

// stateScriptLocked carries out a script about the hash of counters and record.
func (m *fakeMaster) stateScriptLocked(op opKind, argv []string) string {
	now := m.now()
	switch op {
	case opLook:
		return bulk(fmt.Sprintf("%d %d %d\n%s\n%s\n%s\n%s", now.Unix(), now.Nanosecond()/1000, len(m.state)+len(m.counters),
			m.state["record"], m.state["settings"], m.state["born"], m.state["durable"]))
	case opCounters:
		if m.state["record"] != argv[0] {
			return fakeNotAdmitted
		}
		var all []string
		for field, n := range m.counters {
			all = append(all, field+" "+strconv.FormatUint(n, 10))
		}
		slices.Sort(all) // so that a run of the simulation can be repeated to the byte
		return bulk(strings.Join(all, " "))
	}
	if m.state["record"] != argv[0] || argv[1] == "1" && len(m.state)+len(m.counters) > 0 {
		return ":0\r\n"
	}
	if argv[6] != "" {
		for i := range counters {
			field := strconv.Itoa(i)
			m.counters[field] = max(m.counters[field], number(argv[6]))
		}
	}
	raised := strings.Fields(argv[7])
	for i := 0; i < len(raised); i += 2 {
		m.counters[raised[i]] = max(m.counters[raised[i]], number(raised[i+1]))
	}
	for i, field := range []string{"settings", "born", "durable"} {
		switch value := argv[3+i]; value {
		case "-":
		case "":
			delete(m.state, field)
		default:
			m.state[field] = value
		}
	}
	m.state["record"] = argv[2]
	return ":1\r\n"
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func millis(s string) time.Duration { return time.Duration(number(s)) * time.Millisecond }
