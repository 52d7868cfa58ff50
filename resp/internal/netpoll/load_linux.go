package netpoll

import (
	"time"

	"golang.org/x/sys/unix"
)

// When workers start and rest.
const (
	busyPercent = 80                     // of a core: a worker that uses more is busy
	busyTime    = 100 * time.Millisecond // over which that is measured
	restPercent = 50                     // of what one worker fewer could do: less is idle
	restTime    = 500 * time.Millisecond // for so long it is to be idle
	sampleTime  = 10 * time.Millisecond  // between two samples of a worker, at least: they cost system calls
)

// load decides how many workers run: one more when all that run are busy, one fewer when together they
// are idle for restTime. It has no clock of its own: workers give samples while they run.
type load struct {
	active int             // workers that run
	used   []time.Duration // processor time of each worker since then
	since  time.Time
	idle   time.Duration // how long the workers were idle by then
}

// newLoad returns a load for up to most workers, with one active.
func newLoad(most int, now time.Time) load {
	return load{active: 1, used: make([]time.Duration, most), since: now}
}

// sample tells that worker i used so much processor time since its last sample.
func (l *load) sample(i int, now time.Time, used time.Duration) {
	l.used[i] += used
	past := now.Sub(l.since)
	if past < busyTime {
		return
	}
	allBusy, total := true, time.Duration(0)
	for _, used := range l.used[:l.active] {
		allBusy = allBusy && used*100 > past*busyPercent
		total += used
	}
	if l.active > 1 && total*100 < past*time.Duration(l.active-1)*restPercent {
		l.idle += past
	} else {
		l.idle = 0
	}
	switch {
	case allBusy && l.active < len(l.used):
		l.active++
	case l.idle >= restTime:
		l.active--
		l.idle = 0
	}
	clear(l.used)
	l.since = now
}

// meter measures how much of a core a worker uses. A worker is a goroutine, so its thread may change.
type meter struct {
	at    time.Time     // of the last sample
	cpu   time.Duration // that its thread had used by then
	since time.Time     // the worker runs since then without parking, or since the last sample
	ran   time.Duration // how long it ran from the last sample until then
}

// sample returns how much processor time the worker used since the last sample. ok is false if that was
// just now.
//
// The processor time of the thread includes what other goroutines used there. The time that the
// worker ran includes what other threads took from it. The smaller one counts.
func (m *meter) sample(now time.Time) (used time.Duration, ok bool) {
	if now.Sub(m.at) < sampleTime {
		return 0, false
	}
	cpu := threadTime()
	used = m.ran + now.Sub(m.since)
	if cpu >= m.cpu { // otherwise the thread is another one
		used = min(used, cpu-m.cpu)
	}
	*m = meter{at: now, cpu: cpu, since: now}
	return used, true
}

// threadTime is the processor time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
