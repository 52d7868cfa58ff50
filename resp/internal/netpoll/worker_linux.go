package netpoll

import (
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	eventsAtOnce = 128 // sockets that one look at the epoll set finds, at most
	batchSize    = 16  // sockets that a worker serves in one batch, at most: about a millisecond at worst
	servedInRow  = 64  // sockets that a worker serves before it gives way to goroutines that it does not know of
)

// worker is one goroutine that serves the sockets of Loops.
type worker struct {
	loops   *Loops
	index   int      // among the workers
	set     *os.File // the epoll set; the runtime's poller watches it, so an idle worker is parked
	events  [eventsAtOnce]unix.EpollEvent
	batch   []*Conn // the sockets that are served next
	batches int     // for tests
}

// run works until the set is closed or the worker rests.
func (w *worker) run() {
	defer w.set.Close()
	if raw, err := w.set.SyscallConn(); err == nil {
		_ = raw.Read(func(uintptr) (done bool) { return w.work() })
	}
}

// work serves until no socket is ready or goroutines wait to run. rest: the worker is not needed
// any more.
func (w *worker) work() (rest bool) {
	ls, began := w.loops, time.Now()
	ls.mu.Lock()
	ls.awake++
	ls.mu.Unlock()
	more := w.serve()
	now := time.Now()
	ls.mu.Lock()
	ls.awake--
	ls.load.add(w.index, now, now.Sub(began))
	_ = ls.startLocked() // if the system lets it; it is tried again
	if w.index >= ls.load.active {
		rest = true
		ls.workers[w.index] = nil
	}
	more = more || len(ls.ready) > 0
	ls.mu.Unlock()
	if more {
		ls.wake()
	}
	return rest
}

// serve is work without the accounts. more: the set may have events that the runtime's poller does
// not report again by itself. These, and sockets in the queue, need a nudge.
func (w *worker) serve() (more bool) {
	for all := 0; ; {
		woken := w.loops.woken.Load()
		found, served := w.serveBatch()
		all += served
		more = found == eventsAtOnce
		giveWay := w.loops.woken.Load() != woken || all >= servedInRow
		if giveWay || !more && served == 0 {
			return more
		}
	}
}

// serveBatch looks at the set once and serves a batch from the head of the queue, each socket once.
// It leaves the other workers their share. All are read before any of them is used, so that a
// goroutine or process that they write to is woken once and finds all bytes.
func (w *worker) serveBatch() (found, served int) {
	w.batches++
	found = w.look()
	ls := w.loops
	ls.mu.Lock()
	n := min((len(ls.ready)+ls.load.active-1)/ls.load.active, batchSize)
	w.batch = append(w.batch[:0], ls.ready[:n]...)
	ls.ready = slices.Delete(ls.ready, 0, n)
	ls.mu.Unlock()
	for i, c := range w.batch {
		if !c.fill() {
			w.batch[i] = nil
		}
	}
	for _, c := range w.batch {
		if c != nil {
			c.handle()
		}
	}
	clear(w.batch)
	if ls.afterBatch != nil && n > 0 {
		ls.afterBatch()
	}
	return found, n
}

// look asks the epoll set which sockets are ready and puts these at the end of the queue.
func (w *worker) look() (found int) {
	ls := w.loops
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ls.set),
		uintptr(unsafe.Pointer(&w.events)), eventsAtOnce, 0, 0, 0)
	if errno == syscall.EINTR {
		return eventsAtOnce // it found none, and there may be some
	}
	if errno != 0 {
		return 0
	}
	for _, e := range w.events[:n] {
		var c *Conn // nil: closed since. Or another socket by now, to which the event does no harm.
		ls.mu.Lock()
		if int(e.Fd) < len(ls.conns) {
			c = ls.conns[e.Fd]
		}
		ls.mu.Unlock()
		if c != nil {
			c.event(e.Events)
		}
	}
	return int(n)
}

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
