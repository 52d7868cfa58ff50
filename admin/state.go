package admin

import (
	"fmt"
	"strings"
	"time"

	"lockproxy/stat"
)

// Snapshot is the status of everything at one moment. Counters only grow. Names and reasons of
// masters are shown as they are.
type Snapshot struct {
	Masters  []stat.Master
	Upstream UpstreamStatus
	Traffic  stat.Traffic
	Load     stat.Load
	Draining bool // the proxy is ending

	Waiters      int           // clients that wait for a lock
	WaitedKeys   int           // keys that they wait for
	LongestWait  time.Duration // of the client that has waited longest; 0: none waits
	Followers    int           // clients that wait for another holder of a lock
	SessionLocks int           // locks that are renewed for their connection
}

// UpstreamStatus is the status of the upstream, by a PING each second.
type UpstreamStatus struct {
	Name   string
	Up     bool
	Reason string        // why it is not up; empty while it is
	RTT    time.Duration // of the last PING
}

// votes counts the masters.
func (s *Snapshot) votes() stat.Votes { return stat.CountVotes(s.Masters) }

// missing says what keeps the proxy from relaying commands, and with locks from granting locks, a
// line each.
func (s *Snapshot) missing(locks bool) (lines []string) {
	if s.Draining {
		lines = append(lines, "the proxy is ending")
	}
	if v := s.votes(); locks && !v.Majority() {
		lines = append(lines, fmt.Sprintf("%d of %d masters can vote, %d needed", v.Voting, v.Masters, v.Needed()))
		for _, m := range s.Masters {
			if m.State != stat.StateVoting {
				lines = append(lines, "master "+strings.TrimPrefix(m.Name, "master ")+" "+m.Reason)
			}
		}
	}
	if !s.Upstream.Up {
		lines = append(lines, "upstream "+s.Upstream.Name+": "+s.Upstream.Reason)
	}
	return lines
}
