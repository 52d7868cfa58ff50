package relay

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/integration/lab"
)

// counter is an upstream that counts the segments in which input that begins with mark arrives.
// It passes all other connections to a Redis.
type counter struct {
	net.Listener
	redis    string
	segments chan int
}

// mark begins the input that is counted.
var mark = lab.Encode("SET", "marked", "value")

func startCounter(t *testing.T, redis string) *counter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	c := &counter{ln, redis, make(chan int, 100)}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go c.serve(conn.(*net.TCPConn))
		}
	}()
	return c
}

func (c *counter) serve(conn *net.TCPConn) {
	defer conn.Close()
	b := make([]byte, 64<<10)
	n, err := conn.Read(b)
	if err != nil {
		return
	}
	if !strings.HasPrefix(string(b[:n]), mark) {
		to, err := net.Dial("tcp", c.redis)
		if err != nil {
			return
		}
		defer to.Close()
		_, _ = to.Write(b[:n])
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, to)
		}()
		_, _ = io.Copy(to, conn)
		return
	}
	for err == nil && !strings.HasSuffix(string(b[:n]), "END\r\n") { // END is the last line sent
		var more int
		more, err = conn.Read(b[n:])
		n += more
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	var info *unix.TCPInfo
	_ = raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err == nil {
		c.segments <- int(info.Data_segs_in)
	}
}

// of sends the pieces to addr, one write each, and returns the number of segments that arrive, or
// 0 if the input does not arrive completely.
func (c *counter) of(t *testing.T, addr string, pieces ...string) int {
	t.Helper()
	client := lab.Dial(t, addr)
	for _, piece := range pieces {
		client.Send(piece)
	}
	select {
	case n := <-c.segments:
		return n
	case <-time.After(lab.Patience):
		return 0
	}
}

// A client's single write reaches the upstream as a single segment, even if a byte in the middle
// is malformed. Redis 8.6.3 does not answer if such input arrives in two (redis PR 15795).
func TestMalformedInputStaysOneSegment(t *testing.T) {
	t.Parallel()
	redis := lab.StartRedis(t)
	c := startCounter(t, redis.Addr)
	const end = "PING END\r\n"
	if one, two := c.of(t, c.Addr().String(), mark+end), c.of(t, c.Addr().String(), mark, end); one != 1 || two != 2 {
		t.Skipf("on this system one write arrives in %d segments, two in %d", one, two)
	}
	p := lab.StartProxy(t, "--upstream", c.Addr().String(), "--masters", redis.Addr, "--restart-guard", "off")
	for name, sent := range map[string]string{
		"good":                      mark + mark,
		"a length that is none":     mark + mark + "*1\r\n$x\r\nPING\r\n",
		"no bulk string":            mark + mark + "*2\r\n$3\r\nGET\r\n!\r\n",
		"a count that is none":      mark + "*x\r\n",
		"too long a count":          mark + "*99999999999\r\n",
		"a value that is too long":  mark + "*1\r\n$99999999999\r\n",
		"unbalanced quotes, inline": mark + "GET \"a\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if n := c.of(t, p.Addr, sent+end); n != 1 {
				t.Errorf("got %d segments, want 1", n)
			}
		})
	}
}
