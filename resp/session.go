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
)

// Session is one client connection and, once it is needed, its own connection to the upstream. It is the net.Conn that redcon serves:
// its Read pumps the client's bytes to the upstream until a command of ours comes, which is all that redcon gets to see; its Write puts
// the reply in its place.
//
// The exported methods may be called from a handler while it runs its command.
type Session struct {
	srv    *Server
	client net.Conn
	src    source
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	in      inbox
	held    int                             // bytes of in that were there before the last read
	use     func(mayBlock bool) (stop bool) // processRead
	unsent  []byte                          // of what is to be forwarded: what the upstream did not take at once
	looped  bool                            // a loop carries both directions; set by the pump before the copier starts
	onLoop  bool                            // that is where the pump is now
	loop    *loop                           // nil: the connection is not one for a loop
	req     requestScanner
	st      state
	out     outlet
	marker  marker
	ahead   ahead
	pace    pace
	timing  timing
	replied chan struct{} // capacity 1; a reply of ours was written
	frame   []byte        // what redcon is still to read of a command of ours, in frames
	frames  []byte        // its memory
	failed  error         // why the upstream could not be reached, while the requests read with it are answered
	tunnel  bool          // nothing is recognised any more
	astray  bool          // what the client sends is no request; the upstream is to end it
	shaken  bool          // the TLS handshake was begun
	step    step          // what the pump is to do next
	fresh   bool          // what is read next was sent after all before it was dealt with, none of it a command of ours

	undelivered func() // set by a handler, called if its reply cannot be written
	unproven    func() // undelivered of the last reply, while the client has sent nothing since
	gone        chan struct{}
	goneOnce    sync.Once

	mu     sync.Mutex
	ended  atomic.Bool   // the upstream closed the connection
	quit   atomic.Bool   // the client said QUIT
	drain  atomic.Bool   // the server shuts down or the upstream was replaced: the connection is to end at the next quiet point
	era    atomic.Uint64 // of the server when the upstream was dialled; 0: it was not
	up     net.Conn      // nil until needed; set by the pump under mu
	copied chan struct{} // closed when the copier has ended; nil without upstream; set by the pump under mu
	closed bool
	busy   bool // a command of ours runs
	onEnd  func(End)
	endSet bool // the end was reported, or is to be as soon as onEnd is set
	endWas End
}

// step is what the pump does next.
type step uint8

const (
	stepPump        step = iota
	stepOwn              // a command of ours is complete
	stepSettle           // a RESET was sent whose answer is uncertain, and so would be that of an AUTH behind it
	stepRefuse           // the client's bytes are no requests any more
	stepQuit             // the connection ends here: the client said QUIT and no upstream is there to answer, or it was at rest and is to end
	stepWriteFailed      // the upstream does not take any more
)

// SessionOf returns the session that a handler's connection belongs to. It panics for a connection that is not served by a Server.
func SessionOf(c redcon.Conn) *Session { return c.NetConn().(*Session) }

func (s *Session) log() *zap.Logger { return s.srv.o.Log }

// Context ends when the connection is torn down.
func (s *Session) Context() context.Context { return s.ctx }

// InTransaction tells whether the connection is inside MULTI.
func (s *Session) InTransaction() bool {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	return s.st.inTx
}

// Subscribed tells whether the connection speaks RESP2 and has subscriptions, so that Redis would refuse ordinary commands.
func (s *Session) Subscribed() bool {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	return !s.st.resp3 && s.st.subs != [2]int{}
}

// RESP3 tells whether the client has switched to RESP3.
func (s *Session) RESP3() bool {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	return s.st.resp3
}

// Authenticated tells whether the upstream accepted an AUTH of this connection: the client's own, or that of the address.
func (s *Session) Authenticated() bool {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	return s.st.authed
}

// Push writes b, a push frame of RESP3, between the frames of the upstream. It may be called at any time and from any goroutine, and returns when
// b is written.
func (s *Session) Push(b []byte) error { return s.out.reply(b) }

// WatchPeer makes the connection end, as EndProxy, when nothing is heard of the client's machine for timeout.
func (s *Session) WatchPeer(timeout time.Duration) error {
	return watchPeer(socket(s.client), timeout)
}

// OnUndelivered sets what is to happen if the reply of the running command cannot be written, or finds that the client has closed the
// connection. It is called at most once, from redcon's goroutine, and must not block.
func (s *Session) OnUndelivered(f func()) { s.undelivered = f }

// Read implements net.Conn for redcon: it returns the bytes of a command of ours, validated and encoded anew.
func (s *Session) Read(p []byte) (n int, err error) {
	defer s.contain("pump")
	if len(s.frame) == 0 {
		s.finish(nil)
		err := s.handshake()
		if err == nil {
			err = s.pump()
		}
		if err != nil {
			return 0, s.end(err)
		}
		s.mu.Lock()
		s.busy = true
		s.mu.Unlock()
		s.ahead.start(s.in.bytes())
	}
	n = copy(p, s.frame)
	s.frame = s.frame[n:]
	return n, nil
}

// handshake does that of TLS, if there is one to do.
func (s *Session) handshake() error {
	secure, ok := s.client.(interface{ HandshakeContext(context.Context) error })
	if s.shaken || !ok {
		return nil
	}
	s.shaken = true
	s.pace.await(1, true)
	defer s.pace.busy()
	if err := secure.HandshakeContext(s.ctx); err != nil {
		s.log().Debug("TLS handshake failed", zap.Stringer("client", s.client.RemoteAddr()), zap.Error(err))
		return err
	}
	return nil
}

// Write implements net.Conn for redcon: it puts the reply of a command of ours between the upstream's replies.
func (s *Session) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	err := s.out.reply(p)
	s.finish(err)
	s.noteReplied()
	if err != nil {
		s.over(endOf(err)) // redcon closes the connection, and nothing reads any more how the client ended it
		return 0, err
	}
	return len(p), nil
}

// noteReplied lets a copier go on that waits until a reply of ours has its place.
func (s *Session) noteReplied() {
	select {
	case s.replied <- struct{}{}:
	default:
	}
}

// finish ends the running command; err tells why its reply was not written.
func (s *Session) finish(err error) {
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
	f := s.undelivered
	s.undelivered = nil
	switch {
	case f == nil:
	case err != nil:
		f()
	default:
		s.unproven = f
	}
}

// prove is called when the client sends no more, or is found to have done so while a command ran: if it refused the reply to that, as it had
// closed the connection already, that counts as not delivered. err is the end of its input. A reset that follows no end of input says
// nothing: the client may have read the reply, and its system not yet have acknowledged it.
func (s *Session) prove(err error) {
	if f := s.unproven; f != nil {
		s.unproven = nil
		if err == io.EOF && refused(s.client) {
			f()
		}
	}
}

// end is what happens when the client sends no more: the upstream learns it, its last answers are carried out, then redcon may close.
func (s *Session) end(err error) error {
	s.mu.Lock()
	up, copied, closed := s.up, s.copied, s.closed
	s.mu.Unlock()
	if up == nil || closed {
		return err
	}
	if err != io.EOF {
		s.teardown()
		return err
	}
	closeWrite(up)
	select {
	case <-copied:
	case <-time.After(lastWords): // an upstream that hangs must not keep the places of clients that have left
		s.teardown()
	}
	return err
}

// lastWords bounds how long the upstream may take to answer, and close, after the client has ended its input. Tests change it, before they begin.
var lastWords = 30 * time.Second

// lingerTime bounds how long a client may take to close its side after the upstream closed.
const lingerTime = time.Second

// linger ends the connection after the upstream closed it: the client gets everything, the end included, before the socket is
// closed. Closing with unread input would make the kernel throw away what the client has not fetched.
func (s *Session) linger() {
	s.ended.Store(true)
	closeWrite(s.client)
	s.client.SetReadDeadline(time.Unix(1, 0)) // wakes the pump, which then swallows what still comes
}

// swallow reads the client's last bytes, which nobody wants any more.
func (s *Session) swallow() {
	s.ahead.stop() // it reads the same bytes
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

// teardown closes both sides at once. Whoever reads or writes them gets an error: by the deadline first, as Close waits until nobody
// is inside source.receive.
func (s *Session) teardown() {
	s.mu.Lock()
	up := s.up
	s.closed = true
	s.mu.Unlock()
	s.over(EndProxy)
	s.cancel()
	past := time.Unix(1, 0)
	s.client.SetDeadline(past)
	if up != nil {
		up.SetDeadline(past)
		up.Close()
	}
	s.client.Close()
}

// Close implements net.Conn for redcon, which calls it when it is done with the connection.
func (s *Session) Close() error {
	s.finish(net.ErrClosed)
	s.teardown()
	s.ahead.stop()
	s.ahead.drop()
	s.out.close(net.ErrClosed)
	s.srv.remove(s)
	return nil
}

// LocalAddr implements net.Conn.
func (s *Session) LocalAddr() net.Addr { return s.client.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *Session) RemoteAddr() net.Addr { return s.client.RemoteAddr() }

// SetDeadline implements net.Conn. It does nothing: deadlines of the sockets are the session's own.
func (s *Session) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn. It does nothing, as SetDeadline.
func (s *Session) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. It does nothing, as SetDeadline.
func (s *Session) SetWriteDeadline(time.Time) error { return nil }

var _ net.Conn = (*Session)(nil)
