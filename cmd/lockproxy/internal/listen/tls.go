package listen

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// handshakeTimeout bounds a client's TLS handshake.
const handshakeTimeout = 10 * time.Second

// secureListener speaks TLS on the connections that it accepts.
type secureListener struct {
	net.Listener
	config *tls.Config
	log    *zap.Logger
	limit  oncePerSecond
}

// Accept returns a connection before its handshake, so that a slow client does not delay others.
func (l *secureListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &secureConn{Conn: tls.Server(conn, l.config), listener: l}, nil
}

// secureConn makes the handshake at the first Read or Write. Until then one goroutine at a time
// may use it.
type secureConn struct {
	*tls.Conn
	listener *secureListener
	done     atomic.Bool
}

// Read implements net.Conn.
func (c *secureConn) Read(p []byte) (int, error) {
	if err := c.handshake(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *secureConn) Write(p []byte) (int, error) {
	if err := c.handshake(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// handshake uses a context because the connection's deadlines belong to the caller. When the
// context ends, it closes the connection.
func (c *secureConn) handshake() error {
	if c.done.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if err == nil {
		c.done.Store(true)
		return nil
	}
	if c.listener.limit.allow() {
		c.listener.log.Warn("TLS handshake with a client failed", zap.Stringer("client", c.RemoteAddr()), zap.Error(err))
	}
	return fmt.Errorf("tls: %w", err)
}

// oncePerSecond allows one call per second. The zero value is ready.
type oncePerSecond struct{ last atomic.Int64 }

func (s *oncePerSecond) allow() bool {
	now, last := time.Now().UnixNano(), s.last.Load()
	return now-last > int64(time.Second) && s.last.CompareAndSwap(last, now)
}
