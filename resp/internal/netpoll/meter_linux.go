package netpoll

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// sampleTime is how much time lies between two samples, at least: they cost two system calls.
const sampleTime = 10 * time.Millisecond

// meter measures how much of a core a worker uses. A worker is a goroutine, so its thread may change.
type meter struct {
	at     time.Time     // of the last sample
	thread int           // on which that was
	cpu    time.Duration // that this thread had used by then
	since  time.Time     // the worker runs since then without parking, or since the last sample
	ran    time.Duration // how long it ran from the last sample until then
}

// begin is called when the worker begins to run.
func (m *meter) begin(now time.Time) { m.since = now }

// end is called when the worker parks.
func (m *meter) end(now time.Time) { m.ran += now.Sub(m.since) }

// sample returns how much processor time the worker used since the last sample, at most, and how long
// ago that was. ok is false if that was just now.
//
// The processor time of the thread includes what other goroutines used there. The time that the
// worker ran includes what other threads took from it. The smaller one counts.
func (m *meter) sample(now time.Time) (wall, cpu time.Duration, ok bool) {
	wall = now.Sub(m.at)
	if wall < sampleTime {
		return 0, 0, false
	}
	runtime.LockOSThread() // both calls are to see the same thread
	thread, used := unix.Gettid(), threadTime()
	runtime.UnlockOSThread()
	cpu = m.ran + now.Sub(m.since)
	if thread == m.thread && used >= m.cpu { // not a new thread with an old number
		cpu = min(cpu, used-m.cpu)
	}
	*m = meter{at: now, thread: thread, cpu: used, since: now}
	return wall, cpu, true
}

// threadTime is the processor time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
