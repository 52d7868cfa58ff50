package quorum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
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
	recordOpening                   // seen blank while all masters were blank: the deployment is new
	recordMark                      // in quarantine
	recordOff                       // used with GuardOff
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
)

// record is the field of the same name on a master, one of
//
//	A <run_id> <fingerprint> <nonce>
//	N <run_id> <nonce>
//	Q <run_id> <nonce> <wait in ms> <flags> <cause> <fingerprint or ->
//	O <fingerprint>
//
// where flags are k (the counters were kept), o (the operator overrides) or -. A nonce is random: whatever changes a record
// and changes it back leaves another one, so a text that stands again has stood all along. Only FLUSHALL and a restart bring
// anything old back, and after a restart the run_id is another.
type record struct {
	kind        recordKind
	runID       string
	fingerprint string // of the proxies that use the master; of a mark: that alone may end it, or empty
	nonce       string
	wait        time.Duration // of a mark: how long it must have stood
	kept        bool
	override    bool
	cause       string
}

// String is the text on the master.
func (r record) String() string {
	switch r.kind {
	case recordVotes:
		return strings.Join([]string{"A", r.runID, r.fingerprint, r.nonce}, " ")
	case recordOpening:
		return strings.Join([]string{"N", r.runID, r.nonce}, " ")
	case recordOff:
		return "O " + r.fingerprint
	case recordMark:
		flags, only := "", r.fingerprint
		if r.kept {
			flags += "k"
		}
		if r.override {
			flags += "o"
		}
		if flags == "" {
			flags = "-"
		}
		if only == "" {
			only = "-"
		}
		return strings.Join([]string{"Q", r.runID, r.nonce, strconv.FormatInt(r.wait.Milliseconds(), 10), flags, r.cause, only}, " ")
	}
	return ""
}

// parseRecord reads what stands on a master.
func parseRecord(text string) record {
	if text == "" {
		return record{}
	}
	unknown := record{kind: recordUnknown}
	word := strings.Split(text, " ")
	switch {
	case word[0] == "A" && len(word) == 4:
		return record{kind: recordVotes, runID: word[1], fingerprint: word[2], nonce: word[3]}
	case word[0] == "N" && len(word) == 3:
		return record{kind: recordOpening, runID: word[1], nonce: word[2]}
	case word[0] == "O" && len(word) == 2:
		return record{kind: recordOff, fingerprint: word[1]}
	case word[0] == "Q" && len(word) == 7:
		ms, err := strconv.ParseInt(word[3], 10, 64)
		if err != nil || ms < 0 || ms > maxWait.Milliseconds() {
			return unknown
		}
		r := record{kind: recordMark, runID: word[1], nonce: word[2], wait: time.Duration(ms) * time.Millisecond, cause: word[5],
			kept: strings.Contains(word[4], "k"), override: strings.Contains(word[4], "o")}
		if word[6] != "-" {
			r.fingerprint = word[6]
		}
		return r
	}
	return unknown
}

// maxWait bounds what is read as the wait of a mark.
const maxWait = 100 * 365 * 24 * time.Hour

// settings are what all proxies of a deployment must agree on, by name, in the order in which they are compared.
type settings []setting

type setting struct{ name, value string }

// settingsOf are those of o.
func settingsOf(o *Options) settings {
	masters := make([]string, len(o.Masters))
	for i := range o.Masters {
		masters[i] = url.QueryEscape(o.Masters[i].id())
	}
	slices.Sort(masters)
	onOff := map[bool]string{true: "on", false: "off"}
	return settings{
		{"format", strconv.Itoa(recordFormat)},
		{"max-ttl", strconv.FormatInt(o.MaxTTL.Milliseconds(), 10) + "ms"},
		{"fencing", onOff[o.Fencing]},
		{"restart-guard", onOff[o.Guard != GuardOff]},
		{"key-prefix", url.QueryEscape(o.KeyPrefix)},
		{"masters", strings.Join(masters, ",")},
	}
}

// String is their text on a master: name=value, separated by blanks, without control bytes.
func (s settings) String() string {
	words := make([]string, len(s))
	for i, one := range s {
		words[i] = one.name + "=" + one.value
	}
	return strings.Join(words, " ")
}

// fingerprint is 16 hex digits that differ where the settings do.
func (s settings) fingerprint() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:8])
}

func parseSettings(text string) settings {
	var s settings
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		s = append(s, setting{name, value})
	}
	return s
}

func (s settings) value(name string) string {
	for _, one := range s {
		if one.name == name {
			return one.value
		}
	}
	return ""
}

// maxTTL is the max-ttl among s, 0 if it cannot be read.
func (s settings) maxTTL() time.Duration {
	d, err := time.ParseDuration(s.value("max-ttl"))
	if err != nil || d < 0 || d > maxWait {
		return 0
	}
	return d
}

// otherSettings is the reason of a master that belongs to proxies with other settings. It names the settings, without the
// addresses of masters.
type otherSettings struct{ theirs, ours settings }

func (e *otherSettings) Error() string {
	var differ []string
	for _, our := range e.ours {
		their := e.theirs.value(our.name)
		switch {
		case their == our.value:
		case our.name == "masters":
			differ = append(differ, "another list of masters")
		case their == "":
			differ = append(differ, "another "+our.name)
		default:
			differ = append(differ, fmt.Sprintf("%s %s (here %s)", our.name, their, our.value))
		}
	}
	if len(differ) == 0 {
		differ = append(differ, "other settings")
	}
	return "belongs to proxies with " + strings.Join(differ, ", ")
}
