package master

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// narrow is a PolledConn of which a goroutine plays the event loop. Its socket takes and
// brings only so many bytes at once.
type narrow struct {
	net.Conn
	takes, brings int

	mu      sync.Mutex
	written []int // what TryWrite has taken
	watched int
}

func (*narrow) Unread() bool { return false }

func (n *narrow) TryWrite(b []byte) (int, error) {
	size := min(n.takes, len(b))
	n.mu.Lock()
	n.written = append(n.written, size)
	n.mu.Unlock()
	if size == 0 {
		return 0, nil
	}
	return n.Conn.Write(b[:size])
}

func (n *narrow) Watch(received func(b []byte) (stop bool), ended func(error)) {
	n.mu.Lock()
	n.watched++
	n.mu.Unlock()
	go func() {
		buf := make([]byte, n.brings)
		for {
			size, err := n.Conn.Read(buf)
			if size > 0 && received(buf[:size]) {
				return
			}
			if err != nil {
				ended(err)
				return
			}
			clear(buf) // received must not keep it
		}
	}()
}

// An event loop reads the connection, from a byte at a time to all at once. Its socket takes all
// bytes, some or none.
func TestLoopReadsRepliesInAnyPieces(t *testing.T) {
	for _, size := range []struct{ takes, brings int }{{1 << 20, 1 << 16}, {7, 1}, {0, 3}, {1000, 64}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				var conns []*narrow
				l, h := start(t, m, func(c *LaneConfig) {
					c.Adopt = func(raw net.Conn) (PolledConn, bool) {
						conns = append(conns, &narrow{Conn: raw, takes: size.takes, brings: size.brings})
						return conns[len(conns)-1], true
					}
				})
				if l.Status().State != stat.StateVoting || conns[0].watched != 1 {
					t.Fatalf("watched %d times, status %+v", conns[0].watched, l.Status())
				}
				lockManyTimes(t, l, 200)
				noKeys(t, m)
				if n := len(conns[0].written); size.takes > 0 && n == 0 {
					t.Error("nothing was written in place")
				}
				m.Cut()
				time.Sleep(time.Second)
				if s := l.Status(); s.State != stat.StateVoting || len(conns) != 2 || h.sofar().lost != 1 {
					t.Errorf("%d connections, %d lost, status %+v", len(conns), h.sofar().lost, s)
				}
			})
		})
	}
}

// lockManyTimes acquires and releases n tokens and flushes now and then.
func lockManyTimes(t *testing.T, l *Lane, n int) {
	t.Helper()
	var c collect
	var want []string
	for i := range n {
		if err := l.Ask(op(wire.Acquire, tokenAt(fmt.Sprint(i), i)), nil); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(unlock(tokenAt(fmt.Sprint(i), i)), time.Minute, false, &c); err != nil {
			t.Fatal(err)
		}
		want = append(want, "release 1")
		if i%50 == 0 {
			l.Flush()
		}
	}
	l.Flush()
	time.Sleep(gather)
	l.Flush() // this loop does not, when an answer has come
	synctest.Wait()
	if got := c.String(); got != strings.Join(want, ", ") {
		t.Errorf("answered %s", got)
	}
}

// TestNotAdopted: without a loop that takes the connection a goroutine reads it.
func TestNotAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m, func(c *LaneConfig) { c.Adopt = func(net.Conn) (PolledConn, bool) { return nil, false } })
		if s := l.Status(); s.State != stat.StateVoting {
			t.Errorf("status %+v", s)
		}
	})
}

// Bytes that a loop hands over after the end of the connection have no effect.
func TestAdoptedLoopMayBeLate(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		s := &scripted{}
		l, h := start(t, m, func(c *LaneConfig) {
			c.Adopt = func(raw net.Conn) (PolledConn, bool) {
				if s.Conn != nil {
					return nil, false
				}
				s.narrow = narrow{Conn: raw, takes: 1 << 20, brings: 1 << 16}
				return s, true
			}
		})
		var c collect
		m.Pause()
		mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		s.ended(errors.New("the loop ends"))
		for range 2 {
			if !s.received([]byte("*4\r\n:1\r\n:0\r\n:0\r\n:1\r\n")) {
				t.Error("the loop is not told to stop")
			}
			synctest.Wait()
			if got := c.String(); got != "check may land" || h.sofar().lost != 1 {
				t.Errorf("answered %s, %d lost", got, h.sofar().lost)
			}
		}
	})
}

// scripted is a narrow connection that hands its callbacks to the test.
type scripted struct {
	narrow
	received func(b []byte) bool
	ended    func(error)
}

func (s *scripted) Watch(received func(b []byte) (stop bool), ended func(error)) {
	s.received, s.ended = received, ended
	s.narrow.Watch(received, ended)
}

// closing is a scripted connection whose loop ends within Close, like those of package resp.
type closing struct{ scripted }

func (c *closing) Close() error {
	if c.ended != nil {
		c.ended(net.ErrClosed)
	}
	return c.scripted.Close()
}

// If the lane closes the connection, the loop reports the end before Close returns.
func TestAdoptedLoopEndsWithin(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m, func(c *LaneConfig) {
			c.Adopt = func(raw net.Conn) (PolledConn, bool) {
				s := &closing{}
				s.narrow = narrow{Conn: raw, takes: 1 << 20, brings: 1 << 16}
				return s, true
			}
		})
		m.Cut()
		time.Sleep(time.Second)
		if s := l.Status(); s.State != stat.StateVoting || h.sofar().lost != 1 {
			t.Errorf("%d lost, status %+v", h.sofar().lost, s)
		}
	})
}

// A reply without a request ends the connection: later ones could not be matched with theirs.
func TestUnaskedReply(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		s := &scripted{}
		l, _ := start(t, m, func(c *LaneConfig) {
			c.Adopt = func(raw net.Conn) (PolledConn, bool) {
				s.narrow = narrow{Conn: raw, takes: 1 << 20, brings: 1 << 16}
				return s, true
			}
		})
		var c collect
		if err := l.Ask(op(wire.Acquire, tokenAt("k", 1)), &c); err != nil {
			t.Fatal(err)
		}
		if !s.received([]byte("*4\r\n:1\r\n:0\r\n:0\r\n:1\r\n")) || l.Status().State != stat.StateDown {
			t.Errorf("status %+v", l.Status())
		}
		synctest.Wait()
		if got := c.String(); got != "acquire not run: answered something that is not Redis' protocol" {
			t.Errorf("what was not even written is answered %s", got)
		}
	})
}

// TestTooManyClients: a master that takes no more connections says so, be it before it is asked or
// after, and closes.
func TestTooManyClients(t *testing.T) {
	for i := range 40 {
		wait := i%2 == 0
		inBubble(t, func(t *testing.T, _ *fake.Master) {
			dial := func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					read := func() { _, _ = server.Read(make([]byte, 1000)) }
					if wait {
						read()
					}
					_, _ = server.Write([]byte("-ERR max number of clients reached\r\n"))
					if !wait {
						read() // requests written before the answer came
					}
					_ = server.Close()
				}()
				return client, nil
			}
			l, _ := begin(t, &Options{Addr: "10.0.0.1:6379", Dial: dial})
			<-l.Ready()
			if s := l.Status(); s.State != stat.StateDown || s.Reason != `answered "ERR max number of clients reached"` {
				t.Errorf("asked %v: status %+v", wait, s)
			}
		})
	}
}

// TestGarbageEndsTheConnection: bytes that are no reply end the connection, and the lane comes
// back.
func TestGarbageEndsTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		answering(m, "packet", "HTTP/1.1 400\r\n")
		var c collect
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
		synctest.Wait()
		if got, s := c.String(), l.Status(); got != "acquire may land" ||
			s.Reason != "answered something that is not Redis' protocol" {
			t.Errorf("answered %s, status %+v", got, s)
		}
		m.Set(func() { m.Hook = nil })
		time.Sleep(time.Second)
		if s := l.Status(); s.State != stat.StateVoting {
			t.Errorf("status %+v", s)
		}
	})
}
