//go:build !linux

package commands

import "time"

// suspended is not known here.
func suspended() time.Duration { return 0 }
