//go:build linux

package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp"
)

// onLoop serves the commands with Begin on the loops of package resp.
func onLoop(t *testing.T, locker *fakeLocker) (*net.TCPConn, *resp.Server) {
	t.Helper()
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
		Tunable: Tunable{SessionMaxHold: time.Hour, SessionTimeout: time.Minute}})
	mux := redcon.NewServeMux()
	service.Register(mux)
	c, server := serveWith(t, service, resp.Options{Handler: mux, Begin: func(conn redcon.Conn, cmd redcon.Command,
		done func()) bool {
		begun := service.Begin(conn, cmd, done)
		if begun {
			locker.begun.Add(1)
		}
		return begun
	}})
	return c.(*net.TCPConn), server
}

// TestBeginOnLoop: a loop gives every command to Begin, and the next one when the reply is out.
func TestBeginOnLoop(t *testing.T) {
	for _, w := range ways[1:] {
		locker := &fakeLocker{held: true, later: w == elsewhere}
		c, server := onLoop(t, locker)
		r := bufio.NewReader(c)
		for range 3 {
			lock, extend, unlock := ask(t, c, r, "LOCK", "job", "5s"), ask(t, c, r, "EXTEND", "job", aToken.String(), "5s"),
				ask(t, c, r, "UNLOCK", "job", aToken.String())
			if lock != aToken.String() || extend != ":1" || unlock != ":1" {
				t.Errorf("%s: LOCK: %s, EXTEND: %s, UNLOCK: %s", w, lock, extend, unlock)
			}
		}
		c.Close()
		server.Shutdown(t.Context())
		if n := locker.begun.Load(); n != 9 {
			t.Errorf("%s: %d of 9 commands were begun", w, n)
		}
	}
}

// adoptOnLoop serves the lock listener on the loops of package resp.
func adoptOnLoop(t *testing.T, locker *fakeLocker) (*net.TCPConn, *resp.Server) {
	t.Helper()
	keys, err := ParseAdoptKeys("*")
	if err != nil {
		t.Fatal(err)
	}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, MaxTTL: time.Minute,
		Adopt: &AdoptOptions{Values: locker.values(), Keys: keys}})
	c, server := serveWith(t, service, resp.Options{Handler: redcon.HandlerFunc(service.ServeAdopted),
		Begin: service.BeginAdopted, Judge: service.Judge})
	return c.(*net.TCPConn), server
}

// TestBegunAndGone: a LOCK that no goroutine waits for is answered while the proxy drains, and
// given back where its client has left, or was cut off, before the masters have answered.
func TestBegunAndGone(t *testing.T) {
	testBegunAndGone(t, "LOCK job 5s", "$57\r\n"+aToken.String()+"\r\n", onLoop)
}

// TestAdoptedAndGone is TestBegunAndGone for a lock of a library.
func TestAdoptedAndGone(t *testing.T) {
	testBegunAndGone(t, "SET job A NX PX 5000", "+OK\r\n", adoptOnLoop)
}

func testBegunAndGone(t *testing.T, request, granted string,
	serve func(*testing.T, *fakeLocker) (*net.TCPConn, *resp.Server)) {
	t.Helper()
	cutOff, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		what  string
		drain context.Context
		reset bool
		want  string
	}{
		{"drained", t.Context(), false, granted},
		{"cut off", cutOff, false, ""},
		{"client left", t.Context(), true, ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			locker := &fakeLocker{kept: make(chan func(), 1), slack: time.Second}
			c, server := serve(t, locker)
			if _, err := c.Write(benchRequest(request)); err != nil {
				t.Fatal(err)
			}
			answer := <-locker.kept
			if tt.reset {
				c.SetLinger(0)
				c.Close()
			}
			ended := make(chan error)
			go func() { ended <- server.Shutdown(tt.drain) }()
			awaitDrain(t, c.RemoteAddr().String())
			if tt.drain == cutOff {
				io.ReadAll(c)
			}
			answer()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: Shutdown: %v", tt.what, err)
			}
			got, _ := io.ReadAll(c)
			if string(got) != tt.want {
				t.Errorf("%s: got %q, want %q", tt.what, got, tt.want)
			}
			if back := slices.Contains(locker.take(), fmt.Sprintf("abandon %q %v", "job", aToken)); back != (tt.want == "") {
				t.Errorf("%s: given back is %v", tt.what, back)
			}
		})
	}
}

// awaitDrain waits until addr refuses connections.
func awaitDrain(t *testing.T, addr string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close()
	}
	t.Fatal("the server goes on listening")
}
