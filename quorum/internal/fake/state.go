package fake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// script is one of the scripts in package wire, in Go.
type script struct {
	name string
	sha  string
	run  func(m *Master, db *Memory, cmd *Command) []byte
}

// bodies are all of them by what EVAL is given, digests by what EVALSHA is given.
var bodies, digests map[string]script

func init() {
	bodies = map[string]script{
		wire.Packet.Body:   {"packet", wire.Packet.SHA, runPacket},
		wire.Probe.Body:    {"probe", wire.Probe.SHA, runProbe},
		wire.Counters.Body: {"counters", wire.Counters.SHA, runCounters},
		wire.Admit.Body:    {"admit", wire.Admit.SHA, runAdmit},
	}
	digests = map[string]script{}
	for _, sc := range bodies {
		digests[sc.sha] = sc
	}
}

// argv is what stands behind the keys of a script.
func argv(cmd *Command) []string {
	keys, _ := strconv.Atoi(cmd.Args[2])
	return cmd.Args[3+keys:]
}

// runProbe is probe.lua.
func runProbe(m *Master, db *Memory, _ *Command) []byte {
	now := m.NowLocked()
	return []byte(bulk(fmt.Sprintf("%d %d %d\n%s\n%s\n%s\n%s", now.Unix(), now.Nanosecond()/1000, len(db.State)+len(db.Counters),
		db.State["record"], db.State["settings"], db.State["known"], db.State["durable"])))
}

// runCounters is counters.lua.
func runCounters(m *Master, db *Memory, cmd *Command) []byte {
	args := argv(cmd)
	known := bulk(db.State["known"])
	if merged := mergeKnown(db.State["known"], args[0]); merged != db.State["known"] {
		if err := m.deniesLocked(true, false); err != "" {
			known = failure(err)
		} else {
			db.State["known"] = merged
			known = bulk(merged)
		}
	}
	counters := null
	switch {
	case args[1] == "":
	case db.State["record"] != args[1]:
		counters = failure(notAdmitted)
	default:
		counters = bulk(db.allCounters())
	}
	return []byte("*2\r\n" + known + counters)
}

// allCounters are all counters, in an order of their own so that a run can be repeated to the
// byte.
func (db *Memory) allCounters() string {
	all := make([]string, 0, len(db.Counters))
	for field, n := range db.Counters {
		all = append(all, field+" "+count(n))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// mergeKnown is what known.lua makes of the field known: the higher admission number of each
// master.
func mergeKnown(have, news string) string {
	if news == "" || news == "-" {
		return have
	}
	a, b := strings.Fields(have), strings.Fields(news)
	if len(a) != len(b) || a[0] != b[0] {
		a = b
	}
	for i := 1; i < len(a); i++ {
		if admission(b[i]) > admission(a[i]) {
			a[i] = b[i]
		}
	}
	return strings.Join(a, " ")
}

// admission is the number that a nonce begins with: 0 without one, -1 for none.
func admission(nonce string) int64 {
	digits, _, ok := strings.Cut(nonce, "-")
	switch {
	case nonce == "0":
		return -1
	case !ok:
		return 0
	}
	return int64(number(digits))
}

// runAdmit is admit.lua.
func runAdmit(m *Master, db *Memory, cmd *Command) []byte {
	args := argv(cmd)
	from, empty, to, settings, known, durable, floor, counters := args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7]
	if db.State["record"] != from || empty == "1" && len(db.State)+len(db.Counters) > 0 {
		return []byte(integer(0))
	}
	if err := m.deniesLocked(true, false); err != "" {
		return []byte(failure(err))
	}
	if floor != "" {
		for i := range wire.Slots {
			db.raise(strconv.Itoa(i), number(floor))
		}
	}
	raised := strings.Fields(counters)
	for i := 0; i+1 < len(raised); i += 2 {
		db.raise(raised[i], number(raised[i+1]))
	}
	for name, value := range map[string]string{"settings": settings, "durable": durable} {
		switch value {
		case "-":
		case "":
			delete(db.State, name)
		default:
			db.State[name] = value
		}
	}
	if merged := mergeKnown(db.State["known"], known); merged != "" {
		db.State["known"] = merged
	}
	db.State["record"] = to
	return []byte(integer(1))
}
