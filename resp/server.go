package resp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/stat"
)

// Server relays client connections to the upstream, each over a connection of its own, and lets a
// handler answer the lock commands, in order among the upstream's replies. The methods are safe
// for concurrent use.
type Server struct {
	shared

	conns chan net.Conn // accepted; unbuffered
	done  chan struct{} // closed when no session is left, which ends redcon's server

	mu        sync.Mutex
	sessions  map[*Session]struct{} // Session.close removes it, last of all
	past      past
	listeners []net.Listener // closed by Shutdown
	draining  bool
	empty     chan struct{} // made by Shutdown, closed when the last session has ended
}

// NewServer returns a server without a listener.
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
	if o.Others == nil {
		o.Others = func() int { return 0 }
	}
	s := &Server{shared: shared{o: o}, conns: make(chan net.Conn), done: make(chan struct{}),
		sessions: make(map[*Session]struct{})}
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

// accept starts a session for each connection of ln until that is closed. While the system has no
// room for more, it waits, longer each time.
func (s *Server) accept(ln net.Listener) {
	var delay time.Duration
	for {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.o.Log.Warn("cannot accept a connection", zap.Stringer("listen", ln.Addr()), zap.Duration("again_in", delay),
				zap.Error(err))
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
			sess.watch()
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
	others := s.o.Others() // not under mu, which two servers would take of each other
	s.mu.Lock()
	draining, full := s.draining, s.o.MaxClients > 0 && len(s.sessions)+others >= s.o.MaxClients
	if draining || full {
		s.past.refused++
	} else {
		s.past.accepted++
	}
	s.mu.Unlock()
	if draining || full {
		if plainSocket(c) && full { // TLS would need a handshake first
			c.SetDeadline(time.Now().Add(time.Second)) // only on a busy machine: it fits the empty buffer of a socket
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

// newSession makes a session of c. A loop watches it if it is a plain socket.
func (s *Server) newSession(c net.Conn) *Session {
	var polled *netpoll.Socket
	if adopted, ok := s.loops.poll.Adopt(c); ok {
		c, polled = adopted, adopted
	}
	sess := newSession(&s.shared, c, polled)
	sess.onClose = func() { s.remove(sess) }
	return sess
}

func plainSocket(c net.Conn) bool {
	_, wrapped := c.(interface{ NetConn() net.Conn })
	_, direct := c.(syscall.Conn) // also with an address that is not the socket's
	return direct || !wrapped
}

// remove forgets a session that has ended.
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

// all returns the current sessions.
func (s *Server) all() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// SetMaxClients changes Options.MaxClients for later connections. It disconnects no client.
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

// Shutdown ends the server: it accepts no more connections, closes each connection as soon as all
// its requests are answered, and closes the rest when ctx ends. It returns after the last has
// ended, with context.Cause(ctx) if some had to be cut off.
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

// wake makes the pump of each session check whether it may end; with cut set it ends them.
func (s *Server) wake(cut bool) {
	for _, sess := range s.all() {
		sess.wake(cut)
	}
}

// Retire ends the connections whose upstream connection was dialled before the call, because the
// upstream is another server now. Each ends as soon as all its requests are answered and no
// transaction is open. The rest is cut off when ctx ends. Retire returns after the last has ended.
// It may be called again before it has returned.
func (s *Server) Retire(ctx context.Context) {
	now := s.era.Add(1)
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	for cut := false; ; {
		old := s.dialledBefore(now)
		if len(old) == 0 {
			return
		}
		for _, sess := range old {
			sess.wake(cut)
		}
		select {
		case <-ctx.Done():
			cut, ctx = true, context.Background()
		case <-tick.C:
		}
	}
}

// dialledBefore returns the sessions that have, or are about to have, an upstream connection from
// before era now.
func (s *Server) dialledBefore(now uint64) []*Session {
	return slices.DeleteFunc(s.all(), func(sess *Session) bool {
		era := sess.up.era.Load()
		return era == 0 || era >= now
	})
}

// watchPace disconnects slow clients until the server ends.
func (s *Server) watchPace() {
	tick := time.NewTicker(max(s.o.SlowClientTimeout/paceSteps, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		for _, sess := range s.all() {
			queued, taken := netpoll.Queued(sess.client)
			if why := sess.progress.slow(queued, taken, time.Now(), s.o.SlowClientTimeout); why != "" {
				s.o.Log.Info("slow client disconnected", zap.Stringer("client", sess.client.RemoteAddr()),
					zap.String("reason", why))
				sess.cut()
			}
		}
	}
}

// Stats are counts of a server.
type Stats = stat.Traffic

// past has the counts of the sessions that have ended. Those of the others stay in the session, so
// that counting costs the relay no time.
type past struct {
	accepted, refused        uint64 // guarded by Server.mu, like the rest
	received, sent, commands uint64
}

// add takes over the counts of a session that ends. Server.mu is held.
func (p *past) add(sess *Session) {
	p.received += sess.progress.read.Load()
	p.sent += sess.progress.written.Load()
	p.commands += sess.proto.Sent()
}

// Stats returns the counts of this moment. It goes through all sessions.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Stats{Clients: len(s.sessions), Accepted: s.past.accepted, Refused: s.past.refused,
		Received: s.past.received, Sent: s.past.sent, Commands: s.past.commands, Markers: s.markers.Load()}
	for sess := range s.sessions {
		all.Received += sess.progress.read.Load()
		all.Sent += sess.progress.written.Load()
		sent := sess.proto.Sent()
		all.Commands += sent
		all.Unanswered += sent - min(sent, sess.proto.Received()) // more than were expected count as none
		if sess.up.era.Load() != 0 {
			all.Upstreams++
		}
	}
	return all
}

// merged is the listener that redcon serves. It stays open until the last session has ended,
// because redcon closes every connection after that.
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

// Close implements net.Listener. It has no effect: Shutdown closes the listeners.
func (m *merged) Close() error { return nil }

// Addr implements net.Listener.
func (m *merged) Addr() net.Addr { return &net.UnixAddr{Name: "lockproxy", Net: "unix"} }
