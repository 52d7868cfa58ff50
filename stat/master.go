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

// Master is the status of one master. Counters only grow. Its JSON is part of an entry of the
// operators' page, which adds the times.
type Master struct {
	Name    string        `json:"name"`
	State   State         `json:"state"`
	Reason  string        `json:"reason"` // why it does not vote, in plain words; empty while voting
	Since   time.Time     `json:"-"`      // of State
	VotesIn time.Duration `json:"-"`      // until it votes; 0: not known
	RunID   string        `json:"-"`      // of the server last reached; empty before the first
	RTT     time.Duration `json:"-"`      // of the last PING, one a second; 0 before the first
	Ahead   time.Duration `json:"-"`      // the master's clock less ours
	// Slow is the time that its latest late answer took; 0 while it answers in time. A slow master
	// still votes.
	Slow time.Duration `json:"-"`

	Grants      uint64            `json:"grants"`      // acquires granted
	Refusals    uint64            `json:"refusals"`    // acquires refused because the key was there
	Late        uint64            `json:"late"`        // acquires answered long after the majority
	Errors      uint64            `json:"errors"`      // error replies, all kinds
	ByKind      map[string]uint64 `json:"-"`           // Errors by first word ("LOADING"), or nil
	Lost        uint64            `json:"lost"`        // connections that broke while ready for work
	Repairs     int               `json:"-"`           // releases and top-ups not answered yet
	Dropped     uint64            `json:"-"`           // Repairs given up: there were too many
	Unanswered  int               `json:"-"`           // requests on the lane not answered yet
	Quarantines uint64            `json:"quarantines"` // how often this proxy saw it quarantined
	Strays      uint64            `json:"strays"`      // remains of locks, found and deleted
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
