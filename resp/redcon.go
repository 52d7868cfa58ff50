package resp

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/scan"
)

// Where a loop watches the client, the pump gives lock commands to the handler by itself, on a
// goroutine that lives for as long as there is something to do. All other connections (TLS,
// systems without loops, an upstream that needs Reencode) are served by redcon: Session is the
// net.Conn that it serves, and all it gets to read are lock commands, validated and encoded anew.

// run is the pump on a goroutine, for a client that a loop watches. stopped is why the loop
// watches it no more.
func (s *Session) run(stopped error) {
	err := s.pumpAndServe(stopped)
	if err == errWatched {
		return
	}
	s.finishUpstream(err)
	s.Close()
}

// pumpAndServe pumps and runs lock commands until the connection ends, or nothing is there and the
// loop watches again.
func (s *Session) pumpAndServe(stopped error) (err error) {
	err = net.ErrClosed
	defer s.contain("pump")
	if err = s.stoppedWatching(stopped); err != nil {
		return err
	}
	for {
		if err = s.pump(); err != nil {
			return err
		}
		if err = s.serveCommand(); err != nil {
			return err
		}
	}
}

// resume is called where the loop watches the client no more.
func (s *Session) resume(stopped error) {
	if !s.stopsBehind(stopped) {
		s.srv.wg.Go(func() { s.run(stopped) })
	}
}

// stoppedWatching deals with what the loop met.
func (s *Session) stoppedWatching(stopped error) error {
	s.onLoop = false
	s.progress.busy()
	if panicked, ok := stopped.(*netpoll.PanicError); ok {
		s.log().Error("panic, connection closed", zap.String("where", "pump"), zap.Error(panicked))
		if s.begun.broken {
			s.writeReply(redcon.AppendError(nil, internalError))
		}
		s.teardown()
		return net.ErrClosed
	}
	if s.kept && stopped != nil && !errors.Is(stopped, os.ErrDeadlineExceeded) {
		s.readAhead.end(stopped) // behind what is there
		return nil
	}
	return s.receiveEnded(stopped)
}

// serveCommand lets the handler run the lock command that is complete, and writes its reply.
func (s *Session) serveCommand() error {
	conn := s.lockConn()
	s.running.Store(true)
	s.readAhead.start(s.in.Bytes())
	s.srv.handle(conn, ownCommand(s.req.Argv))
	err := s.writeReply(conn.take())
	if conn.closed && err == nil {
		return net.ErrClosed
	}
	return err
}

// lockConn returns what a handler gets of the connection.
func (s *Session) lockConn() *lockConn {
	if s.own == nil {
		s.own = &lockConn{s: s}
		s.own.Writer = redcon.NewWriter(&s.own.reply)
	}
	return s.own
}

// ownCommand returns a command as redcon makes it: the handler may keep it.
func ownCommand(argv [][]byte) redcon.Command {
	size := len("*16\r\n")
	for _, arg := range argv {
		size += len("$2048\r\n") + len(arg) + len("\r\n")
	}
	cmd := redcon.Command{Raw: appendCommand(make([]byte, 0, size), argv, len(argv)), Args: make([][]byte, len(argv))}
	at := len(cmd.Raw)
	for i := len(argv) - 1; i >= 0; i-- { // from behind: the line ends have two bytes, the headers are of any length
		at -= len(argv[i]) + 2
		cmd.Args[i] = cmd.Raw[at : at+len(argv[i]) : at+len(argv[i])]
		at = bytes.LastIndexByte(cmd.Raw[:at], '$')
	}
	scan.Lower(cmd.Args[0]) // as the handlers are named
	return cmd
}

// lockConn is what a handler gets of a connection that redcon does not serve. What is written to
// it is sent when the command is over.
type lockConn struct {
	*redcon.Writer
	rest
	s      *Session
	reply  written
	closed bool
}

// written is what a Writer has written last. It is good until more is written to that.
type written []byte

// Write implements io.Writer.
func (w *written) Write(p []byte) (int, error) {
	*w = p
	return len(p), nil
}

// take returns the reply.
func (c *lockConn) take() []byte {
	c.Flush() // cannot fail
	return c.reply
}

// rest are the methods of redcon.Conn that no handler here has a use for: contexts, detaching,
// looking ahead. Called, they panic, which ends the connection.
type rest struct{ redcon.Conn }

// Close makes the connection end behind the reply.
func (c *lockConn) Close() error {
	c.closed = true
	return nil
}

// NetConn returns the Session.
func (c *lockConn) NetConn() net.Conn { return c.s }

// RemoteAddr returns the client's address.
func (c *lockConn) RemoteAddr() string { return c.s.client.RemoteAddr().String() }

var (
	_ redcon.Conn = (*lockConn)(nil)
	_ net.Conn    = (*Session)(nil)
)

// Read implements net.Conn for redcon: it returns the bytes of a lock command.
func (s *Session) Read(p []byte) (n int, err error) {
	defer s.contain("pump")
	if len(s.command) == 0 {
		s.finish(nil)
		err := s.handshake()
		if err == nil {
			err = s.pump()
		}
		if err != nil {
			s.finishUpstream(err)
			return 0, err
		}
		s.command = ownCommand(s.req.Argv).Raw
		s.running.Store(true)
		s.readAhead.start(s.in.Bytes())
	}
	n = copy(p, s.command)
	s.command = s.command[n:]
	return n, nil
}

// Write implements net.Conn for redcon: it puts the reply of a lock command between the upstream's
// replies.
func (s *Session) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.writeReply(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// LocalAddr implements net.Conn.
func (s *Session) LocalAddr() net.Addr { return s.client.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *Session) RemoteAddr() net.Addr { return s.client.RemoteAddr() }

// Address returns the client's address as text, for other people: host:port, or "unix" for a client
// of a Unix socket. As InTransaction it may be called from a handler while it runs its command.
func (s *Session) Address() string {
	if s.address == "" {
		s.address = "unix"
		if a := s.RemoteAddr(); a != nil && a.Network() != "unix" {
			s.address = a.String()
		}
	}
	return s.address
}

// SetDeadline implements net.Conn. It does nothing: deadlines of the sockets are the session's
// own.
func (s *Session) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn. It does nothing, as SetDeadline.
func (s *Session) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. It does nothing, as SetDeadline.
func (s *Session) SetWriteDeadline(time.Time) error { return nil }
