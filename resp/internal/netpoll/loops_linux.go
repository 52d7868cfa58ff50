package netpoll

import (
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

// What a socket is watched for. Each event is told once when it comes about (EPOLLET), so a socket
// that nobody waits for costs nothing.
const socketEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

// Loops watch sockets and serve those that are ready. NewLoops makes them. Safe for concurrent use.
type Loops struct {
	busy  func() bool
	once  sync.Once
	set   int           // the epoll set, which all workers share; -1: the system gives none
	nudge int           // an eventfd in the set, never read; a write to it makes a parked worker look
	woken atomic.Uint32 // counts GiveWay
	wg    sync.WaitGroup

	mu      sync.Mutex
	conns   []*Conn // by descriptor
	ready   queue
	workers []*worker // nil where one rests
	awake   int       // how many workers look at ready again before they park
	load    load
	closed  bool
}

// NewLoops returns loops without a socket; they start with the first. busy reports whether somebody
// waits for the runtime's poller, which is not asked while all processors are in use: then a worker
// gives way after each turn. A nil busy is never true. It is called often, by any worker.
func NewLoops(busy func() bool) *Loops {
	if busy == nil {
		busy = func() bool { return false }
	}
	return &Loops{busy: busy, set: -1, nudge: -1}
}

// Adopt takes over a TCP or Unix socket that package net opened, with the bytes that are unread. If it
// cannot, it returns false and leaves c as it is. Otherwise c is closed, and the Conn to be used
// instead of it.
func (ls *Loops) Adopt(c net.Conn) (*Conn, bool) {
	fd, ok := dup(c)
	if !ok {
		return nil, false
	}
	ls.once.Do(func() {
		if ls.open() == nil {
			ls.mu.Lock()
			ls.startLocked(0)
			ls.mu.Unlock()
		}
	})
	if ls.set < 0 {
		unix.Close(fd)
		return nil, false
	}
	k := &Conn{loops: ls, fd: fd, local: c.LocalAddr(), remote: c.RemoteAddr()}
	k.in.ready = true // it was not tried
	_, tcp := k.local.(*net.TCPAddr)
	k.thorough.Store(!tcp) // a read of a Unix socket also ends where descriptors were passed
	ls.mu.Lock()
	for len(ls.conns) <= fd {
		ls.conns = append(ls.conns, nil)
	}
	ls.conns[fd] = k
	ls.mu.Unlock()
	event := unix.EpollEvent{Events: socketEvents & (1<<32 - 1), Fd: int32(fd)}
	if err := unix.EpollCtl(ls.set, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		ls.forget(fd)
		unix.Close(fd)
		return nil, false
	}
	c.Close() // its own descriptor only
	return k, true
}

// forget is called before a descriptor is closed, which takes it out of the set.
func (ls *Loops) forget(fd int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.conns[fd] = nil
}

// GiveWay makes the workers that run return to the scheduler soon. A callback that wakes a goroutine
// calls it, so that the goroutine does not have to wait for the loop. It is not needed for what the
// package wakes itself, stopped callbacks included.
func (ls *Loops) GiveWay() { ls.woken.Add(1) }

// Close ends the workers and waits for them. No socket may be left.
func (ls *Loops) Close() {
	ls.once.Do(func() {})
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
	for ls.ready.n > 0 { // closed while in the queue: its watch is still to end
		if c := ls.ready.pop(); c.fill() {
			c.handle()
		}
	}
	if ls.set >= 0 {
		unix.Close(ls.nudge)
		unix.Close(ls.set)
		ls.set = -1
	}
}

// open makes the epoll set.
func (ls *Loops) open() error {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(set, true); err != nil { // so that the runtime's poller takes it
		unix.Close(set)
		return err
	}
	nudge, err := newNudge(set)
	if err != nil {
		unix.Close(set)
		return err
	}
	most := runtime.GOMAXPROCS(0)
	ls.set, ls.nudge = set, nudge
	ls.workers, ls.load = make([]*worker, most), newLoad(most)
	return nil
}

// newNudge returns an eventfd in the epoll set.
func newNudge(set int) (fd int, err error) {
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, os.NewSyscallError("eventfd2", err)
	}
	event := unix.EpollEvent{Events: (unix.EPOLLIN | unix.EPOLLET) & (1<<32 - 1), Fd: int32(fd)}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("epoll_ctl", err)
	}
	return fd, nil
}

// startLocked starts worker number i, if the system lets it. Each has a descriptor of the set of its
// own, as the runtime's poller takes each only once.
func (ls *Loops) startLocked(i int) {
	fd, err := unix.FcntlInt(uintptr(ls.set), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	w := &worker{loops: ls, index: i, set: os.NewFile(uintptr(fd), "epoll")}
	w.meter.at = time.Now()
	ls.workers[i] = w
	ls.wg.Go(w.run)
}

// sampled tells the load how worker i was busy, and starts workers if that makes it necessary.
func (ls *Loops) sampled(i int, now time.Time, wall, cpu time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	active := ls.load.sample(i, now, wall, cpu)
	for i := range active {
		if ls.workers[i] == nil && !ls.closed {
			ls.startLocked(i)
		}
	}
}

// enqueue puts c at the end of the queue, and makes a worker look if none is awake.
func (ls *Loops) enqueue(c *Conn) {
	ls.mu.Lock()
	ls.ready.push(c)
	asleep := ls.awake == 0
	ls.mu.Unlock()
	if asleep {
		ls.wake()
	}
}

// wake makes the runtime's poller tell of the set.
func (ls *Loops) wake() {
	one := uint64(1)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(ls.nudge), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}
