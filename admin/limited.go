package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// limited is a listener with a limit on open connections. If it is reached, the connection that
// has been idle for longest is closed for the next one. Idle means without a complete request:
// silent, slow to send its request, or between two requests. Otherwise a few hundred idle clients
// would block a health check. If all connections have requests, the next one waits.
type limited struct {
	net.Listener
	free chan struct{}
	done chan struct{}
	once sync.Once

	mu      sync.Mutex
	asking  map[net.Conn]time.Time // idle connections, since when
	waiting bool                   // a connection was accepted and has no place yet
}

func newLimited(ln net.Listener, n int) *limited {
	return &limited{Listener: ln, free: make(chan struct{}, n), done: make(chan struct{}), asking: map[net.Conn]time.Time{}}
}

// Accept implements net.Listener. It accepts a connection before it closes an idle one.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.free <- struct{}{}:
	default:
		l.makeRoom()
		select {
		case l.free <- struct{}{}:
		case <-l.done:
			conn.Close()
			return nil, net.ErrClosed
		}
		l.mu.Lock()
		l.waiting = false
		l.mu.Unlock()
	}
	return &limitedConn{Conn: conn, free: l.free}, nil
}

// note is called at every change of a connection's state, as http.Server.ConnState. A connection
// is active once the header of its request is complete.
func (l *limited) note(conn net.Conn, state http.ConnState) {
	if state == http.StateNew || state == http.StateIdle {
		l.lacks(conn)
	} else {
		l.has(conn)
	}
}

// connKey finds the connection of a request in its context.
type connKey struct{}

func keepConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// whole reads the body of a request before next sees it. A connection whose body does not come
// stays idle.
func (l *limited) whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			conn := r.Context().Value(connKey{}).(net.Conn)
			l.lacks(conn)
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			l.has(conn)
			if err != nil {
				w.Header().Set("Connection", "close")
				http.Error(w, "the body is too long, or did not come", http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// lacks notes that conn is idle.
func (l *limited) lacks(conn net.Conn) {
	l.mu.Lock()
	leaves := l.waiting
	if leaves {
		l.waiting = false // one is enough
	} else {
		l.asking[conn] = time.Now()
	}
	l.mu.Unlock()
	if leaves {
		evict(conn)
	}
}

// has notes that conn has a complete request, or has ended.
func (l *limited) has(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asking, conn)
}

// makeRoom closes the connection that has been idle for longest, or the next one that becomes
// idle.
func (l *limited) makeRoom() {
	l.mu.Lock()
	var oldest net.Conn
	for conn, since := range l.asking {
		if oldest == nil || since.Before(l.asking[oldest]) {
			oldest = conn
		}
	}
	delete(l.asking, oldest)
	l.waiting = oldest == nil
	l.mu.Unlock()
	if oldest != nil {
		evict(oldest)
	}
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitedConn frees its place once.
type limitedConn struct {
	net.Conn
	free chan struct{}
	once sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.free })
	return err
}

// evict closes conn at once. The Close of TLS would wait for a client that does not read.
func evict(conn net.Conn) {
	if secure, ok := conn.(*limitedConn).Conn.(*tls.Conn); ok {
		secure.NetConn().Close()
	}
	conn.Close()
}
