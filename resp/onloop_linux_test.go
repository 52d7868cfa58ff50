package resp

import (
	"bufio"
	"bytes"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

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

// Those who are told of the end of a connection, and the log, may wait for others: for a pipe that nobody reads any more, as it may be.
// A loop must not, as all its connections would.
func TestOthersAreNotCalledOnLoop(t *testing.T) {
	loops := func() bool { return bytes.Contains(debug.Stack(), []byte("(*loop).turn")) }
	ends, logged := make(chan End, 10), make(chan string, 100)
	network, upstream := answering(t, map[string]string{"PING": "+PONG\r\n", "RESET": "+RESET\r\n", "LOSE": "$x\r\n"})
	r := startRelay(t, network, upstream, func(o *Options) {
		o.Handler = redcon.HandlerFunc(func(conn redcon.Conn, _ redcon.Command) {
			SessionOf(conn).OnEnd(func(how End) {
				if loops() {
					t.Errorf("told of the end %d on a loop", how)
				}
				ends <- how
			})
			conn.WriteString("OWN")
		})
		o.Log = zap.New(zapcore.RegisterHooks(zaptest.NewLogger(t).Core(), func(entry zapcore.Entry) error {
			if loops() {
				t.Errorf("%q was logged on a loop", entry.Message)
			}
			logged <- entry.Message
			return nil
		}))
	})
	c := r.dial()
	c.send("LOCK a\r\n")
	c.expect("+OWN\r\n")
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	sess := r.server.all()[0]
	watched := func() {
		t.Helper()
		sess.mu.Lock()
		client, up := sess.client.(*sock), sess.up.(*sock)
		sess.mu.Unlock()
		waitState(t, &client.in)
		waitState(t, &up.in)
	}
	watched()
	c.send("RESET\r\n")
	c.expect("+RESET\r\n")
	if how := within(t, "word of the RESET", ends); how != EndReset {
		t.Errorf("told of %d, want a reset", how)
	}
	watched()
	c.send("LOSE\r\n")
	for message := ""; !strings.Contains(message, "cannot be told apart"); {
		message = within(t, "word of lost replies", logged)
	}

	c = r.dial()
	c.send("LOCK a\r\n")
	c.expect("+OWN\r\n")
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	sess = slices.DeleteFunc(r.server.all(), func(s *Session) bool { return s == sess })[0]
	watched()
	sess.drain.Store(true) // as Retire does, which then wakes the pump: here the client is quicker
	c.send("PING\r\n")
	if how := within(t, "word of the end", ends); how != EndProxy {
		t.Errorf("told of %d, want the proxy", how)
	}
}
