package resp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
)

// Session is one client connection and, once it is needed, its own connection to the upstream.
//
// Its parts own its state: life whether it may go on; proto the upstream's view of it; in the
// client's bytes and out the way back; up the way to the upstream. The pump carries bytes from in
// to up until a lock command comes, which the runner runs; a copier carries bytes from the
// upstream to out.
//
// A handler may call the exported methods while it runs its command.
type Session struct {
	srv     *shared
	client  net.Conn
	polled  *netpoll.Socket // client, if a loop watches it
	ctx     context.Context // ends with the connection
	cancel  context.CancelFunc
	onClose func() // called when the session has ended

	life  lifecycle
	proto protocol.Conn
	in    inbound
	out   outbound
	up    uplink

	pump   pump
	runner runner
	redconConn

	progress progress
	latency  latency
	address  string      // see Address; made when it is needed
	running  atomic.Bool // a lock command runs
}

// newSession returns a session that does not read yet. polled is client, if a loop can watch it.
func newSession(srv *shared, client net.Conn, polled *netpoll.Socket) *Session {
	s := &Session{srv: srv, client: client, polled: polled}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.life.init(srv.spawn)
	s.proto.Init(srv.o.protocol())
	s.in.init(client, polled, &s.progress, s.life.leave)
	s.out.init(client, &s.progress)
	s.pump.s, s.runner.s, s.redconConn.s = s, s, s
	s.pump.req.Limited = s.proto.Limited
	if srv.o.Judge != nil {
		s.pump.req.Guard(s.runner.judge, s.runner.absent)
	}
	return s
}

// SessionOf returns the session that a handler's connection belongs to. It panics for a connection
// that is not served by a Server.
func SessionOf(c redcon.Conn) *Session { return c.NetConn().(*Session) }

// Context ends with the connection.
func (s *Session) Context() context.Context { return s.ctx }

// watch lets the loop read the client.
func (s *Session) watch() { s.polled.Watch(&s.in.buf, s.pump.readOnLoop, s.runner.watchEnded) }

// OnEnd sets the function that is called with the reason when the connection ends: any number of
// times with EndReset, then once with another End, on the goroutine that finds out. f must neither
// block nor write to the session. If the connection has ended already, f is called at once.
func (s *Session) OnEnd(f func(End)) { s.life.setOnEnd(f) }

// ClientClosed returns a channel that is closed when the client has ended its input, has sent QUIT
// after the running command, or has lost its connection.
func (s *Session) ClientClosed() <-chan struct{} { return s.life.left }

// OnClientClosed sets the function that is called, on a goroutine of its own, when that channel is
// closed while a command waits; nil for none. If it is closed already, f is called too.
func (s *Session) OnClientClosed(f func()) { s.life.setOnLeft(f) }

// OnUndelivered sets the function that is called if the reply of the running command cannot be
// written, or if the client had closed the connection before. It is called at most once, by the
// pump or the goroutine that writes the reply, and must not block.
func (s *Session) OnUndelivered(f func()) { s.pump.delivery.pending = f }

// Push writes b, a push frame of RESP3, between the frames of the upstream. It may be called at
// any time and from any goroutine, and returns when b is written.
func (s *Session) Push(b []byte) error { return s.out.reply(b) }

// WatchPeer ends the connection with EndProxy when the client's machine is silent for timeout.
func (s *Session) WatchPeer(timeout time.Duration) error {
	return netpoll.WatchPeer(s.client, timeout)
}

// Address returns the client's address as text, for other people: host:port, or "unix" for a
// client of a Unix socket. A handler may call it while it runs its command.
func (s *Session) Address() string {
	if s.address == "" {
		s.address = "unix"
		if a := s.RemoteAddr(); a != nil && a.Network() != "unix" {
			s.address = a.String()
		}
	}
	return s.address
}

// contain ends the connection after a panic, which would otherwise end the process.
func (s *Session) contain(where string) {
	if r := recover(); r != nil {
		s.srv.o.Log.Error("panic, connection closed", zap.String("where", where), zap.String("panic", fmt.Sprint(r)),
			zap.ByteString("stack", debug.Stack()))
		s.out.close(errUpstreamClosed)
		s.cut()
	}
}

// drainStep is the pause between two looks at a connection that is to end: by Shutdown and Retire,
// until it is at rest, and by awaitTaken.
const drainStep = 10 * time.Millisecond

// wake makes the pump check whether the connection may end; with cut set it ends it.
func (s *Session) wake(cut bool) {
	first := s.life.drain()
	switch {
	case cut:
		s.cut()
	case first || s.life.draining() && !s.running.Load() && s.proto.AllAnswered():
		s.client.SetReadDeadline(time.Unix(1, 0)) // otherwise it cannot end yet, and the pump will notice when it can
	}
}

// lastReplyTimeout bounds how long the upstream may take to answer, and close, after the client
// has ended its input. Tests change it before they begin.
var lastReplyTimeout = 30 * time.Second

// finishUpstream passes the end of the client's input, err, to the upstream, and waits until the
// client has its last replies.
func (s *Session) finishUpstream(err error) {
	up, copied := s.up.get()
	if up == nil || s.life.now() == stateClosed {
		return
	}
	if err != io.EOF {
		s.cut()
		return
	}
	netpoll.CloseWrite(up)
	select {
	case <-copied:
	case <-time.After(lastReplyTimeout): // an upstream that hangs must not keep the place of a client that has left
		s.cut()
	}
}

// lingerTime bounds each wait for a client at the end of its connection: for it to take what was
// written, and to close its side.
const lingerTime = time.Second

// linger sends the client the end of input after the upstream closed, and makes the pump discard
// the client's last bytes. If the socket were closed with unread input, the kernel would throw
// away the replies that the client has not fetched.
func (s *Session) linger() {
	s.life.end(causeUpstreamEnd, EndProxy)
	s.endOutput()
	s.client.SetReadDeadline(time.Unix(1, 0)) // wakes the pump
}

// endOutput sends the client the end of our output. Over TLS that waits for a write that is under
// way, such as a push, which therefore gets lingerTime at most.
func (s *Session) endOutput() {
	s.client.SetWriteDeadline(time.Now().Add(lingerTime))
	netpoll.CloseWrite(s.client)
}

// awaitTaken waits until the client's system has the replies, for lingerTime at most, because a
// reset would take them away (see linger). Bytes that the client still sends are discarded.
func (s *Session) awaitTaken() {
	for end := time.Now().Add(lingerTime); s.mayLoseReplies() && time.Now().Before(end); {
		s.client.SetReadDeadline(time.Now().Add(drainStep))
		if _, err := io.CopyN(io.Discard, s.client, aheadMost); !errors.Is(err, os.ErrDeadlineExceeded) {
			return // the client has closed, too, or sends very much
		}
	}
}

// mayLoseReplies reports whether replies are on their way to the client, or bytes of the client
// are unread.
func (s *Session) mayLoseReplies() bool {
	queued, _ := netpoll.Queued(s.client)
	return queued > 1 || netpoll.Unread(s.client) // the end of our output counts as one
}

// discard reads the client's last bytes.
func (s *Session) discard() {
	s.in.ahead.stop() // it reads the same bytes
	s.client.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, s.client, aheadMost)
}

// cut closes both sides at once. Their readers and writers get an error: by the deadline first,
// because closing a connection may wait for its reader. Over TLS no close_notify is sent, which
// could wait for a client that does not read.
func (s *Session) cut() {
	s.life.end(causeCut, EndProxy)
	up, _ := s.up.get()
	s.cancel()
	past := time.Unix(1, 0)
	s.client.SetDeadline(past)
	if up != nil {
		up.SetDeadline(past)
		netpoll.RawClose(up)
	}
	netpoll.RawClose(s.client)
}

// close ends the connection and forgets it, when the pump has ended.
func (s *Session) close() {
	s.runner.finish(net.ErrClosed)
	s.endOutput()
	if s.pump.step == stepQuit || s.life.now() == stateLingering {
		s.awaitTaken()
	}
	s.cut()
	s.in.ahead.stop()
	s.in.ahead.drop()
	s.out.close(net.ErrClosed)
	if _, copied := s.up.get(); copied != nil {
		<-copied // the server may end when the last session has
	}
	s.onClose()
}
