package clock

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Suspended returns how long this machine has been suspended since it started. Go's monotonic
// clock stops during that time, but keys on the masters expire. The two clocks are not read at one
// instant, so differences under a millisecond have no meaning.
func Suspended() time.Duration {
	asleep, last := readSuspended(), lastSuspended()
	switch {
	case asleep < last: // last was not certain after all
		suspendedLast.Store(int64(asleep))
	case asleep-last >= time.Millisecond:
		return noteSuspended()
	}
	return asleep
}

// lastSuspended is the last certain result of Suspended. It takes no system call.
func lastSuspended() time.Duration { return time.Duration(suspendedLast.Load()) }

var suspendedLast atomic.Int64

func init() { noteSuspended() }

// noteSuspended sets what lastSuspended returns. If a reading is larger than before, either the
// machine was suspended, or this thread had to wait between the two clocks. The latter does not
// happen three times in a row.
func noteSuspended() time.Duration {
	asleep := min(readSuspended(), readSuspended(), readSuspended())
	suspendedLast.Store(int64(asleep))
	return asleep
}

func readSuspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
