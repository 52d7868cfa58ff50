package admin

import (
	"fmt"
	"strings"
	"time"
)

// State is how everything stands at one moment. Counters only grow.
type State struct {
	Masters  []Master
	Upstream Upstream
	Traffic  Traffic
	Draining bool // the proxy is ending

	Waiters      int // clients that wait for a lock
	WaitedKeys   int // keys that they wait for
	SessionLocks int // locks that are renewed for their connection
}

// Master is how one master stands. Its name and reason are shown as they are: they hold nothing that operators must not see.
type Master struct {
	Name        string
	State       string // one of MasterStates
	Reason      string // why it does not vote; empty while it does
	RunID       string
	Since       time.Time     // of State
	VotesIn     time.Duration // until it votes, where that is known; 0 otherwise
	RTT         time.Duration // of the last PING; 0 before the first
	Ahead       time.Duration // its clock less ours
	Grants      uint64
	Refusals    uint64
	Errors      map[string]uint64 // error replies by first word
	Lost        uint64            // connections that broke
	Quarantines uint64
	Strays      uint64 // keys of failed attempts that were found and deleted
	Owed        int    // releases and top-ups not answered yet
	Dropped     uint64 // of these: given up, as there were too many
	Unanswered  int    // commands not answered yet
}

// MasterStates are the states of a master.
var MasterStates = []string{voting, "quarantined", "down", "refused"}

const voting = "voting"

// Upstream is how the upstream stands, as a PING a second tells.
type Upstream struct {
	Name   string
	Up     bool
	Reason string        // why it is not; empty while it is
	RTT    time.Duration // of the last PING
}

// Traffic is what the relay has carried.
type Traffic struct {
	Clients    int    // connected
	Upstreams  int    // connections to the upstream
	Unanswered uint64 // commands
	Accepted   uint64 // connections
	Refused    uint64 // connections
	Received   uint64 // bytes, from clients
	Sent       uint64 // bytes, to clients
	Commands   uint64
}

// voting is how many masters vote.
func (s *State) voting() (n int) {
	for _, m := range s.Masters {
		if m.State == voting {
			n++
		}
	}
	return n
}

// needed is how many must.
func (s *State) needed() int { return len(s.Masters)/2 + 1 }

// missing says what keeps clients from being served, a line each; nothing if all is there.
func (s *State) missing() (lines []string) {
	if s.Draining {
		lines = append(lines, "the proxy is ending")
	}
	if n := s.voting(); n < s.needed() {
		lines = append(lines, fmt.Sprintf("%d of %d masters can vote, %d needed", n, len(s.Masters), s.needed()))
		for _, m := range s.Masters {
			if m.State != voting {
				lines = append(lines, "master "+strings.TrimPrefix(m.Name, "master ")+" "+m.Reason)
			}
		}
	}
	if !s.Upstream.Up {
		lines = append(lines, "upstream "+s.Upstream.Name+": "+s.Upstream.Reason)
	}
	return lines
}
