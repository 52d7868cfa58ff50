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

// limited is a listener with a limit on open connections. If it is reached, one is closed for the
// next, so that no crowd delays a health check: the one that has been idle for longest, or without
// idle ones the one that has been at its request for longest, if that is slow. Idle means without
// a complete request: silent, slow to send its request, or between two requests.
type limited struct {
	net.Listener
	free chan struct{}
	done chan struct{}
	once sync.Once

	mu      sync.Mutex
	asking  map[net.Conn]time.Time // idle connections, since when
	busy    map[net.Conn]time.Time // those with a complete request, since when
	waiting bool                   // a connection was accepted and has no place yet
}

// slow is how long a request may take where others wait for a place. It may be a long profile, or
// its client does not read the answer.
const slow = 50 * time.Millisecond

func newLimited(ln net.Listener, n int) *limited {
	return &limited{Listener: ln, free: make(chan struct{}, n), done: make(chan struct{}),
		asking: map[net.Conn]time.Time{}, busy: map[net.Conn]time.Time{}}
}

// Accept implements net.Listener. It accepts a connection before it closes another.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.free <- struct{}{}:
	default:
		if !l.place() {
			conn.Close()
			return nil, net.ErrClosed
		}
	}
	return &limitedConn{Conn: conn, free: l.free}, nil
}

// place waits until a connection has left, and makes one leave. It reports false after Close.
func (l *limited) place() bool {
	defer func() {
		l.mu.Lock()
		l.waiting = false
		l.mu.Unlock()
	}()
	for {
		l.makeRoom()
		select {
		case l.free <- struct{}{}:
			return true
		case <-l.done:
			return false
		case <-time.After(slow): // every busy connection has been slow
		}
	}
}

// note is the http.Server.ConnState function: the server calls it at every change of a
// connection's state. A connection is active once the header of its request is complete.
func (l *limited) note(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle:
		l.lacks(conn)
	case http.StateActive:
		l.has(conn)
	default:
		l.ended(conn)
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
	delete(l.busy, conn)
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

// has notes that conn has a complete request.
func (l *limited) has(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asking, conn)
	l.busy[conn] = time.Now()
}

// ended notes that conn is closed.
func (l *limited) ended(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asking, conn)
	delete(l.busy, conn)
}

// makeRoom closes the connection that has been idle for longest, or the slowest, or the next one
// that becomes idle.
func (l *limited) makeRoom() {
	l.mu.Lock()
	leaves := oldest(l.asking)
	if leaves == nil {
		if leaves = oldest(l.busy); leaves != nil && time.Since(l.busy[leaves]) < slow {
			leaves = nil
		}
	}
	delete(l.asking, leaves)
	delete(l.busy, leaves)
	l.waiting = leaves == nil
	l.mu.Unlock()
	if leaves != nil {
		evict(leaves)
	}
}

// oldest is the connection of the earliest time, nil if there is none.
func oldest(conns map[net.Conn]time.Time) (first net.Conn) {
	for conn, since := range conns {
		if first == nil || since.Before(conns[first]) {
			first = conn
		}
	}
	return first
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
