package listen

import (
	"bufio"
	"bytes"
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
	"go.uber.org/zap"
)

const (
	// headerTimeout bounds the time to read a header.
	headerTimeout = 5 * time.Second
	// MaxHeaders is how many headers a listener reads at a time at most. Beyond that it closes the
	// oldest connection without one.
	MaxHeaders = 1024
	// The longest header of version 1, and the most that one of version 2 may have after its first
	// 16 bytes.
	mostV1, mostV2 = 107, 2048
)

// proxiedListener accepts connections that begin with a PROXY header, version 1 or 2. It closes
// others.
type proxiedListener struct {
	net.Listener
	log    *zap.Logger
	limit  oncePerSecond
	ready  chan net.Conn
	failed chan error
	done   chan struct{} // closed by Close
	once   sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex
	pending list.List // connections whose header is being read, oldest first
}

func newProxied(listener net.Listener, headers int, log *zap.Logger) *proxiedListener {
	l := &proxiedListener{Listener: listener, log: log, ready: make(chan net.Conn), failed: make(chan error),
		done: make(chan struct{})}
	l.wg.Go(func() { l.acceptAll(headers) })
	return l
}

// Accept returns a connection whose header has been read.
func (l *proxiedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close also closes the connections whose header is being read.
func (l *proxiedListener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		close(l.done)
		err = l.Listener.Close()
		l.wg.Wait()
	})
	return err
}

// acceptAll reads the headers of all connections in parallel, so that a slow one does not delay
// others. If all slots are taken, the connection that has been silent for longest is closed.
func (l *proxiedListener) acceptAll(headers int) {
	slots := make(chan struct{}, headers)
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.failed <- err: // the caller pauses before it accepts again
			case <-l.done:
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			l.closeOldest() // if there is none, all wait for Accept, which comes soon
			select {
			case slots <- struct{}{}:
			case <-l.done:
				conn.Close()
				return
			}
		}
		place := l.enter(conn)
		l.wg.Go(func() {
			defer func() { <-slots }()
			l.readHeader(place)
		})
	}
}

// closeOldest closes the connection whose header has been read for longest, if any.
func (l *proxiedListener) closeOldest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if oldest := l.pending.Front(); oldest != nil {
		l.pending.Remove(oldest)
		oldest.Value.(net.Conn).Close()
	}
}

// enter notes that the header of conn is being read.
func (l *proxiedListener) enter(conn net.Conn) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.PushBack(conn)
}

// leave reports whether the connection was still there. It may have been closed to make room.
func (l *proxiedListener) leave(place *list.Element) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.pending.Len()
	l.pending.Remove(place)
	return l.pending.Len() < before
}

var errNoRoom = errors.New("it has sent no header, and others have come")

// readHeader reads the header of the connection at place and passes the connection to Accept.
func (l *proxiedListener) readHeader(place *list.Element) {
	conn := place.Value.(net.Conn)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-l.done:
			conn.SetDeadline(time.Unix(1, 0))
		case <-stop:
		}
	})
	conn.SetReadDeadline(time.Now().Add(headerTimeout))
	from, err := readProxyHeader(conn)
	close(stop)
	wg.Wait()
	if !l.leave(place) {
		err = errNoRoom
	}
	if err != nil {
		if l.limit.allow() {
			l.log.Warn("connection without a valid PROXY header, closed", zap.Stringer("from", conn.RemoteAddr()),
				zap.Error(err))
		}
		conn.Close()
		return
	}
	conn.SetDeadline(time.Time{})
	if tcp, ok := conn.(*net.TCPConn); ok && from != nil {
		conn = &proxiedConn{tcp, from}
	}
	select {
	case l.ready <- conn:
	case <-l.done:
		conn.Close()
	}
}

// proxiedConn is a connection that another address has made.
type proxiedConn struct {
	*net.TCPConn
	from net.Addr
}

// RemoteAddr is the client's address as the header has it.
func (c *proxiedConn) RemoteAddr() net.Addr { return c.from }

// NetConn is the socket.
func (c *proxiedConn) NetConn() net.Conn { return c.TCPConn }

// readProxyHeader reads a header and not a byte more. from is nil if the sender speaks for itself,
// for example in a health check.
//
//	> PROXY TCP4 192.0.2.1 198.51.100.1 56324 6380\r\n
func readProxyHeader(r io.Reader) (from net.Addr, err error) {
	header, err := cutProxyHeader(r)
	if err != nil {
		return nil, err
	}
	parsed, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(header)))
	if err != nil {
		return nil, err
	}
	if addr, ok := parsed.SourceAddr.(*net.TCPAddr); ok && !parsed.Command.IsLocal() {
		return addr, nil
	}
	return nil, nil
}

var errNoHeader = errors.New("it begins with something else")

// cutProxyHeader returns the bytes of a header. It reads the signature byte by byte, to notice
// anything else at once. It reads the rest as the version says: the bytes after it are the
// client's.
func cutProxyHeader(r io.Reader) ([]byte, error) {
	b := make([]byte, 0, mostV1)
	more := func(n int) error {
		from := len(b)
		b = append(b, make([]byte, n)...)
		_, err := io.ReadFull(r, b[from:])
		return err
	}
	for {
		if err := more(1); err != nil {
			return nil, err
		}
		switch {
		case bytes.Equal(b, proxyproto.SIGV2):
			if err := more(4); err != nil {
				return nil, err
			}
			size := int(binary.BigEndian.Uint16(b[14:]))
			if size > mostV2 {
				return nil, fmt.Errorf("header of %d bytes", size)
			}
			return b, more(size)
		case bytes.HasPrefix(b, proxyproto.SIGV1):
			if b[len(b)-1] == '\n' {
				return b, nil
			}
			if len(b) == mostV1 {
				return nil, fmt.Errorf("header of more than %d bytes", mostV1)
			}
		case !bytes.HasPrefix(proxyproto.SIGV1, b) && !bytes.HasPrefix(proxyproto.SIGV2, b):
			return nil, errNoHeader
		}
	}
}
