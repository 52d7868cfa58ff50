package resp

import (
	"bufio"
	"bytes"
	"net"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
)

// answering is an upstream that answers each line with what answers has for it.
func answering(t *testing.T, answers map[string]string) (network, address string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					c.Write([]byte(answers[lines.Text()]))
				}
			}()
		}
	}()
	return "unix", address
}

// onLoop reports whether the caller runs on a loop.
func onLoop() bool { return bytes.Contains(debug.Stack(), []byte("netpoll.(*worker).serveBatch")) }

// waitWatched returns when loops watch both sides of all connections: none has a goroutine.
func waitWatched(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text := stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(text, []byte("resp.(*pump).run(")) && !bytes.Contains(text, []byte("resp.(*copier).run(")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("connections still have goroutines after %v:\n%s", patience, text)
		}
	}
}

// TestOthersAreNotCalledOnLoop: the function of OnEnd, and the log, may block, for instance on a
// pipe without a reader. A loop must not wait for them, because all its connections would.
func TestOthersAreNotCalledOnLoop(t *testing.T) {
	ends, logged := make(chan End, 10), make(chan string, 100)
	r := startOffLoop(t, ends, logged)
	begin := func() *client {
		c := r.dial()
		c.send("LOCK a\r\n")
		c.expect("+OWN\r\n")
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
		waitWatched(t)
		return c
	}
	c := begin()
	sess := only(t, r.server)
	c.send("RESET\r\n")
	c.expect("+RESET\r\n")
	if how := within(t, "word of the RESET", ends); how != EndReset {
		t.Errorf("told of %d, want a reset", how)
	}
	waitWatched(t)
	c.send("LOSE\r\n")
	for message := ""; !strings.Contains(message, "cannot be distinguished"); {
		message = within(t, "word of lost replies", logged)
	}

	c = begin()
	sess = slices.DeleteFunc(r.server.all(), func(s *Session) bool { return s == sess })[0]
	sess.life.drain() // as Retire does, which then wakes the pump: here the client is quicker
	c.send("PING\r\n")
	c.expect("+PONG\r\n") // it may have come before the drain
	c.send("PING\r\n")
	if how := within(t, "word of the end", ends); how != EndProxy {
		t.Errorf("told of %d, want the proxy", how)
	}

	for name, end := range map[string]func(c *client){
		"close": func(c *client) { c.Close() },
		"RST":   func(c *client) { c.Conn.(*net.TCPConn).SetLinger(0); c.Close() },
	} {
		end(begin())
		if how := within(t, "word of the end", ends); how != EndClient {
			t.Errorf("%s: told of %d, want the client", name, how)
		}
	}
}

// startOffLoop starts a relay whose handler, log and function of OnEnd must not run on a loop.
// They report ends and log messages.
func startOffLoop(t *testing.T, ends chan<- End, logged chan<- string) *relay {
	t.Helper()
	network, upstream := answering(t, map[string]string{"PING": "+PONG\r\n", "RESET": "+RESET\r\n", "LOSE": "$x\r\n"})
	return startRelay(t, network, upstream, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, _ redcon.Command) {
			if onLoop() {
				t.Error("a command runs on a loop")
			}
			SessionOf(conn).OnEnd(func(how End) {
				if onLoop() {
					t.Errorf("told of the end %d on a loop", how)
				}
				ends <- how
			})
			conn.WriteString("OWN")
		})
		o.Log = zap.New(zapcore.RegisterHooks(zaptest.NewLogger(t).Core(), func(entry zapcore.Entry) error {
			if onLoop() {
				t.Errorf("%q was logged on a loop", entry.Message)
			}
			logged <- entry.Message
			return nil
		}))
	})
}

// TestIdleHasNoGoroutine: connections have a goroutine only while they wait for something or run a
// lock command.
func TestIdleHasNoGoroutine(t *testing.T) {
	network, upstream := startRedis(t)
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, cmd redcon.Command) { conn.WriteBulk(cmd.Args[1]) })
		o.Log = nil
	})
	const most = 200
	var clients []*client
	serve := func() {
		t.Helper()
		for _, c := range clients {
			c.send("PING\r\nLOCK a\r\n")
		}
		for _, c := range clients {
			c.expect("+PONG\r\n$1\r\na\r\n")
			c.send("SELECT 0\r\nLOCK b\r\nPING\r\n")
		}
		for _, c := range clients {
			c.expect("+OK\r\n$1\r\nb\r\n+PONG\r\n")
		}
		const large = 8 << 20 // more than sockets take at once
		clients[0].send("*3\r\n$4\r\nEVAL\r\n$31\r\nreturn string.rep('x', 8388608)\r\n$1\r\n0\r\n")
		clients[0].expect("$8388608\r\n" + strings.Repeat("x", large) + "\r\n")
	}
	clients = append(clients, r.dial())
	serve()
	waitWatched(t)
	before := runtime.NumGoroutine()
	for len(clients) < most {
		clients = append(clients, r.dial())
	}
	for range 2 {
		serve()
		waitWatched(t)
		few := before + runtime.GOMAXPROCS(0) + 4 // loops are added under load
		for deadline := time.Now().Add(patience); runtime.NumGoroutine() > few; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines with %d idle connections, %d with one", runtime.NumGoroutine(), most, before)
			}
		}
	}
	serve()
}
