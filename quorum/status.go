package quorum

import (
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// State says what a master is good for at the moment.
type State = admission.State

// The states of a master.
const (
	StateVoting      = admission.StateVoting      // asked by every command
	StateQuarantined = admission.StateQuarantined // reached, and will vote: see MasterStatus.VotesIn and Reason
	StateDown        = admission.StateDown        // not connected; counts as "no answer" at once
	StateRefused     = admission.StateRefused     // reached, but must not vote: see MasterStatus.Reason
)

// MasterStatus says how one master stands.
type MasterStatus = stat.Master

// Suspended returns how long this machine has been suspended since it started: Go's monotonic
// clock stands still meanwhile, while keys on the masters expire.
func Suspended() time.Duration { return clock.Suspended() }

// ReleaseID is what Watch calls the release of the token with that secret. The secret cannot be
// told from it.
func ReleaseID(secret string) string { return wire.ReleaseID(secret) }
