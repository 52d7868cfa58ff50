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

// limited is a listener with at most so many connections open at a time. When all places are taken, the one that has
// asked nothing for longest gives its place up to the next that comes. That is a connection without a whole request: a
// silent one, one that sends its request slowly, or one that rests between two requests. Otherwise a few hundred
// clients that ask nothing would keep a health check waiting. If all have requests under way, the next one waits.
type limited struct {
	net.Listener
	free chan struct{}
	done chan struct{}
	once sync.Once

	mu      sync.Mutex
	asking  map[net.Conn]time.Time // connections without a whole request, since when
	waiting bool                   // a connection was accepted and has no place yet
}

func newLimited(ln net.Listener, n int) *limited {
	return &limited{Listener: ln, free: make(chan struct{}, n), done: make(chan struct{}), asking: map[net.Conn]time.Time{}}
}

// Accept implements net.Listener. It takes the connection first: nobody gives a place up before it is needed.
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

// note is told of every change of a connection, as http.Server.ConnState. A connection becomes active when the header
// of its request is complete.
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

// whole reads a request's body before next sees the request: one whose body does not come is not under way.
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

// lacks notes that conn has no whole request.
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

// has notes that the request of conn is complete, or that conn has ended.
func (l *limited) has(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asking, conn)
}

// makeRoom closes the connection that has asked nothing for longest, or the next one that has nothing to ask.
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

// limitedConn gives its place back once.
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

// evict closes conn at once. TLS' own Close would wait for a client that takes nothing.
func evict(conn net.Conn) {
	if secure, ok := conn.(*limitedConn).Conn.(*tls.Conn); ok {
		secure.NetConn().Close()
	}
	conn.Close()
}
