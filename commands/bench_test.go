package commands

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/quorum"
	"lockproxy/resp"
)

// grantingLocker grants and releases at once, without an allocation.
type grantingLocker struct{ fakeLocker }

func (*grantingLocker) Acquire(_ context.Context, r quorum.Request) (quorum.Lease, error) {
	return quorum.Lease{Token: aToken, Validity: r.TTL - 9*time.Millisecond}, nil
}

// BenchmarkHandler runs LOCK and UNLOCK over a socket with a quorum that decides at once. It shows
// how much time and memory the server, redcon and the handlers use for the pair.
func BenchmarkHandler(b *testing.B) {
	for _, tt := range []struct{ name, lock, granted string }{
		{"plain", "LOCK job 10s", "$57\r\n" + aToken.String() + "\r\n"},
		{"wait", "LOCK job 10s WAIT 30s", "$57\r\n" + aToken.String() + "\r\n"},
		{"full", "LOCK job 10s FULL", "*3\r\n$57\r\n" + aToken.String() + "\r\n:7\r\n:9991\r\n"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			conn := startGranting(b)
			lock, unlock := benchRequest(tt.lock), benchRequest("UNLOCK job "+aToken.String())
			granted := make([]byte, len(tt.granted))
			released := make([]byte, len(":1\r\n"))
			pair := func() {
				_, err1 := conn.Write(lock)
				_, err2 := io.ReadFull(conn, granted)
				_, err3 := conn.Write(unlock)
				_, err4 := io.ReadFull(conn, released)
				if err := errors.Join(err1, err2, err3, err4); err != nil {
					b.Fatal(err)
				}
			}
			if pair(); string(granted) != tt.granted || string(released) != ":1\r\n" {
				b.Fatalf("got %q, %q", granted, released)
			}
			b.ReportAllocs()
			for b.Loop() {
				pair()
			}
		})
	}
}

// benchRequest is a request as a client library writes it.
func benchRequest(words string) []byte {
	args := strings.Fields(words)
	b := redcon.AppendArray(nil, len(args))
	for _, arg := range args {
		b = redcon.AppendBulkString(b, arg)
	}
	return b
}

// startGranting serves the commands and returns a connection.
func startGranting(b *testing.B) net.Conn {
	b.Helper()
	mux := redcon.NewServeMux()
	locker := &grantingLocker{}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, KeyPrefix: "lock:",
		MaxTTL: time.Minute, Version: "v0",
		Tunable: Tunable{MinTTL: 10 * time.Millisecond, MaxWaiters: 5, SessionMaxHold: time.Hour,
			SessionTimeout: 10 * time.Second}})
	service.Register(mux)
	return serveBench(b, mux, func() {
		service.Drain()
		service.Close()
	})
}

// serveBench serves handler and returns a connection. It calls end when that is closed.
func serveBench(b *testing.B, handler redcon.Handler, end func()) net.Conn {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := resp.NewServer(resp.Options{Handler: handler, UpstreamName: "nowhere",
		Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("no upstream") }})
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		server.Shutdown(ctx)
		<-served
		end()
	})
	return conn
}

// someSession returns the session of an idle connection.
func someSession(b *testing.B) *resp.Session {
	b.Helper()
	found := make(chan *resp.Session, 1)
	mux := redcon.NewServeMux()
	mux.HandleFunc("lock", func(conn redcon.Conn, _ redcon.Command) {
		found <- resp.SessionOf(conn)
		conn.WriteRaw([]byte(":1\r\n"))
	})
	conn := serveBench(b, mux, func() {})
	if err := errors.Join(second(conn.Write(benchRequest("LOCK"))), second(conn.Read(make([]byte, 10)))); err != nil {
		b.Fatal(err)
	}
	return <-found
}

func second(_ int, err error) error { return err }

func (l *grantingLocker) AcquireAsync(r quorum.Request, done func(quorum.Lease, error)) (leave func() bool) {
	done(l.Acquire(context.Background(), r))
	return nil
}

func (l *grantingLocker) ReleaseAsync(_ quorum.ReleaseRequest, done func(bool, error)) {
	done(true, nil)
}

// bareConn takes the replies to a session in place of its connection.
type bareConn struct {
	redcon.Conn
	session *resp.Session
	reply   []byte
}

func (c *bareConn) NetConn() net.Conn { return c.session }
func (c *bareConn) WriteRaw(b []byte) { c.reply = append(c.reply[:0], b...) }

// BenchmarkBegin shows how much LOCK and UNLOCK cost on an event loop, without socket and masters.
func BenchmarkBegin(b *testing.B) {
	locker, conn := &grantingLocker{}, &bareConn{session: someSession(b)}
	service := New(Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, KeyPrefix: "lock:",
		MaxTTL: time.Minute, Tunable: Tunable{MinTTL: 10 * time.Millisecond}})
	command := func(words string) (cmd redcon.Command) {
		for word := range strings.FieldsSeq(words) {
			cmd.Args = append(cmd.Args, []byte(word))
		}
		return cmd
	}
	lock, unlock := command("lock job 10s"), command("unlock job "+aToken.String())
	done := func() {}
	b.ReportAllocs()
	for b.Loop() {
		if !service.Begin(conn, lock, done) || len(conn.reply) != 64 || !service.Begin(conn, unlock, done) ||
			string(conn.reply) != ":1\r\n" {
			b.Fatalf("got %q", conn.reply)
		}
	}
}
