package admission

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// Observation holds the findings of a lane on its master: at the end of the handshake, once a
// second, and whenever the master says that its record has changed.
type Observation struct {
	Conn       uint64    // names the connection; never 0, never used again for this master
	Sent       time.Time // when the first command of it was queued
	At         time.Time // when the last answer came
	ServerInfo ServerInfo
	wire.ProbeReply
	Stepped bool // the master's clock has stepped since the last ActForgive
	Demoted bool // it was a replica in this run, since then
}

// MaxAge is how old the observations may be that a vote rests on, counted from Observation.Sent:
// of the master itself and the masters that confirm its admission. A lane does not count a vote
// that was asked for later: others may have learned of another admission meanwhile.
const MaxAge = 2 * time.Second
