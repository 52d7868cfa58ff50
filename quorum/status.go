package quorum

import "time"

// State is what a master is good for at the moment.
type State string

const (
	StateVoting      State = "voting"      // asked by every command
	StateQuarantined State = "quarantined" // reached, and will vote: see MasterStatus.VotesIn and Reason
	StateDown        State = "down"        // not connected; counts as "no answer" at once
	StateRefused     State = "refused"     // reached, but must not vote: see MasterStatus.Reason
)

// MasterStatus is how one master stood when Masters was called.
type MasterStatus struct {
	Name     string
	State    State
	Reason   string            // why it does not vote, in plain words; empty while voting
	Since    time.Time         // when State last changed
	VotesIn  time.Duration     // until it votes, where that is known; 0 otherwise
	RunID    string            // of the server last reached; empty before the first
	RTT      time.Duration     // of the last PING (once a second); 0 before the first
	Ahead    time.Duration     // the master's clock less ours, as of the last answer that told it
	Grants   uint64            // acquires granted
	Refusals uint64            // acquires refused because the key was there
	Errors   uint64            // error replies, all kinds
	ByKind   map[string]uint64 // error replies by first word ("LOADING"); nil without any
	Lost     uint64            // connections that broke after they had been voting
	Owed     int               // releases and top-ups that the master has not answered yet

	Unanswered  int    // commands on the lane that the master has not answered yet
	Quarantines uint64 // how often it was put in quarantine, as far as this process saw
	Strays      uint64 // keys left by attempts that failed or came late, found on it and deleted
}
