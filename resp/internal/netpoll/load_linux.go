package netpoll

import (
	"time"

	"golang.org/x/sys/unix"
)

// When workers start and rest.
const (
	busyPercent = 80                     // of a core: more is busy
	busyTime    = 100 * time.Millisecond // the time over which that is measured
	restPercent = 50                     // of what one worker fewer could do: less is idle
	restTime    = 500 * time.Millisecond // how long it must be idle
)

// load decides how many workers run: one more when all that run are busy, one fewer when together
// they are idle for restTime.
type load struct {
	active  int                  // workers that run
	cpuTime func() time.Duration // processor time that the process has used
	since   time.Time            // beginning of the measured time
	cpu     time.Duration        // cpuTime by then
	ran     []time.Duration      // of each worker: how long it was awake since then
	idle    time.Duration        // how long the workers had been idle by then
}

// newLoad returns a load for up to most workers, with one active.
func newLoad(most int, now time.Time, cpuTime func() time.Duration) load {
	return load{active: 1, cpuTime: cpuTime, since: now, cpu: cpuTime(), ran: make([]time.Duration, most)}
}

// add notes that worker i was awake for so long, until now. The worker counts as busy in that
// time, if the process got the processors for it: otherwise other processes have them.
func (l *load) add(i int, now time.Time, ran time.Duration) {
	l.ran[i] += ran
	past := now.Sub(l.since)
	if past < busyTime {
		return
	}
	cpu := l.cpuTime()
	allBusy, total := (cpu-l.cpu)*100 > past*time.Duration(l.active)*busyPercent, time.Duration(0)
	for _, ran := range l.ran[:l.active] {
		allBusy = allBusy && ran*100 > past*busyPercent
		total += ran
	}
	l.idle += past
	if l.active == 1 || total*100 >= past*time.Duration(l.active-1)*restPercent {
		l.idle = 0
	}
	switch {
	case allBusy && l.active < len(l.ran):
		l.active++
	case l.idle >= restTime:
		l.active--
		l.idle = 0
	}
	clear(l.ran)
	l.since, l.cpu = now, cpu
}

// processTime is the processor time that all threads have used.
func processTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
