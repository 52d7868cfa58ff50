package admission

import "time"

// Observation is what a lane found on its master: at the end of the handshake, once a second, and
// whenever the master says that its record has changed.
type Observation struct {
	Conn  uint64    // names the connection; never 0, never used again for this master
	Sent  time.Time // when the first question of it was queued
	At    time.Time // when the last answer came
	Facts Facts
	Probe
	Stepped bool // the master's clock has stepped since the lane was last told to forgive it
	Demoted bool // it was a replica in this run, since then
}

// Probe is what a master tells of its state hash. It has the fields of wire.ProbeReply.
type Probe struct {
	Clock    time.Duration // what TIME said, since 1970
	Fields   int           // in the hash, counters included
	Record   string        // these four are empty where there is none
	Settings string
	Known    string
	Durable  string
}

// MaxAge is how old the last observation of a master may be when its vote is asked for, counted
// from Observation.Sent. A lane refuses a voting operation where it is older: while the proxy was
// stopped another state of a master may have been announced.
const MaxAge = 2 * time.Second
