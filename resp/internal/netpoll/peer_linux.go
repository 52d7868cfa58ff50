package netpoll

import (
	"cmp"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// deliveryTime bounds how long the other side's kernel may take to acknowledge, or to refuse, the
// bytes written to it.
const deliveryTime = 200 * time.Millisecond

// control calls f with the descriptor of the socket below c. It returns an error if there is
// none.
func control(c net.Conn, f func(fd int)) error {
	switch c := Underlying(c).(type) {
	case *Socket:
		return c.control(f)
	case syscall.Conn:
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		return raw.Control(func(fd uintptr) { f(int(fd)) })
	}
	return syscall.ENOTSOCK
}

func isTCP(c net.Conn) bool {
	_, tcp := Underlying(c).LocalAddr().(*net.TCPAddr)
	return tcp
}

// Unread reports whether bytes wait in the socket below c, or the end of input does. It does not
// block.
func Unread(c net.Conn) (unread bool) {
	_ = control(c, func(fd int) {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(ready, 0)
		unread = n > 0 && ready[0].Revents&unix.POLLIN != 0
	})
	return unread
}

// SetLinger is net.TCPConn's, for the socket below c.
func SetLinger(c net.Conn, sec int) (err error) {
	linger := unix.Linger{Onoff: 1, Linger: int32(max(sec, 0))}
	if sec < 0 {
		linger.Onoff = 0
	}
	closed := control(c, func(fd int) { err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger) })
	return cmp.Or(closed, err)
}

// Refused reports whether the other side refused the last bytes written to a TCP connection: it
// had closed the connection, and not only its sending half. Refused waits until that is known, at
// most 200ms. It is false if that is not known.
func Refused(c net.Conn) bool {
	if !isTCP(c) {
		return false
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		unacked, dead := 0, false
		err := control(c, func(fd int) {
			unacked, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
			poll := []unix.PollFd{{Fd: int32(fd)}} // an error or hang-up is always reported
			n, _ := unix.Poll(poll, 0)
			dead = n > 0
		})
		if err != nil || unacked == 0 || dead || time.Since(start) >= deliveryTime {
			return err == nil && unacked > 0 && dead
		}
	}
}

// Queued returns how many written bytes are still in the socket below c, and for TCP, if there are
// any, how many bytes the other side has acknowledged since the beginning. Both are 0 if that
// is not known.
func Queued(c net.Conn) (queued int, taken uint64) {
	_ = control(c, func(fd int) {
		queued, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		if queued == 0 {
			return
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			taken = info.Bytes_acked
		}
	})
	return queued, taken
}

// WatchPeer makes the kernel end a TCP connection whose other side is silent for timeout, idle or
// not: it probes after half of it, and lets no sent byte go longer without an acknowledgement. The
// kernel counts in whole seconds. On other connections WatchPeer has no effect.
func WatchPeer(c net.Conn, timeout time.Duration) error {
	if !isTCP(c) {
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
	err := control(c, func(fd int) {
		for _, o := range options {
			if optErr = unix.SetsockoptInt(fd, o.level, o.name, o.value); optErr != nil {
				return
			}
		}
	})
	return cmp.Or(err, optErr)
}
