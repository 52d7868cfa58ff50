package quorum

import (
	"errors"
	"fmt"
	"time"
)

// Reasons why a master that is connected does not vote.
var (
	errUnknownRecord = errors.New("has a record of another version of lockproxy")
	errMoving        = errors.New("is being moved to proxies with other settings")
	errWaitsForAll   = errors.New("is new and waits for the other masters")
)

// mayEvictError: the policy of a master that would throw locks away.
type mayEvictError string

func (e mayEvictError) Error() string {
	return fmt.Sprintf("may evict locks (maxmemory-policy %s, not noeviction)", string(e))
}

// quarantine is the reason of a master that is kept out of the vote until it can hold nothing against anybody.
type quarantine struct {
	cause string
	since time.Time // this proxy saw the mark first
	until time.Time // zero: when waits is over
	waits string    // what it waits for when its time is over; empty for nothing
}

// What a master may wait for when its time is over.
const (
	waitsForOthers = "waits until no master belongs to proxies with other settings"
	countersAhead  = "has fencing counters ahead of the clock, LOCKPROXY ADMIT lets it vote"
)

var causeWords = map[string]string{
	causeNew: "is new or lost its memory, seen", causeRestarted: "restarted", causeFlushed: "lost its memory", causeClock: "stepped its clock",
	causeEvicted: "evicted keys", causeMoved: "was moved by LOCKPROXY ADMIT", causeDemoted: "was a replica",
}

// Error tells how long ago and how much longer, as of now, in whole seconds.
func (e *quarantine) Error() string {
	words := causeWords[e.cause]
	if words == "" {
		words = "was put in quarantine"
	}
	text := fmt.Sprintf("%s %ds ago, ", words, int(time.Since(e.since).Seconds()))
	if e.waits != "" {
		return text + e.waits
	}
	return text + fmt.Sprintf("votes in %ds", int((max(time.Until(e.until), 0)+time.Second-1)/time.Second))
}

// topic is the text without what changes by itself.
func (e *quarantine) topic() string { return e.cause + " " + e.waits }
