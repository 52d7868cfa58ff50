package admission

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// Observation is what a lane found on its master: at the end of the handshake, once a second, and
// whenever the master says that its record has changed.
type Observation struct {
	Conn  uint64    // names the connection; never 0, never used again for this master
	Sent  time.Time // when the first question of it was queued
	At    time.Time // when the last answer came
	Facts Facts
	wire.ProbeReply
	Stepped bool // the master's clock has stepped since the lane was last told to forgive it
	Demoted bool // it was a replica in this run, since then
}

// MaxAge is how old the last observation of a master may be when its vote is asked for, counted
// from Observation.Sent. A lane refuses a voting operation where it is older: while the proxy was
// stopped another state of a master may have been announced.
const MaxAge = 2 * time.Second
