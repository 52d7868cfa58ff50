// Package stat defines the data that lockproxy shows to operators: events, and the status of
// masters, clients and locks. It is a leaf. Each counter has one field here on its way to
// /metrics, LOCKPROXY MASTERS and lockproxy status.
package stat

import (
	"fmt"
	"time"
)

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

// Master is the status of one master. Counters only grow.
type Master struct {
	Name    string
	State   State
	Reason  string        // why it does not vote, in plain words; empty while voting
	Since   time.Time     // of State
	VotesIn time.Duration // until it votes; 0: not known
	RunID   string        // of the server last reached; empty before the first
	RTT     time.Duration // of the last PING, one a second; 0 before the first
	Ahead   time.Duration // the master's clock less ours
	Slow    time.Duration // how long its latest late answer took; 0 while it answers in time. A slow master still votes

	Grants      uint64            // acquires granted
	Refusals    uint64            // acquires refused because the key was there
	Late        uint64            // answers to acquires that came long after the majority had decided
	Errors      uint64            // error replies, all kinds
	ByKind      map[string]uint64 // error replies by first word ("LOADING"); nil without any
	Lost        uint64            // connections that broke while ready for work
	Repairs     int               // repairs (releases and top-ups) that are not answered yet
	Dropped     uint64            // repairs given up as there were too many
	Unanswered  int               // requests on the lane that are not answered yet
	Quarantines uint64            // how often this proxy saw it put in quarantine
	Strays      uint64            // remains of failed or lost locks that were found on it and deleted
}

// IsSlow reports whether the master votes, but later than the majority needs.
func (m *Master) IsSlow() bool { return m.State == StateVoting && m.Slow > 0 }

// Why returns Reason, or for a slow master how slow it is, in plain words.
func (m *Master) Why() string {
	if !m.IsSlow() {
		return m.Reason
	}
	return fmt.Sprintf("answers in %d ms, later than the majority needs", m.SlowMillis())
}

// SlowMillis returns Slow in milliseconds, rounded up so that 0 is for a master in time.
func (m *Master) SlowMillis() int64 { return ceilMillis(m.Slow) }

func ceilMillis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }
