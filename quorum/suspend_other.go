//go:build !linux

package quorum

import "time"

// suspended is not known here.
func suspended() time.Duration { return 0 }
