package admission

import "lockproxy/stat"

// State is what a master is good for.
type State = stat.State

// The states of a master.
const (
	StateVoting      = stat.StateVoting
	StateQuarantined = stat.StateQuarantined
	StateDown        = stat.StateDown
	StateRefused     = stat.StateRefused
)

// Mode says what happens to a master that may have lost its memory: one that restarted, was
// flushed, stepped its clock or went back to an older state. Off must be chosen by all proxies of
// a deployment or by none.
type Mode uint8

const (
	On     Mode = iota // it stays out of the vote for MaxTTL and a margin; masters that are all new vote at once
	Strict             // as On, and new masters wait as well
	Off                // it votes at once, and may grant a lock twice
)
