package resp

import (
	"context"
	"net"
	"time"

	"go.uber.org/zap"
)

// redconConn is the net.Conn that redcon serves for connections that no loop watches: TLS, and all
// connections on systems without loops. redcon reads only lock commands from it, validated and
// encoded anew, and writes their replies to it. Session embeds it.
type redconConn struct {
	s       *Session
	command []byte // the part of a lock command that redcon has not read
}

var _ net.Conn = (*redconConn)(nil)

// Read implements net.Conn: it returns the bytes of a lock command.
func (c *redconConn) Read(b []byte) (n int, err error) {
	s := c.s
	defer s.contain("pump")
	if len(c.command) == 0 {
		s.runner.finish(nil)
		err := c.handshake()
		if err == nil {
			err = s.pump.next()
		}
		if err != nil {
			s.finishUpstream(err)
			return 0, err
		}
		c.command = ownCommand(s.pump.req.Argv).Raw
		s.running.Store(true)
		s.in.ahead.start(s.in.bytes())
	}
	n = copy(b, c.command)
	c.command = c.command[n:]
	return n, nil
}

// handshake does the handshake of TLS, if the client speaks TLS. After the first call it has no
// effect.
func (c *redconConn) handshake() error {
	s := c.s
	secure, ok := s.client.(interface{ HandshakeContext(context.Context) error })
	if !ok {
		return nil
	}
	s.progress.await(1, true)
	defer s.progress.busy()
	if err := secure.HandshakeContext(s.ctx); err != nil {
		s.srv.o.Log.Debug("TLS handshake failed", zap.Stringer("client", s.client.RemoteAddr()), zap.Error(err))
		return err
	}
	return nil
}

// Write implements net.Conn: it inserts the reply of a lock command between the upstream's
// replies.
func (c *redconConn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := c.s.runner.writeReply(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close implements net.Conn.
func (c *redconConn) Close() error {
	c.s.close()
	return nil
}

// LocalAddr implements net.Conn.
func (c *redconConn) LocalAddr() net.Addr { return c.s.client.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *redconConn) RemoteAddr() net.Addr { return c.s.client.RemoteAddr() }

// SetDeadline implements net.Conn. It has no effect: the session sets the deadlines of its
// sockets.
func (c *redconConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn. It has no effect, like SetDeadline.
func (c *redconConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. It has no effect, like SetDeadline.
func (c *redconConn) SetWriteDeadline(time.Time) error { return nil }
