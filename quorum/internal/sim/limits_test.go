package sim

import "time"

// The documents promise these limits. They are written down once more: the simulation shares no
// code with the product it judges.

// mostMasters is how many masters a run has at most.
const mostMasters = 5

const (
	maxRetries    = 4 // after split votes
	maxAskAgain   = 8 // after answers that count neither way
	maxRetryDelay = 50 * time.Millisecond
	maxIntent     = 1500 * time.Millisecond
	// heldForAWhile is the longest hold that costs a master two scripts, even if answers are late. A
	// lock that is held for longer may be checked.
	heldForAWhile = time.Second
	mostOf        = 4 // a lane takes so many acquires times the window
)

// majority is how many of n masters decide.
func majority(n int) int { return n/2 + 1 }

// attemptTime bounds an attempt, and each of its rounds.
func attemptTime(ttl time.Duration) time.Duration {
	return max(min(ttl/4, time.Second), 2*time.Millisecond)
}

// drift is by how much clocks that are right may differ at the end of a ttl.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
