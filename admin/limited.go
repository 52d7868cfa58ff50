package admin

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limited is a listener with at most so many connections open at a time. When all places are taken, a connection on which nothing is asked
// gives its place up to one that comes: else a hundred clients that keep theirs open would keep a health check waiting. Without any, those
// that come wait in the system's queue.
type limited struct {
	net.Listener
	free chan struct{}
	done chan struct{}
	once sync.Once

	mu   sync.Mutex
	idle map[net.Conn]time.Time // connections between two requests, since when
}

func newLimited(ln net.Listener, n int) *limited {
	return &limited{Listener: ln, free: make(chan struct{}, n), done: make(chan struct{}), idle: map[net.Conn]time.Time{}}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	default:
		l.closeIdle()
		select {
		case l.free <- struct{}{}:
		case <-l.done:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &limitedConn{Conn: conn, free: l.free}, nil
}

// note is told of every change of a connection, as http.Server.ConnState.
func (l *limited) note(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	delete(l.idle, conn)
	full := len(l.free) == cap(l.free)
	if state == http.StateIdle && !full {
		l.idle[conn] = time.Now()
	}
	l.mu.Unlock()
	if state == http.StateIdle && full {
		conn.Close()
	}
}

// closeIdle closes the connection that rests for longest, if any does.
func (l *limited) closeIdle() {
	l.mu.Lock()
	var oldest net.Conn
	for conn, since := range l.idle {
		if oldest == nil || since.Before(l.idle[oldest]) {
			oldest = conn
		}
	}
	delete(l.idle, oldest)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
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
