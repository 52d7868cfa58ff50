package resp

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"lockproxy/resp/internal/netpoll"
)

// tlsLike is a connection whose Write waits for a handshake that never comes, and whose Close
// waits for a client that does not read.
type tlsLike struct{ net.Conn }

func (c tlsLike) NetConn() net.Conn                    { return c.Conn }
func (c tlsLike) Write([]byte) (int, error)            { select {} }
func (c tlsLike) Close() error                         { select {} }
func (c tlsLike) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }

// TestRefusalDoesNotWait: turning a client away over the limit never waits, least of all with the
// server's lock held.
func TestRefusalDoesNotWait(t *testing.T) {
	s := NewServer(Options{MaxClients: 1})
	near, far := net.Pipe()
	defer near.Close()
	if s.add(far) == nil {
		t.Fatal("the first client was turned away")
	}
	silent, other := net.Pipe()
	done := make(chan *Session)
	go func() { done <- s.add(tlsLike{other}) }()
	if within(t, "refusal", done) != nil {
		t.Error("the second client was let in")
	}
	silent.SetDeadline(time.Now().Add(patience))
	if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection was not closed: %v", err)
	}
}

// TestCutDoesNotWait: the connections of a session are closed at once, also over TLS.
func TestCutDoesNotWait(t *testing.T) {
	client, here := net.Pipe()
	upstream, there := net.Pipe()
	s := NewServer(Options{}).newSession(tlsLike{here})
	if !s.up.open(tlsLike{there}, nil, func() bool { return false }) {
		t.Fatal("the session has ended")
	}
	done := make(chan struct{})
	go func() { s.cut(); close(done) }()
	within(t, "the cut", done)
	for _, c := range []net.Conn{client, upstream} {
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection was not closed: %v", err)
		}
	}
}

// oneWriter is a connection that ends its output only between two writes, like one of TLS.
type oneWriter struct {
	net.Conn
	writing sync.Mutex
}

func (c *oneWriter) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.Conn.Write(b)
}

func (c *oneWriter) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return nil
}

// TestCloseWaitsForNoPush: the orderly end of a session is not held up by a push to a client that
// does not read.
func TestCloseWaitsForNoPush(t *testing.T) {
	_, here := net.Pipe()
	s := NewServer(Options{}).newSession(&oneWriter{Conn: here})
	go s.Push([]byte(">1\r\n+x\r\n"))
	eventually(t, "a push that cannot go on", s.progress.writing.Load)
	done := make(chan struct{})
	go func() { s.close(); close(done) }()
	within(t, "the end", done)
}

// TestReadAheadGivesBackEachChunk: a connection that always has bytes read ahead keeps memory for
// those alone.
func TestReadAheadGivesBackEachChunk(t *testing.T) {
	var a readAhead
	var x netpoll.Buffer
	for range 1000 {
		for len(a.chunks) < 6 {
			a.in.Grew(len(a.in.Room()))
			if !a.allowLocked(len(a.in.Bytes())) {
				t.Fatal("no memory left")
			}
			a.keepLocked()
		}
		a.take(&x)
		x.Skip(netpoll.ChunkSize)
	}
	if a.shared > 6*netpoll.ChunkSize {
		t.Errorf("%d bytes of the shared memory taken for 5 chunks", a.shared)
	}
	a.drop()
	if used := aheadUsed.Load(); used != 0 {
		t.Errorf("%d bytes were not given back", used)
	}
}
