// Package stat is what the parts of lockproxy tell operators: events, and how masters, clients and
// locks stand. It is a leaf, so that each counter has one field on its way to /metrics, LOCKPROXY
// and lockproxy status.
package stat

import "time"

// State says whether a master votes, and if not, why.
type State string

// The states of a master.
const (
	StateVoting      State = "voting"      // asked by every command
	StateQuarantined State = "quarantined" // reached, and will vote
	StateDown        State = "down"        // not connected; counts as "no answer" at once
	StateRefused     State = "refused"     // reached, but must not vote
)

// States returns all states of a master.
func States() []State { return []State{StateVoting, StateQuarantined, StateDown, StateRefused} }

// Master is how one master stands. Counters only grow.
type Master struct {
	Name    string
	State   State
	Reason  string        // why it does not vote, in plain words; empty while voting
	Since   time.Time     // when State last changed
	VotesIn time.Duration // until it votes, where that is known; 0 otherwise
	RunID   string        // of the server last reached; empty before the first
	RTT     time.Duration // of the last PING (once a second); 0 before the first
	Ahead   time.Duration // the master's clock less ours, as of the last answer that told it

	Grants      uint64            // acquires granted
	Refusals    uint64            // acquires refused because the key was there
	Errors      uint64            // error replies, all kinds
	ByKind      map[string]uint64 // error replies by first word ("LOADING"); nil without any
	Lost        uint64            // connections that broke after they had been ready for work
	Owed        int               // repairs: releases and top-ups that the master has not answered yet
	Dropped     uint64            // repairs given up as there were too many
	Unanswered  int               // requests on the lane that the master has not answered yet
	Quarantines uint64            // how often it was put in quarantine, as far as this process saw
	Strays      uint64            // remains of locks that failed or were lost, found on it and ended
}
