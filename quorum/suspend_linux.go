package quorum

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Suspended is how long this machine has been suspended since it started. Go's monotonic clock stands still
// meanwhile, while keys on the masters run out. The two clocks are not read at one instant, so differences under a
// millisecond mean nothing.
func Suspended() time.Duration {
	asleep := readSuspended()
	if asleep-time.Duration(suspendedLast.Load()) < time.Millisecond {
		return asleep
	}
	// Either it was, or this thread had to wait between the two, which makes it longer: that does not come thrice.
	for range 2 {
		asleep = min(asleep, readSuspended())
	}
	suspendedLast.Store(int64(asleep))
	return asleep
}

// suspendedLast is what Suspended found when it last was sure.
var suspendedLast atomic.Int64

func readSuspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
