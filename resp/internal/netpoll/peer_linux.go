package netpoll

import (
	"cmp"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// deliveryTime bounds how long the other side's kernel may take to acknowledge, or to refuse, what
// was written to it.
const deliveryTime = 200 * time.Millisecond

// HungUp reports whether the other side of the socket below c has ended its input or the connection,
// also while bytes before that are unread. It does not wait. It is false where that is not known.
func HungUp(c net.Conn) bool {
	raw, ok := rawSocket(c)
	if !ok {
		return false
	}
	var events int16
	raw.Control(func(fd uintptr) { events = pollNow(fd, unix.POLLRDHUP) })
	return events&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// pollNow returns which of the events, or an error or hang-up, are there.
func pollNow(fd uintptr, events int16) int16 {
	poll := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		if _, err := unix.Poll(poll, 0); err != unix.EINTR {
			return poll[0].Revents
		}
	}
}

// Refused reports whether the other side refused what was last written to a TCP connection: it had
// closed the connection, and not only its sending half. Refused waits until that is known, at most
// 200ms. It is false where that is not known.
func Refused(c net.Conn) bool {
	raw, tcp := rawTCP(c)
	if !tcp {
		return false
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		unacked, dead := 0, false
		err := raw.Control(func(fd uintptr) {
			unacked, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			dead = pollNow(fd, 0) != 0
		})
		switch {
		case err != nil || unacked == 0:
			return false
		case dead:
			return true
		case time.Since(start) >= deliveryTime:
			return false
		}
	}
}

// Queued returns how many written bytes are still in the socket below c, and for TCP, if there are
// any, how many bytes the other side has acknowledged since the beginning. Both are 0 where that is
// not known.
func Queued(c net.Conn) (queued int, taken uint64) {
	raw, ok := rawSocket(c)
	if !ok {
		return 0, 0
	}
	_, tcp := rawTCP(c)
	raw.Control(func(fd uintptr) {
		queued, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if queued == 0 || !tcp {
			return
		}
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			taken = info.Bytes_acked
		}
	})
	return queued, taken
}

// WatchPeer makes the kernel end a TCP connection whose other side is silent for timeout, idle or
// not: it probes after half of it, and lets no sent byte go longer without an acknowledgement. The
// kernel counts in whole seconds. On other connections WatchPeer does nothing.
func WatchPeer(c net.Conn, timeout time.Duration) error {
	raw, tcp := rawTCP(c)
	if !tcp {
		return nil
	}
	step := max(time.Second, (timeout / 4).Truncate(time.Second))
	idle := max(time.Second, (timeout / 2).Truncate(time.Second))
	count := max(1, int((timeout-idle)/step))
	options := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(idle / time.Second)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(step / time.Second)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, count},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds())},
	}
	var optErr error
	err := raw.Control(func(fd uintptr) {
		for _, o := range options {
			if optErr = unix.SetsockoptInt(int(fd), o.level, o.name, o.value); optErr != nil {
				return
			}
		}
	})
	return cmp.Or(err, optErr)
}
