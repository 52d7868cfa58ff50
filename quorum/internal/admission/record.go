package admission

import (
	"fmt"
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

// Causes of a quarantine, in the words of a mark.
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
// where flags are k (counters and known were kept), o (the operator overrides) or -. Every change
// draws a new nonce, so equal texts on one server mean that the record did not change in between.
// FLUSHALL, a restart, SWAPDB and another server at the address bring old records back; the number
// in the nonce shows it.
type record struct {
	kind        recordKind
	runID       string
	fingerprint string // of the proxies that use the master; of a mark: only they may end it, if not empty
	nonce
	wait     time.Duration // of a mark: the largest max-ttl that may have been in use
	kept     bool
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
	if r.kept {
		flags += "k"
	}
	if r.override {
		flags += "o"
	}
	return orDash(flags)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// parseRecord reads the record of a master.
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
		return record{kind: recordMark, runID: word[1], nonce: parseNonce(word[2]),
			wait: time.Duration(ms) * time.Millisecond, kept: has("k"), override: has("o"), cause: word[5],
			fingerprint: strings.TrimPrefix(word[6], "-")}
	}
	return record{kind: recordUnknown}
}

// maxWait bounds the wait that is read from a mark.
const maxWait = 100 * 365 * 24 * time.Hour

// admission names one admission of a master. Its number is the wall clock in milliseconds when the
// mark was written, raised above all numbers known then, so later admissions have greater numbers.
// id is random and distinguishes two servers at one address. The zero value is none.
type admission struct {
	number uint64
	id     string
}

// memoryID is how many digits of an id name the memory of the master: an admission without a wait
// keeps those of the last one.
const memoryID = 9

// sameMemory reports whether one admission follows the other without a wait, or both follow one.
func (a admission) sameMemory(b admission) bool {
	return len(a.id) >= memoryID && len(b.id) >= memoryID && a.id[:memoryID] == b.id[:memoryID]
}

// maxNumber bounds the number that is read.
const maxNumber = 1 << 52

// supersedes reports whether a master that has been admitted as a must no longer vote as b.
func (a admission) supersedes(b admission) bool {
	return a.id != "" && (a.number > b.number || a.number == b.number && a.id != b.id)
}

// later reports whether a replaces b in the memory of a master.
func (a admission) later(b admission) bool {
	return a.id != "" && (b.id == "" || a.number > b.number)
}

// knowledge is what one master has learned of another: its newest admission, and how many packets
// a durable master had counted under it.
type knowledge struct {
	admission
	writes uint64
}

// later reports whether a replaces b in the memory of a master.
func (a knowledge) later(b knowledge) bool {
	return a.admission.later(b.admission) || a.admission == b.admission && a.writes > b.writes
}

// nonce names an admission in a record: "<number>-<evicted>-<id>". The first versions wrote the id
// alone.
type nonce struct {
	admission
	evicted int64 // evicted_keys at admission; -1: not given
}

func (n nonce) String() string {
	if n.evicted < 0 {
		return n.id
	}
	return fmt.Sprintf("%d-%d-%s", n.number, n.evicted, n.id)
}

func parseNonce(text string) nonce {
	word := strings.Split(text, "-")
	if len(word) == 3 {
		number, err := strconv.ParseUint(word[0], 10, 64)
		evicted, err2 := strconv.ParseInt(word[1], 10, 64)
		if err == nil && err2 == nil && number < maxNumber && evicted >= 0 {
			return nonce{admission{number, word[2]}, evicted}
		}
	}
	return nonce{admission{0, text}, -1}
}
