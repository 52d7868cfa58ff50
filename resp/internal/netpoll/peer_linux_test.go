package netpoll

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// both runs f with a socket of package net and one that loops watch.
func both(t *testing.T, network string, f func(t *testing.T, c, other net.Conn)) {
	t.Run(network, func(t *testing.T) {
		accepted, other := connected(t, network)
		f(t, accepted, other)
	})
	t.Run(network+" adopted", func(t *testing.T) {
		c, other := adopted(t, freeLoops(t, 1), network)
		f(t, c, other)
	})
}

func TestRefusedWhenOtherSideHasClosed(t *testing.T) {
	both(t, "tcp", func(t *testing.T, c, other net.Conn) {
		c.Write([]byte("a"))
		if Refused(c) {
			t.Error("the other side is there")
		}
		CloseWrite(other)
		c.Write([]byte("b"))
		if Refused(c) {
			t.Error("the other side still reads")
		}
	})
	both(t, "tcp", func(t *testing.T, c, other net.Conn) {
		other.Close()
		if c.Write([]byte("a")); !Refused(c) {
			t.Error("the other side has closed the connection")
		}
	})
	both(t, "unix", func(t *testing.T, c, other net.Conn) {
		other.Close()
		if c.Write([]byte("a")); Refused(c) {
			t.Error("known for TCP only")
		}
	})
}

func TestQueuedBytesAreCounted(t *testing.T) {
	both(t, "tcp", func(t *testing.T, c, other net.Conn) {
		if queued, taken := Queued(c); queued != 0 || taken != 0 {
			t.Errorf("%d, %d at first", queued, taken)
		}
		much := make([]byte, 16<<20) // takes long on a busy machine
		c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, _ := c.Write(much)
		queued, taken := Queued(c)
		if queued == 0 || taken == 0 || uint64(queued)+taken > uint64(n)+1 {
			t.Errorf("%d queued, %d taken of %d", queued, taken, n)
		}
	})
	both(t, "unix", func(t *testing.T, c, other net.Conn) {
		c.Write([]byte("abc"))
		if queued, taken := Queued(c); queued == 0 || taken != 0 {
			t.Errorf("%d, %d", queued, taken)
		}
	})
}

func TestWatchPeer(t *testing.T) {
	both(t, "tcp", func(t *testing.T, c, _ net.Conn) {
		if err := WatchPeer(c, 18*time.Hour); err != nil {
			t.Errorf("the longest session-timeout: %v", err)
		}
		if err := WatchPeer(tls.Client(c, &tls.Config{}), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		control(c, func(fd int) {
			for _, o := range []struct{ level, name, want int }{
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
				{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 2},
				{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 20000},
			} {
				if got, err := unix.GetsockoptInt(fd, o.level, o.name); got != o.want || err != nil {
					t.Errorf("option %d is %d, %v; want %d", o.name, got, err, o.want)
				}
			}
		})
	})
	both(t, "unix", func(t *testing.T, c, _ net.Conn) {
		if err := WatchPeer(c, time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestRawClose(t *testing.T) {
	both(t, "tcp", func(t *testing.T, c, other net.Conn) {
		if err := RawClose(tls.Client(c, &tls.Config{})); err != nil {
			t.Error(err)
		}
		other.SetReadDeadline(time.Now().Add(patience))
		if n, err := other.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the other side got %d bytes, %v; want the end", n, err)
		}
	})
}
