package resp

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// Session is one client connection and, once it is needed, its own connection to the upstream.
//
// The pump carries the client's bytes to the upstream until a lock command comes, lets the handler
// run that, and goes on. It runs on a loop; where it may have to wait (dialling, asking, running a
// lock command, a side that takes no more) it runs on a goroutine. Where no loop watches the
// client it is redcon's goroutine that runs it, inside Read (redcon.go).
//
// The exported methods may be called from a handler while it runs its command.
type Session struct {
	// Fixed from the start.
	srv    *Server
	client net.Conn
	polled *netpoll.Conn   // client, where a loop watches it
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	out    clientWriter
	life   lifecycle

	// The pump's.
	in        netpoll.Buffer
	seen      int  // bytes of in that were there before the last read
	kept      bool // in has bytes that came behind a command and were not dealt with
	unsent    []byte
	req       scan.Requests
	begun     begun
	proto     protocol.Conn
	readAhead readAhead
	command   []byte    // what redcon is still to read of a lock command
	own       *lockConn // what the handler gets; made when it is needed first
	failed    error     // why the upstream could not be reached, while the requests read with it are answered
	opaque    bool      // nothing is recognised any more
	malformed bool      // what the client sends is no request; the upstream is to end it
	secured   bool      // the TLS handshake was begun
	onLoop    bool      // the pump runs on a loop and must not block
	step      step      // what the pump is to do next
	fresh     bool      // all that was read is dealt with, and none of it is a lock command

	address string // see Address; made when it is needed first

	undelivered func() // set by a handler, called if its reply cannot be written
	unconfirmed func() // undelivered of the last reply, while the client has sent nothing since

	// Of both, and of those who watch.
	progress progress
	latency  latency
	running  atomic.Bool   // a lock command runs
	era      atomic.Uint64 // of the server when the upstream was dialled; 0: it was not

	mu       sync.Mutex
	up       net.Conn      // nil until needed; set by the pump
	upPolled *netpoll.Conn // up, where a loop watches it
	copied   chan struct{} // closed when the copier has ended; nil without upstream; set by the pump
}

// step is what the pump does next.
type step uint8

const (
	stepPump        step = iota
	stepOwn              // a lock command is complete
	stepReset            // a RESET is to be sent; before that, whoever was set by OnEnd is told
	stepAsk              // replies may be on again, which the upstream is asked at once
	stepRefuse           // the client's bytes are no requests any more
	stepQuit             // the connection ends here: the client said QUIT and no upstream is there to answer, or it was at rest and is to end
	stepWriteFailed      // the upstream does not take any more
)

// SessionOf returns the session that a handler's connection belongs to. It panics for a connection
// that is not served by a Server.
func SessionOf(c redcon.Conn) *Session { return c.NetConn().(*Session) }

func (s *Session) log() *zap.Logger { return s.srv.o.Log }

// Context ends when the connection is torn down.
func (s *Session) Context() context.Context { return s.ctx }

// OnEnd sets the function that is called with the reason when the connection ends: any number of
// times with EndReset, then once with another End, on the goroutine that finds out. f must neither
// block nor write to the session. If the connection has ended already, f is called at once.
func (s *Session) OnEnd(f func(End)) { s.life.setOnEnd(f) }

// Gone is closed when the client has ended its input, has sent QUIT after the running command, or
// has lost its connection.
func (s *Session) Gone() <-chan struct{} { return s.life.left }

// OnGone sets the function that is called, on a goroutine of its own, when Gone is closed while a
// command waits; nil for none. If Gone is closed already, f is called too.
func (s *Session) OnGone(f func()) { s.life.setOnLeft(f) }

// Push writes b, a push frame of RESP3, between the frames of the upstream. It may be called at
// any time and from any goroutine, and returns when b is written.
func (s *Session) Push(b []byte) error { return s.out.reply(b) }

// WatchPeer makes the connection end, as EndProxy, when nothing is heard of the client's machine
// for timeout.
func (s *Session) WatchPeer(timeout time.Duration) error {
	return netpoll.WatchPeer(s.client, timeout)
}

// OnUndelivered sets what is to happen if the reply of the running command cannot be written, or
// finds that the client has closed the connection. It is called at most once, by the pump, and
// must not block.
func (s *Session) OnUndelivered(f func()) { s.undelivered = f }

// handshake does the handshake of TLS, where the client speaks TLS and it was not done yet.
func (s *Session) handshake() error {
	secure, ok := s.client.(interface{ HandshakeContext(context.Context) error })
	if s.secured || !ok {
		return nil
	}
	s.secured = true
	s.progress.await(1, true)
	defer s.progress.busy()
	if err := secure.HandshakeContext(s.ctx); err != nil {
		s.log().Debug("TLS handshake failed", zap.Stringer("client", s.client.RemoteAddr()), zap.Error(err))
		return err
	}
	return nil
}

// writeReply puts the reply of a lock command between the upstream's replies.
func (s *Session) writeReply(p []byte) error {
	err := s.out.reply(p)
	s.finish(err)
	if err != nil {
		s.life.end(eventFinish, endOf(err)) // nothing reads any more how the client ended it
	}
	return err
}

// finish ends the running command; err tells why its reply was not written.
func (s *Session) finish(err error) {
	s.running.Store(false)
	s.delivered(err)
}

// delivered sees to OnUndelivered; err tells why the reply was not written.
func (s *Session) delivered(err error) {
	f := s.undelivered
	s.undelivered = nil
	switch {
	case f == nil:
	case err != nil:
		f()
	default:
		s.unconfirmed = f
	}
}

// confirm is called at the end of the client's input, err, which may have come while a command
// ran. If the client had closed the connection by then, its system refused the reply to that
// command. Such a reply counts as not delivered. A reset without an end of input before it says
// nothing: the client may have read the reply, and its system not yet have acknowledged it.
func (s *Session) confirm(err error) {
	if f := s.unconfirmed; f != nil {
		s.unconfirmed = nil
		if err == io.EOF && netpoll.Refused(s.client) {
			f()
		}
	}
}

// finishUpstream is what happens when the client sends no more: the upstream learns it, and its
// last answers are carried out.
func (s *Session) finishUpstream(err error) {
	s.mu.Lock()
	up, copied := s.up, s.copied
	s.mu.Unlock()
	if up == nil || s.life.now() == stateClosed {
		return
	}
	if err != io.EOF {
		s.teardown()
		return
	}
	netpoll.CloseWrite(up)
	select {
	case <-copied:
	case <-time.After(lastWords): // an upstream that hangs must not keep the places of clients that have left
		s.teardown()
	}
}

// lastWords bounds how long the upstream may take to answer, and close, after the client has ended
// its input. Tests change it, before they begin.
var lastWords = 30 * time.Second

// lingerTime bounds how long a client may take to close its side after the upstream closed.
const lingerTime = time.Second

// linger ends the connection after the upstream closed it: the client gets everything, the end
// included, before the socket is closed. Closing with unread input would make the kernel throw
// away what the client has not fetched.
func (s *Session) linger() {
	s.life.end(eventUpstreamEnd, EndProxy)
	netpoll.CloseWrite(s.client)
	s.client.SetReadDeadline(time.Unix(1, 0)) // wakes the pump, which then swallows what still comes
}

// swallow reads the client's last bytes, which nobody wants any more.
func (s *Session) swallow() {
	s.readAhead.stop() // it reads the same bytes
	s.client.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, s.client, aheadMost)
}

// contain keeps a fault in the relay from ending the process: it ends this connection.
func (s *Session) contain(where string) {
	if r := recover(); r != nil {
		s.log().Error("panic, connection closed", zap.String("where", where), zap.String("panic", fmt.Sprint(r)), zap.ByteString("stack", debug.Stack()))
		s.out.close(errUpstreamClosed)
		s.teardown()
	}
}

// teardown closes both sides at once. Whoever reads or writes them gets an error: by the deadline
// first, as closing a connection may wait until nobody reads it.
func (s *Session) teardown() {
	s.life.end(eventCut, EndProxy)
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	s.cancel()
	past := time.Unix(1, 0)
	s.client.SetDeadline(past)
	if up != nil {
		up.SetDeadline(past)
		up.Close()
	}
	s.client.Close()
}

// Close ends the connection and forgets it. The pump calls it, or redcon in its place, when it is
// done.
func (s *Session) Close() error {
	s.finish(net.ErrClosed)
	s.teardown()
	s.readAhead.stop()
	s.readAhead.drop()
	s.out.close(net.ErrClosed)
	s.mu.Lock()
	copied := s.copied
	s.mu.Unlock()
	if copied != nil {
		<-copied // the server may end as soon as the last session is gone
	}
	s.srv.remove(s)
	return nil
}
