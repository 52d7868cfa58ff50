package admission

import (
	"strconv"
	"strings"
	"time"
)

// recordFormat is the version of everything that is kept in the hash lockproxy:state:<key-prefix>.
const recordFormat = 1

type recordKind uint8

const (
	recordNone    recordKind = iota // never admitted, or flushed
	recordVotes                     // admitted: the master votes for proxies with its fingerprint
	recordNew                       // seen blank while all masters were blank: the deployment is new
	recordMark                      // in quarantine
	recordOff                       // used with Off
	recordUnknown                   // not written by this version
)

// Causes of a quarantine, as they stand in a mark.
const (
	causeNew       = "new"
	causeRestarted = "restarted"
	causeFlushed   = "flushed"
	causeClock     = "clock"
	causeEvicted   = "evicted"
	causeMoved     = "moved"
	causeDemoted   = "replica"
	causeOlder     = "older"
)

// record is the field of the same name on a master, one of
//
//	A <run_id> <fingerprint> <nonce>
//	N <run_id> <nonce>
//	Q <run_id> <nonce> <wait in ms> <flags> <cause> <fingerprint or ->
//	O <fingerprint>
//
// where flags are k (the counters were kept), d (everything was, on disk), o (the operator
// overrides) or -. Whatever changes a record and changes it back leaves another nonce, so a text
// that stands again on one server has stood all along. FLUSHALL, a restart, SWAPDB and another
// server at the address bring old ones back; the number in the nonce shows it.
type record struct {
	kind        recordKind
	runID       string
	fingerprint string // of the proxies that use the master; of a mark: that alone may end it, or empty
	nonce
	wait     time.Duration // of a mark: how long it must have stood
	kept     bool
	durable  bool
	override bool
	cause    string
}

// String is the text on the master.
func (r record) String() string {
	switch r.kind {
	case recordVotes:
		return strings.Join([]string{"A", r.runID, r.fingerprint, r.nonce.String()}, " ")
	case recordNew:
		return strings.Join([]string{"N", r.runID, r.nonce.String()}, " ")
	case recordOff:
		return "O " + r.fingerprint
	case recordMark:
		wait := strconv.FormatInt(r.wait.Milliseconds(), 10)
		return strings.Join([]string{"Q", r.runID, r.nonce.String(), wait, r.flags(), r.cause, orDash(r.fingerprint)}, " ")
	}
	return ""
}

func (r record) flags() (flags string) {
	for _, f := range []struct {
		set  bool
		flag string
	}{{r.kept, "k"}, {r.durable, "d"}, {r.override, "o"}} {
		if f.set {
			flags += f.flag
		}
	}
	return orDash(flags)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// parseRecord reads what stands on a master.
func parseRecord(text string) record {
	word := strings.Split(text, " ")
	switch {
	case text == "":
		return record{}
	case word[0] == "A" && len(word) == 4:
		return record{kind: recordVotes, runID: word[1], fingerprint: word[2], nonce: parseNonce(word[3])}
	case word[0] == "N" && len(word) == 3:
		return record{kind: recordNew, runID: word[1], nonce: parseNonce(word[2])}
	case word[0] == "O" && len(word) == 2:
		return record{kind: recordOff, fingerprint: word[1]}
	case word[0] == "Q" && len(word) == 7:
		ms, err := strconv.ParseInt(word[3], 10, 64)
		if err != nil || ms < 0 || ms > maxWait.Milliseconds() {
			break
		}
		has := func(flag string) bool { return strings.Contains(word[4], flag) }
		return record{kind: recordMark, runID: word[1], nonce: parseNonce(word[2]), wait: time.Duration(ms) * time.Millisecond,
			kept: has("k"), durable: has("d"), override: has("o"), cause: word[5], fingerprint: strings.TrimPrefix(word[6], "-")}
	}
	return record{kind: recordUnknown}
}

// maxWait bounds what is read as the wait of a mark.
const maxWait = 100 * 365 * 24 * time.Hour
