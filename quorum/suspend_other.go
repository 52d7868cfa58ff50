//go:build !linux

package quorum

import "time"

// Suspended is not known here.
func Suspended() time.Duration { return 0 }
