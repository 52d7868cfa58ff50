package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
		wire.Packet.Body: {"packet", wire.Packet.SHA, runPacket},
		wire.Probe.Body:  {"probe", wire.Probe.SHA, runProbe},
		wire.Learn.Body:  {"learn", wire.Learn.SHA, runLearn},
		wire.Admit.Body:  {"admit", wire.Admit.SHA, runAdmit},
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
	return []byte(bulk(fmt.Sprintf("%d %d %d\n%s\n%s\n%s\n%s\n%s", now.Unix(), now.Nanosecond()/1000, len(db.State)+len(db.Counters),
		db.State["record"], db.State["settings"], db.State["known"], db.State["durable"], db.State["writes"])))
}

// runLearn is learn.lua.
func runLearn(m *Master, db *Memory, cmd *Command) []byte {
	args := argv(cmd)
	if args[1] == "" || db.State["record"] != args[1] {
		return []byte(failure(notAdmitted))
	}
	known := bulk(db.State["known"])
	if merged := mergeKnown(db.State["known"], args[0]); merged != db.State["known"] {
		if err := m.deniesLocked(true, false); err != "" {
			known = failure(err)
		} else {
			db.State["known"] = merged
			known = bulk(merged)
		}
	}
	top := null
	if args[2] == "1" {
		top = integer(int64(db.topCounter(m.NowLocked())))
	}
	return []byte("*2\r\n" + known + top)
}

// topCounter is the largest counter that is not more than a day ahead of the clock.
func (db *Memory) topCounter(now time.Time) (top uint64) {
	limit := uint64(now.Unix()+86400) * 2048000
	for _, n := range db.Counters {
		if n <= limit {
			top = max(top, n)
		}
	}
	return top
}

// mergeKnown is known.lua: of each master the later nonce stays.
func mergeKnown(have, news string) string {
	if news == "" {
		return have
	}
	a, b := strings.Fields(have), strings.Fields(news)
	if len(a) != len(b) || a[0] != b[0] {
		a = b
	}
	for i := 1; i < len(a); i++ {
		if later(b[i], a[i]) {
			a[i] = b[i]
		}
	}
	return strings.Join(a, " ")
}

func later(a, b string) bool {
	number, writes, id := numbersOf(a)
	number2, writes2, id2 := numbersOf(b)
	return number > number2 || id == id2 && number == number2 && writes > writes2
}

// numbersOf cuts a nonce: its number is 0 without dashes, -1 for none.
func numbersOf(nonce string) (admission int64, writes uint64, id string) {
	word := strings.SplitN(nonce, "-", 3)
	switch {
	case nonce == "0":
		return -1, 0, ""
	case len(word) != 3:
		return 0, 0, nonce
	}
	return int64(number(word[0])), number(word[1]), word[2]
}

// runAdmit is admit.lua.
func runAdmit(m *Master, db *Memory, cmd *Command) []byte {
	args := argv(cmd)
	from, empty, to, settings, known, durable, writes, floor := args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7]
	if db.State["record"] != from || empty == "1" && len(db.State)+len(db.Counters) > 0 {
		return []byte(integer(0))
	}
	if err := m.deniesLocked(true, false); err != "" {
		return []byte(failure(err))
	}
	switch known {
	case "-":
	case "":
		delete(db.State, "known")
	default:
		db.State["known"] = mergeKnown(db.State["known"], known)
	}
	if floor != "" {
		for i := range wire.Slots {
			db.raise(strconv.Itoa(i), number(floor))
		}
	}
	if settings != "-" {
		db.State["settings"] = settings
	}
	switch durable {
	case "-":
	case "":
		delete(db.State, "durable")
	default:
		if db.State["durable"] = durable; db.State["writes"] == "" {
			db.State["writes"] = writes
		}
	}
	db.State["record"] = to
	return []byte(integer(1))
}
