package resp

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// looksAgain is how often a loop that finds nothing, after it had something to do, lets whoever else is to run on its processor do so and
// looks once more, before it sleeps. On busy processors something has come by then, and nobody has to be woken.
const looksAgain = 2

// carriedInRow is how many sockets a loop deals with before it lets goroutines run of which it does not know.
const carriedInRow = 64

// yieldMost is how long somebody may keep the processor that a loop lets him have. Longer is none of those whom the loop brings bytes, but
// one who computes, for whom nothing is to be left: then the loop sleeps instead, from where it is woken at once, for yieldRarely times as long.
const (
	yieldMost   = 2 * time.Millisecond
	yieldRarely = 50
)

// work deals with what is there, until there has been nothing for a while or others are to run.
func (l *loop) work() {
	missed := looksAgain // in a row
	for all := 0; ; {
		l.woke = false
		found, carried := l.turn()
		all += carried
		giveWay := l.woke || l.busy() || all >= carriedInRow
		switch {
		case found == eventsAtOnce && giveWay: // there may be more, of which the runtime's poller would not tell again by itself
			l.comeBack()
			return
		case found == eventsAtOnce:
		case giveWay, carried == 0 && missed == looksAgain:
			return
		case carried > 0:
			missed = 0
		default:
			if !l.yield() {
				return
			}
			missed++
		}
	}
}

// wakes is called, on the loop, when a goroutine was woken.
func (l *loop) wakes() { l.woke = true }

// yield lets others have the processor, unless that took long not long ago.
func (l *loop) yield() bool {
	start := time.Now()
	if start.Before(l.noYield) {
		return false
	}
	syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
	l.yielded(start, time.Since(start))
	return true
}

func (l *loop) yielded(start time.Time, took time.Duration) {
	if took >= yieldMost {
		l.noYield = start.Add(yieldRarely * took)
	}
}

// comeBack makes the runtime's poller tell of the set.
func (l *loop) comeBack() {
	one := uint64(1)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(l.nudge), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
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
