//go:build !linux

package clock

import "time"

// Suspended returns 0: it is not known on this system.
func Suspended() time.Duration { return 0 }

func lastSuspended() time.Duration { return 0 }
