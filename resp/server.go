package resp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
)

// Options say what a Server is made of.
type Options struct {
	// Handler runs the lock commands: LOCK, UNLOCK, EXTEND, LOCKINFO, LOCKPROXY. It is called with
	// complete, validated requests, one at a time for each connection, and must write one reply.
	Handler redcon.Handler
	// Begin may run a lock command without a goroutine: on the loop that has found it complete,
	// where everything before it is answered and the connection's standing is known. It must not
	// block.
	//
	// If it returns false nothing has happened, and Handler runs the command. If it returns true,
	// whoever completes the command writes one reply to conn and then calls done: once, on any
	// goroutine or loop, perhaps before Begin returns. Until then conn is that one's. done does
	// not block. SessionOf(conn) is as a handler has it, but Push may block.
	//
	// Nil, or a connection that no loop watches: Handler runs all commands.
	Begin func(conn redcon.Conn, cmd redcon.Command, done func()) (begun bool)
	// Loops watch the connections. They must outlive the server. Nil: it has its own.
	Loops *Loops

	// Dial opens a connection to the upstream, logged in if the upstream's address says so.
	// Required.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialReason puts an error of Dial into a few words for the client. Default: its text.
	DialReason func(error) string
	// UpstreamName is the upstream's address in messages.
	UpstreamName string
	// UpstreamLogin says that Dial logs in, so that a connection counts as authenticated from its
	// start (until RESET).
	UpstreamLogin bool
	// UpstreamUser is whom Dial logs in. Default: "default", who every connection is before
	// authentication.
	UpstreamUser string
	// Facts returns what is known of the upstream. It is asked often and must not block. Default:
	// a Redis without a password.
	Facts func() Facts
	// AskUser makes the upstream be asked who is logged in (ACL WHOAMI), wherever something was
	// sent that may have changed it. Without, User knows nobody from there on.
	AskUser bool
	// Reencode is for an upstream that cannot stand what Redis refuses or ignores: it gets
	// well-formed requests only.
	Reencode bool

	// MaxClients is how many connections are served at a time; more are told so and closed. Zero:
	// no limit.
	MaxClients int
	// SlowClientTimeout is how long a client may take nothing although bytes wait for it, or leave
	// a command that it began unfinished; then it is disconnected. Zero: for ever.
	SlowClientTimeout time.Duration
	// Timed is called with how long the upstream took to answer a command of a group (Groups),
	// from forwarding it until its reply was there. It is called for some commands only, one in a
	// while on each connection, not for those that block, and must not block itself. May be nil.
	Timed func(group string, took time.Duration)
	// Log may be nil.
	Log *zap.Logger
}

// Facts describe how the upstream treats a connection that has not authenticated.
type Facts = protocol.Facts

// DefaultUser is the user of a connection before any AUTH.
const DefaultUser = protocol.DefaultUser

// Server relays client connections to the upstream, each over a connection of its own, and lets a
// handler answer the lock commands, in order among the upstream's replies. The methods are safe
// for concurrent use.
type Server struct {
	o  Options
	wg sync.WaitGroup // acceptors and copiers

	conns chan net.Conn // accepted; unbuffered
	done  chan struct{} // closed when redcon's server is to end: no session is left

	loops  *Loops
	down   dialFailure
	era    atomic.Uint64 // how often Retire was called, and one
	warned atomic.Int64  // when the log was last told that the upstream cannot be reached, in ns

	mu        sync.Mutex
	sessions  map[*Session]struct{} // a session takes itself out last
	past      past
	listeners []net.Listener // closed by Shutdown
	draining  bool
	empty     chan struct{} // made by Shutdown, closed when the last session is gone
}

// NewServer returns a server that does nothing yet.
func NewServer(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.DialReason == nil {
		o.DialReason = error.Error
	}
	if o.Facts == nil {
		o.Facts = func() Facts { return Facts{Resets: true} }
	}
	s := &Server{o: o, conns: make(chan net.Conn), done: make(chan struct{}), sessions: make(map[*Session]struct{})}
	if s.loops = o.Loops; s.loops == nil {
		s.loops = NewLoops()
	}
	s.era.Store(1)
	return s
}

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("server closed")

// Serve accepts connections on all listeners until Shutdown, and returns ErrClosed then. It may be
// called once. It closes the listeners.
func (s *Server) Serve(listeners ...net.Listener) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		for _, ln := range listeners {
			ln.Close()
		}
		return ErrClosed
	}
	s.listeners = listeners
	for _, ln := range listeners {
		s.wg.Go(func() { s.accept(ln) })
	}
	if s.o.SlowClientTimeout > 0 {
		s.wg.Go(s.watchPace)
	}
	s.mu.Unlock()
	rs := redcon.NewServer("", s.handle, func(redcon.Conn) bool { return true }, nil)
	if err := rs.Serve((*merged)(s)); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return ErrClosed
}

// internalError is the reply of a command that panicked.
const internalError = "ERR internal"

// handle keeps a fault in a handler from ending the process.
func (s *Server) handle(conn redcon.Conn, cmd redcon.Command) {
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Error("panic in a command, connection closed", zap.ByteString("command", cmd.Args[0]), zap.String("panic", fmt.Sprint(r)), zap.Stack("stack"))
			writer := redcon.BaseWriter(conn)
			if own, ok := conn.(*lockConn); ok {
				writer = own.Writer
			}
			writer.SetBuffer(nil)
			conn.WriteError(internalError)
			conn.Close()
		}
	}()
	s.o.Handler.ServeRESP(conn, cmd)
}

// accept hands the connections of one listener on until it is closed. While the system has no room
// for more it waits, longer each time.
func (s *Server) accept(ln net.Listener) {
	var delay time.Duration
	for {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.o.Log.Warn("cannot accept a connection", zap.Stringer("listen", ln.Addr()), zap.Duration("again_in", delay), zap.Error(err))
			select {
			case <-time.After(delay):
			case <-s.done:
				return
			}
			continue
		}
		delay = 0
		sess := s.add(c)
		switch {
		case sess == nil:
		case sess.polled != nil:
			sess.polled.Watch(&sess.in, sess.useOnLoop, sess.resume)
		default:
			select {
			case s.conns <- sess:
			case <-s.done:
				sess.Close()
			}
		}
	}
}

// add makes a session of c, or turns c away.
func (s *Server) add(c net.Conn) *Session {
	s.mu.Lock()
	draining, full := s.draining, s.o.MaxClients > 0 && len(s.sessions) >= s.o.MaxClients
	if draining || full {
		s.past.refused++
	} else {
		s.past.accepted++
	}
	s.mu.Unlock()
	if draining || full {
		if plainSocket(c) && full { // TLS would need a handshake first
			c.SetDeadline(time.Now().Add(time.Millisecond)) // it fits the socket's buffer, or is not worth the wait
			c.Write([]byte("-ERR max number of clients reached\r\n"))
		}
		netpoll.RawClose(c)
		return nil
	}
	sess := s.newSession(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		netpoll.RawClose(sess.client)
		return nil
	}
	s.sessions[sess] = struct{}{}
	return sess
}

// newSession makes a session of c. A loop watches it if it is a plain socket, and the upstream's
// bytes need no looking after.
func (s *Server) newSession(c net.Conn) *Session {
	var polled *netpoll.Conn
	if !s.o.Reencode {
		if adopted, ok := s.loops.poll.Adopt(c); ok {
			c, polled = adopted, adopted
		}
	}
	sess := &Session{srv: s, client: c, polled: polled}
	sess.life.left, sess.life.spawn = make(chan struct{}), sess.spawn
	sess.ctx, sess.cancel = context.WithCancel(context.Background())
	sess.out.init(c, &sess.progress)
	sess.readAhead = readAhead{conn: c, polled: polled, gone: sess.life.leave, taken: &sess.progress.read, ended: make(chan struct{})}
	sess.req.Strict, sess.req.Limited = s.o.Reencode, sess.proto.Limited
	sess.proto.Init(protocol.Options{Facts: s.o.Facts, AskUser: s.o.AskUser, LoggedIn: s.o.UpstreamLogin, User: cmp.Or(s.o.UpstreamUser, DefaultUser)})
	return sess
}

func plainSocket(c net.Conn) bool {
	_, wrapped := c.(interface{ NetConn() net.Conn })
	_, direct := c.(syscall.Conn) // also with an address that is not the socket's
	return direct || !wrapped
}

// remove takes out a session that has ended.
func (s *Server) remove(sess *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, in := s.sessions[sess]; in {
		s.past.add(sess)
	}
	delete(s.sessions, sess)
	if s.empty != nil && len(s.sessions) == 0 {
		close(s.empty)
		s.empty = nil
	}
}

// all returns the sessions of the moment.
func (s *Server) all() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// SetMaxClients changes Options.MaxClients for the connections that come from here on; nobody is
// disconnected.
func (s *Server) SetMaxClients(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.MaxClients = n
}

// MaxClients returns how many clients may be connected; 0: any number.
func (s *Server) MaxClients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.MaxClients
}

// Connections returns how many clients are connected.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// drainStep is how often Shutdown looks for connections that have come to a quiet point.
const drainStep = 10 * time.Millisecond

// Shutdown ends the server: no new connections, each connection is closed as soon as nothing is
// unanswered on it, and all that are left when ctx ends. It returns after the last has gone, with
// context.Cause(ctx) if some had to be cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return ErrClosed
	}
	s.draining = true
	for _, ln := range s.listeners {
		ln.Close()
	}
	empty := make(chan struct{})
	if len(s.sessions) == 0 {
		close(empty)
	} else {
		s.empty = empty
	}
	s.mu.Unlock()

	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	var err error
	for s.wake(err != nil); ; s.wake(err != nil) {
		select {
		case <-empty:
			close(s.done)
			s.wg.Wait()
			if s.o.Loops == nil {
				s.loops.Close()
			}
			return err
		case <-ctx.Done():
			err = context.Cause(ctx)
			ctx = context.Background()
		case <-tick.C:
		}
	}
}

// wake makes the pumps of all sessions look whether they may end; with cut set it ends them.
func (s *Server) wake(cut bool) {
	for _, sess := range s.all() {
		sess.wake(cut)
	}
}

// merged is the listener that redcon serves. It goes on until the last session is gone, as redcon
// then closes every connection.
type merged Server

// Accept implements net.Listener.
func (m *merged) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It does nothing: Shutdown closes the listeners.
func (m *merged) Close() error { return nil }

// Addr implements net.Listener.
func (m *merged) Addr() net.Addr { return &net.UnixAddr{Name: "lockproxy", Net: "unix"} }
