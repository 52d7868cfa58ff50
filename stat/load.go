package stat

import "time"

// Load tells how busy the masters and this process are. Counters only grow.
type Load struct {
	Waiting  int           // LOCKs that wait until they can be sent to the masters
	Running  int           // LOCKs that have been sent and are not decided
	Window   int           // how many may be; it follows the capacity of the masters
	TimedOut uint64        // LOCKs that waited for queue-timeout and were never sent
	LateBy   time.Duration // how late this process was when it last was, for want of processor time; 0: never
	LateAt   time.Time     // when that was; zero: never
}
