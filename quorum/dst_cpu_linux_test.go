package quorum

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is how long this process has been at work. On a machine that others use too it
// says more than the clock.
func processorTime() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
