package clock

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Suspended returns how long this machine has been suspended since it started. Go's monotonic
// clock stands still meanwhile, while keys on the masters expire. The two clocks are not read at
// one instant, so differences under a millisecond mean nothing.
func Suspended() time.Duration {
	asleep := readSuspended()
	if asleep-time.Duration(suspendedLast.Load()) < time.Millisecond {
		return asleep
	}
	// Either the machine was suspended, or this thread had to wait between the two readings. The
	// latter does not happen three times in a row.
	for range 2 {
		asleep = min(asleep, readSuspended())
	}
	suspendedLast.Store(int64(asleep))
	return asleep
}

// suspendedLast is the last certain result of Suspended.
var suspendedLast atomic.Int64

func readSuspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
