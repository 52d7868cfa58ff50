package quorum

import (
	"time"

	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
)

// Suspended returns how long this machine has been suspended since it started: Go's monotonic
// clock stands still meanwhile, while keys on the masters expire.
func Suspended() time.Duration { return clock.Suspended() }

// ReleaseID is what Watch calls the release of the token with that secret. The secret cannot be
// told from it.
func ReleaseID(secret string) string { return wire.ReleaseID(secret) }
