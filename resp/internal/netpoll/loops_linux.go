package netpoll

import (
	"cmp"
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketEvents are the events for which a socket is watched. The kernel reports each once, when it
// happens (EPOLLET), so a socket without a waiter costs no time.
const socketEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

// Pollers watch sockets and serve the ready ones. NewPollers makes them. Safe for concurrent
// use.
type Pollers struct {
	afterBatch atomic.Pointer[func()]
	set        int           // the epoll set, which all workers share
	nudge      int           // an eventfd in the set, never read; a write to it makes a parked worker look
	woken      atomic.Uint32 // counts Yield
	wg         sync.WaitGroup

	mu      sync.Mutex // taken after that of a gate
	conns   []*Socket  // by descriptor
	ready   []*Socket  // the queue; a Socket is in it at most once, in gateRunning
	workers []*worker  // nil: it rests
	awake   int        // how many workers look at ready again before they park
	load    load
	closed  bool
}

// NewPollers returns loops without a socket; they start with the first.
func NewPollers() *Pollers {
	most := runtime.GOMAXPROCS(0)
	return &Pollers{set: -1, nudge: -1, workers: make([]*worker, most),
		load: newLoad(most, time.Now(), processTime)}
}

// AfterBatch sets the function that a worker calls after each batch of sockets that it has served:
// it may write there, at once, all that their callbacks have queued. Several workers may call it
// at a time. It must neither block nor panic.
func (ls *Pollers) AfterBatch(f func()) { ls.afterBatch.Store(&f) }

// Adopt takes over a TCP or Unix socket that package net opened, with the bytes that are unread.
// If it cannot, it returns false and leaves c as it is. Otherwise it closes c, and the Socket is
// to be used in its place.
func (ls *Pollers) Adopt(c net.Conn) (*Socket, bool) {
	fd, err := dup(c)
	if err != nil {
		return nil, false
	}
	k := &Socket{loops: ls, fd: fd, local: c.LocalAddr(), remote: c.RemoteAddr()}
	k.in.ready = true             // it was not tried
	k.untilEmpty.Store(!isTCP(c)) // a read of a Unix socket also ends where descriptors were passed
	if err := ls.add(k); err != nil {
		unix.Close(fd)
		return nil, false
	}
	c.Close() // its own descriptor only
	return k, true
}

// add watches c from now on.
func (ls *Pollers) add(c *Socket) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.openLocked(); err != nil {
		return err
	}
	if err := ls.startLocked(); err != nil {
		return err
	}
	for len(ls.conns) <= c.fd {
		ls.conns = append(ls.conns, nil)
	}
	err := epollAdd(ls.set, c.fd, socketEvents)
	if err == nil {
		ls.conns[c.fd] = c
	}
	return err
}

func epollAdd(set, fd int, events uint32) error {
	return unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// forget is called before a descriptor is closed, which takes it out of the set.
func (ls *Pollers) forget(fd int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.conns[fd] = nil
}

// Yield makes the workers that run return to the scheduler soon. A callback that wakes a
// goroutine calls it, so that the goroutine does not have to wait for the loop. It is not needed
// for goroutines that the package wakes itself, ended callbacks included.
func (ls *Pollers) Yield() { ls.woken.Add(1) }

// Close ends the workers and waits for them. No socket may be left.
func (ls *Pollers) Close() {
	ls.mu.Lock()
	ls.closed = true
	workers := slices.Clone(ls.workers)
	ls.mu.Unlock()
	for _, w := range workers {
		if w != nil {
			w.set.Close() // waits until the worker parks, which needs mu
		}
	}
	ls.wg.Wait()
	for _, c := range ls.ready { // closed while in the queue: its watch is still to end
		c.fill()
	}
	unix.Close(ls.nudge)
	unix.Close(ls.set)
	ls.ready, ls.nudge, ls.set = nil, -1, -1
}

// openLocked makes the epoll set, the first time.
func (ls *Pollers) openLocked() error {
	switch {
	case ls.closed:
		return net.ErrClosed
	case ls.set >= 0:
		return nil
	}
	set, noSet := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	nudge, noNudge := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	err := cmp.Or(noSet, noNudge, epollAdd(set, nudge, unix.EPOLLIN|unix.EPOLLET),
		unix.SetNonblock(set, true)) // so that the runtime's poller takes it
	if err != nil {
		unix.Close(nudge)
		unix.Close(set)
		return err
	}
	ls.set, ls.nudge = set, nudge
	return nil
}

// startLocked starts the workers that should run and do not. Each has its own descriptor of the
// epoll set, because the runtime's poller takes a descriptor only once.
func (ls *Pollers) startLocked() error {
	for i := range ls.load.active {
		if ls.workers[i] != nil || ls.closed {
			continue
		}
		fd, err := unix.FcntlInt(uintptr(ls.set), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		ls.workers[i] = &worker{loops: ls, index: i, set: os.NewFile(uintptr(fd), "epoll")}
		ls.wg.Go(ls.workers[i].run)
	}
	return nil
}

// enqueue puts c at the end of the queue, and makes a worker look if none is awake.
func (ls *Pollers) enqueue(c *Socket) {
	ls.mu.Lock()
	ls.ready = append(ls.ready, c)
	asleep := ls.awake == 0
	ls.mu.Unlock()
	if asleep {
		ls.wake()
	}
}

// wake makes the set ready, so that the runtime's poller wakes a parked worker.
func (ls *Pollers) wake() { _, _ = unix.Write(ls.nudge, nudgeBytes) }

// nudgeBytes is the number 1 in the form that an eventfd takes.
var nudgeBytes = binary.NativeEndian.AppendUint64(nil, 1)

const (
	eventsAtOnce = 128 // sockets that one look at the epoll set finds, at most
	batchSize    = 16  // sockets that a worker serves in one batch, at most: about a millisecond at worst
	servedInRow  = 64  // sockets that a worker serves before it gives way to goroutines that it does not know of
)

// worker is one goroutine that serves the sockets of Pollers.
type worker struct {
	loops   *Pollers
	index   int      // among the workers
	set     *os.File // the epoll set; the runtime's poller watches it, so an idle worker is parked
	events  [eventsAtOnce]unix.EpollEvent
	batch   []*Socket // the sockets that are served next
	batches int       // for tests
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

// serveBatch looks at the set once and serves a batch from the head of the queue, each socket
// once. It leaves the other workers their share. All are read before any of them is used, so that
// a goroutine or process that they write to is woken once and finds all bytes.
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
	if f := ls.afterBatch.Load(); f != nil && n > 0 {
		(*f)()
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
		var c *Socket // nil: closed since. Or another socket by now, to which the event does no harm.
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
