package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Reasons why a master that is connected does not vote.
var (
	errWaitsForAll = errors.New("is new and waits for the other masters")
	errProbing     = errors.New("has just been reached")
)

// mayEvictError: the policy of a master that would throw locks away.
type mayEvictError string

func (e mayEvictError) Error() string {
	return fmt.Sprintf("may evict locks (maxmemory-policy %s, not noeviction)", string(e))
}

// Named is a reason that names masters. Its Error is for operators, and may end with a LOCKPROXY
// ADMIT to send. Text is for clients: it does not advise ADMIT, which stops the locks of others.
// name gives other names for the masters; nil: their own.
type Named interface {
	error
	Text(name func(master int) string) string
}

// naming is a Named in words that do not change.
type naming struct {
	names  []string
	text   func(name func(master int) string) string
	remedy string // for operators
}

// Naming returns a reason with these names of masters in it.
func Naming(names []string, text func(name func(master int) string) string) Named {
	return &naming{names: names, text: text}
}

// Error implements error.
func (e *naming) Error() string { return e.Text(nil) + e.remedy }

// Text implements Named.
func (e *naming) Text(name func(master int) string) string {
	if name == nil {
		name = func(i int) string { return e.names[i] }
	}
	return e.text(name)
}

// Quarantine is the reason of a master that stays out of the vote until the locks that it may have
// forgotten have expired.
type Quarantine struct {
	Cause string
	Since time.Time // this proxy saw the mark first
	Until time.Time // when the master votes; zero while it waits for something else

	condition
	master int
	names  []string
}

// condition names the masters or events that a quarantine waits for besides time.
type condition struct {
	waits   waits
	needed  int   // how many masters it waits for
	missing []int // masters that cannot be reached, or belong to others
}

// waits names the condition, besides time, that a master waits for.
type waits uint8

const (
	waitsForNothing waits = iota
	waitsForMasters
	waitsForCounters
	waitsForMoves
	waitsForClock
	waitsForOperator
)

var causeWords = map[string]string{
	causeNew: "is new or lost its memory, seen", causeRestarted: "restarted", causeFlushed: "lost its memory",
	causeClock: "stepped its clock", causeEvicted: "evicted keys", causeMoved: "was moved by LOCKPROXY ADMIT",
	causeDemoted: "was a replica", causeOlder: "went back to an older state",
}

// Error says how long ago and how much longer, in whole seconds from now.
func (q *Quarantine) Error() string {
	name := func(i int) string { return q.names[i] }
	text, start := q.text(name)
	switch admit := "LOCKPROXY ADMIT "; {
	case q.waits == waitsForNothing:
		return text
	case q.waits == waitsForMoves:
		return text + ": " + admit + strings.Join(q.missingNames(name), ", "+admit)
	case start == "":
		return text + ": " + admit + name(q.master)
	default:
		return text + ": " + start + ", or " + admit + name(q.master)
	}
}

// Text implements Named.
func (q *Quarantine) Text(name func(master int) string) string {
	if name == nil {
		name = func(i int) string { return q.names[i] }
	}
	text, start := q.text(name)
	if start != "" {
		text += ": " + start
	}
	return text
}

// text returns the reason, and what helps beside ADMIT, if anything does.
func (q *Quarantine) text(name func(master int) string) (text, help string) {
	words := causeWords[q.Cause]
	if words == "" {
		words = "was put in quarantine"
	}
	text = fmt.Sprintf("%s %ds ago, ", words, int(time.Since(q.Since).Seconds()))
	missing := q.missingNames(name)
	if len(missing) > 0 {
		help = "start " + strings.Join(missing, ", ")
	}
	switch q.waits {
	case waitsForNothing:
		return text + fmt.Sprintf("votes in %ds", int((max(time.Until(q.Until), 0)+time.Second-1)/time.Second)), ""
	case waitsForOperator:
		return text + "no master has kept its memory", ""
	case waitsForMasters:
		more := "to be reached"
		if len(missing) == 0 {
			more = "that kept their memory"
		}
		return text + fmt.Sprintf("waits for %d more %s", q.needed, more), help
	case waitsForCounters:
		return text + fmt.Sprintf("waits for the fencing counters of %d more", q.needed), help
	case waitsForMoves:
		return text + "waits until no master belongs to proxies with other settings", ""
	}
	const clocks = "set the clocks right"
	if help == "" {
		return text + "has fencing counters ahead of the clock", clocks
	}
	return text + "has fencing counters ahead of the clock", clocks + ", or " + help
}

// missingNames are the names of the masters that the quarantine waits for.
func (q *Quarantine) missingNames(name func(master int) string) (all []string) {
	for _, i := range q.missing {
		all = append(all, name(i))
	}
	return all
}

// Topic is the text without what changes by itself: equal for reasons that differ only in times.
func (q *Quarantine) Topic() string { return fmt.Sprint(q.Cause, q.waits) }
