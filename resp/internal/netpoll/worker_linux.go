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
	eventsAtOnce = 128 // sockets that one look at the epoll set tells of, at most
	batchSize    = 16  // sockets that one turn serves, at most: so it takes about a millisecond at worst
	servedInRow  = 64  // sockets that a worker serves before it gives way to goroutines that it does not know of
)

// worker is one goroutine that serves the sockets of Loops.
type worker struct {
	loops  *Loops
	index  int      // among the workers
	set    *os.File // the epoll set; the runtime's poller watches it, so an idle worker is parked
	events [eventsAtOnce]unix.EpollEvent
	batch  []*Conn // what the turn serves
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

// serve is work without the accounts. more: the set may have events of which the runtime's poller does
// not tell again by itself. These, and what is in the queue, need a nudge.
func (w *worker) serve() (more bool) {
	for all := 0; ; {
		woken := w.loops.woken.Load()
		found, served := w.turn()
		all += served
		more = found == eventsAtOnce
		giveWay := w.loops.woken.Load() != woken || w.loops.busy() || all >= servedInRow
		if giveWay || !more && served == 0 {
			return more
		}
	}
}

// turn looks at the set once and serves a batch, each socket once. All are read before any of them is
// used, so that whoever is written to is woken once and finds all of it.
func (w *worker) turn() (found, served int) {
	found = w.look()
	w.take()
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
	return found, len(w.batch)
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

// take moves the head of the queue to the batch. It leaves the other workers their share.
func (w *worker) take() {
	ls := w.loops
	ls.mu.Lock()
	defer ls.mu.Unlock()
	share := (len(ls.ready) + ls.load.active - 1) / ls.load.active
	n := min(share, batchSize)
	w.batch = append(w.batch[:0], ls.ready[:n]...)
	ls.ready = slices.Delete(ls.ready, 0, n)
}
