package netpoll

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventsAtOnce is how many sockets one look at the epoll set tells of, and how many one turn serves.
const eventsAtOnce = 128

// servedInRow is how many sockets a worker serves before it gives way to goroutines that it does not
// know of.
const servedInRow = 64

// A turn ends after turnTime: the epoll set is looked at again before the rest is served. Reading
// ends before that, so that most of what was read is also used.
const (
	readTime = turnTime / 2
	turnTime = time.Millisecond
)

// worker is one goroutine that serves the sockets of Loops.
type worker struct {
	loops  *Loops
	index  int      // among the workers
	set    *os.File // the epoll set; the runtime's poller watches it, so an idle worker is parked
	meter  meter
	events [eventsAtOnce]unix.EpollEvent
	found  [eventsAtOnce]*Conn // whose the events are
	batch  [eventsAtOnce]*Conn // what the turn serves
}

// run works until the set is closed or the worker rests.
func (w *worker) run() {
	defer w.set.Close()
	raw, err := w.set.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(uintptr) (done bool) { return w.work() })
}

// work serves until there is nothing or others are to run. rest: the worker is not needed any more.
func (w *worker) work() (rest bool) {
	ls := w.loops
	w.enter()
	for all := 0; ; {
		woken := ls.woken.Load()
		found, served := w.turn()
		all += served
		more := found == eventsAtOnce
		giveWay := ls.woken.Load() != woken || ls.busy() || all >= servedInRow
		if giveWay || !more && served == 0 {
			return w.leave(more)
		}
	}
}

// enter notes that the worker is awake.
func (w *worker) enter() {
	w.meter.begin(time.Now())
	w.loops.mu.Lock()
	w.loops.awake++
	w.loops.mu.Unlock()
}

// leave notes that the worker parks, or rests. more: the set may have events of which the runtime's
// poller does not tell again by itself. These, and what is in the queue, need a nudge.
func (w *worker) leave(more bool) (rest bool) {
	ls := w.loops
	w.meter.end(time.Now())
	ls.mu.Lock()
	ls.awake--
	more = more || ls.ready.n > 0
	if w.index >= ls.load.active {
		rest = true
		ls.workers[w.index] = nil
	}
	ls.mu.Unlock()
	if more {
		ls.wake()
	}
	return rest
}

// turn looks at the set once and serves what is in the queue, each socket once.
func (w *worker) turn() (found, served int) {
	start := time.Now()
	if wall, cpu, ok := w.meter.sample(start); ok {
		w.loops.sampled(w.index, start, wall, cpu)
	}
	found = w.look()
	served = w.take()
	w.serve(w.batch[:served], start)
	return found, served
}

// look asks the epoll set which sockets are ready and puts these at the end of the queue.
func (w *worker) look() (found int) {
	ls := w.loops
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ls.set),
		uintptr(unsafe.Pointer(&w.events)), eventsAtOnce, 0, 0, 0)
	switch errno {
	case 0:
	case syscall.EINTR:
		return eventsAtOnce // it told of none, and there may be some
	default:
		return 0
	}
	if n == 0 {
		return 0
	}
	conns := w.found[:n]
	ls.mu.Lock()
	for i, e := range w.events[:n] {
		if int(e.Fd) < len(ls.conns) {
			// nil: closed since. Or another socket by now, to which the event does no harm.
			conns[i] = ls.conns[e.Fd]
		}
	}
	ls.mu.Unlock()
	for i, c := range conns {
		if c != nil && !c.event(w.events[i].Events) {
			conns[i] = nil
		}
	}
	ls.mu.Lock()
	for _, c := range conns {
		if c != nil {
			ls.ready.push(c)
		}
	}
	ls.mu.Unlock()
	clear(conns)
	return int(n)
}

// take moves what is in the queue to the batch. It leaves the other workers their share.
func (w *worker) take() (n int) {
	ls := w.loops
	ls.mu.Lock()
	defer ls.mu.Unlock()
	share := (ls.ready.n + ls.load.active - 1) / ls.load.active
	n = min(share, eventsAtOnce)
	for i := range n {
		w.batch[i] = ls.ready.pop()
	}
	return n
}

// serve reads all sockets of the batch before any of them is used, so that whoever is written to is
// woken once and finds all of it. What it does not get to in time goes back to the head of the queue,
// read or not.
func (w *worker) serve(batch []*Conn, start time.Time) {
	read := 0
	for read < len(batch) && (read == 0 || time.Since(start) < readTime) {
		if !batch[read].fill() {
			batch[read] = nil
		}
		read++
	}
	used := 0
	for used < read && (used == 0 || time.Since(start) < turnTime) {
		if c := batch[used]; c != nil && !c.handle() {
			batch[used] = nil
		}
		used++
	}
	w.putBack(batch[:used], batch[used:])
	clear(batch)
}

// putBack puts sockets that have more to read at the end of the queue, and those that were not served
// before the others.
func (w *worker) putBack(again, unserved []*Conn) {
	ls := w.loops
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := len(unserved) - 1; i >= 0; i-- {
		if c := unserved[i]; c != nil {
			ls.ready.pushFront(c)
		}
	}
	for _, c := range again {
		if c != nil {
			ls.ready.push(c)
		}
	}
}
