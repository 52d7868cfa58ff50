package quorum

import (
	"sync"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// claims remembers which server each lane is connected to, so that no two lanes count the votes
// of one server. Safe for concurrent use.
type claims struct {
	mu     sync.Mutex
	runIDs []string // by lane; empty if the lane is not connected
}

// Claim notes that a lane is connected to the server with that run id. If another lane is, it
// returns that lane and changes no claim.
func (c *claims) Claim(runID string, lane int) (other int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range c.runIDs {
		if id == runID && i != lane {
			return i, false
		}
	}
	c.runIDs[lane] = runID
	return lane, true
}

// Unclaim notes that a lane is not connected.
func (c *claims) Unclaim(lane int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runIDs[lane] = ""
}

// host gives the reports of lanes to the parts of a Quorum that act on them.
type host struct {
	claims
	q *Quorum
}

var _ master.Host = (*host)(nil)

func newHost(q *Quorum) *host { return &host{claims{runIDs: make([]string, len(q.opts.Masters))}, q} }

// Flush implements master.Host.
func (h *host) Flush() { h.q.Flush() }

// Drained implements master.Host.
func (h *host) Drained() { h.q.calls.wake() }

// Ponged implements master.Host. Under overload a PING waits in queues, and its round trip says
// little about the master.
func (h *host) Ponged(lane int, rtt time.Duration) {
	f := h.q.fleet
	if rtt > f.opts.MasterTimeout && f.lateness.during(rtt) == 0 && !h.q.intake.overloaded() {
		f.lanes[lane].NoteLate(rtt, false)
	}
}

// Observed implements master.Host.
func (h *host) Observed(lane int, o admission.Observation) {
	m := h.q.members
	m.update(func() { m.rules.Observe(lane, o) })
}

// Lost implements master.Host.
func (h *host) Lost(lane int, writes uint64) {
	m := h.q.members
	m.update(func() { m.rules.Lost(lane, writes) })
}

// Landed implements master.Host.
func (h *host) Landed(lane int, t wire.TokenAt, voters uint64, voted time.Time) {
	h.q.checks.add(lane, t, voters, voted)
}

// ReleasedLate implements master.Host.
func (h *host) ReleasedLate(t wire.TokenAt, missing uint64) { h.q.fleet.releaseAt(t, missing) }
