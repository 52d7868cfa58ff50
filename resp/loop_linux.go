package resp

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventsAtOnce is how many sockets one look at the epoll set tells of.
const eventsAtOnce = 128

// What a sock is watched for. Each is told once when it comes about (EPOLLET), so a sock that somebody else deals with, or nobody,
// costs nothing.
const sockEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

// loops carry the bytes of plain sockets. Each is one goroutine that waits on many sockets at a time and deals with what arrives right
// there: a goroutine for each direction of each connection would have to be woken for every packet, and would read a second time to learn
// that nothing is left.
//
// The zero value has none; they start with the first socket. Safe for concurrent use.
type loops struct {
	once sync.Once
	all  []*loop
	next atomic.Uint32
	wg   sync.WaitGroup

	busy func() bool // Options.Busy
}

// pick returns a loop, or nil if the system gives none.
func (ls *loops) pick() *loop {
	ls.once.Do(func() {
		for range runtime.GOMAXPROCS(0) {
			l, err := newLoop()
			if err != nil {
				break
			}
			l.busy = ls.busy
			ls.all = append(ls.all, l)
			ls.wg.Go(l.run)
		}
	})
	if len(ls.all) == 0 {
		return nil
	}
	return ls.all[ls.next.Add(1)%uint32(len(ls.all))]
}

// close ends the loops and waits for them. No socket may be left.
func (ls *loops) close() {
	ls.once.Do(func() {})
	for _, l := range ls.all {
		l.set.Close()
	}
	ls.wg.Wait()
	for _, l := range ls.all {
		l.close()
	}
}

// loop watches the sockets of some connections.
type loop struct {
	set *os.File // the epoll set; the runtime's poller watches it, so a loop that has nothing to do is a parked goroutine
	fd  int

	busy func() bool // somebody waits for what the runtime's poller tells; a loop that goes on keeps it from being asked

	mu    sync.RWMutex
	socks map[int32]*sock // by descriptor

	noYield time.Time // it does not yield before that

	woke bool // a goroutine, in this turn; it should not have to wait for the loop

	nudge int // an eventfd in the set; what is written makes the runtime's poller tell of the set again, and is never read

	events [eventsAtOnce]unix.EpollEvent
	found  [eventsAtOnce]*sock // whose they are
}

func newLoop() (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the runtime's poller takes it
		unix.Close(fd)
		return nil, err
	}
	nudge, err := newNudge(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	l := &loop{set: os.NewFile(uintptr(fd), "epoll"), fd: fd, nudge: nudge, socks: make(map[int32]*sock)}
	l.busy = func() bool { return false }
	return l, nil
}

// close is called when run has ended.
func (l *loop) close() {
	l.set.Close()
	unix.Close(l.nudge)
}

// adopt takes over a socket that package net opened. If that cannot be done it returns c as it is.
func (l *loop) adopt(c net.Conn) net.Conn {
	fd, ok := dup(c)
	if !ok {
		return c
	}
	k := &sock{loop: l, fd: fd, local: c.LocalAddr(), remote: c.RemoteAddr()}
	k.in.init()
	k.out.init()
	_, tcp := k.local.(*net.TCPAddr)
	k.thorough.Store(!tcp) // a read of a Unix socket also ends where descriptors were passed
	l.mu.Lock()
	l.socks[int32(fd)] = k
	l.mu.Unlock()
	event := unix.EpollEvent{Events: sockEvents & (1<<32 - 1), Fd: int32(fd)}
	if err := unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		l.forget(fd)
		unix.Close(fd)
		return c
	}
	c.Close() // its own descriptor only
	return k
}

// forget is called before a descriptor is closed, which takes it out of the set.
func (l *loop) forget(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.socks, int32(fd))
}

// run carries until the set is closed.
func (l *loop) run() {
	raw, err := l.set.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(uintptr) (done bool) {
		l.work()
		return false
	})
}

// turn looks at the set once and deals with what is there: found events, and carried sockets' bytes. All are read before anything is
// written, so that whoever is written to is woken once and finds all of it.
func (l *loop) turn() (found, carried int) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.fd), uintptr(unsafe.Pointer(&l.events)), eventsAtOnce, 0, 0, 0)
	switch errno {
	case 0:
	case syscall.EINTR:
		return eventsAtOnce, 0 // it was not told of any, and there may be some
	default:
		return 0, 0
	}
	l.mu.RLock()
	for i, e := range l.events[:n] {
		l.found[i] = l.socks[e.Fd] // nil: closed since. It may also be another socket by now, to which the event does no harm
	}
	l.mu.RUnlock()
	for i, k := range l.found[:n] {
		if k != nil && !(k.event(l.events[i].Events) && k.readTask()) {
			l.found[i] = nil
		}
	}
	for _, k := range l.found[:n] {
		if k != nil {
			carried++
			k.carry()
		}
	}
	clear(l.found[:n])
	return int(n), carried
}

// event notes what happened to the socket. run: its bytes are to be carried.
func (k *sock) event(events uint32) (run bool) {
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLPRI) != 0 {
		k.thorough.Store(true)
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		k.took()
	}
	if events&^unix.EPOLLOUT == 0 {
		return false
	}
	run, woke := k.in.open()
	if woke {
		k.loop.wakes()
	}
	return run
}
