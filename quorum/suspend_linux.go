package quorum

import (
	"time"

	"golang.org/x/sys/unix"
)

// Suspended is how long this machine has been suspended since it started. Go's monotonic clock stands still
// meanwhile, while keys on the masters run out. The two clocks are not read at one instant, so differences under a
// millisecond mean nothing.
func Suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
