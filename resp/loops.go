package resp

import (
	"net"

	"lockproxy/resp/internal/netpoll"
)

// Loops are the event loops of a Server. They also watch the connections to the masters. So the
// same workers read the commands of clients and the replies of masters, in the same batches. On
// systems without loops Adopt refuses. Safe for concurrent use.
type Loops struct{ poll *netpoll.Pollers }

// NewLoops returns loops without a connection; they start with the first. The caller must
// close them.
func NewLoops() *Loops { return &Loops{netpoll.NewPollers()} }

// AfterBatch sets the function that a worker calls after each batch of connections that were ready
// and that it has served. Lock commands that began in the batch, and replies of masters, only
// queue their writes; f writes all of them at once. Several workers may call f at a time. It must
// neither block nor panic.
func (l *Loops) AfterBatch(f func()) { l.poll.AfterBatch(f) }

// Adopt takes over a plain TCP or Unix connection that package net opened, with the bytes that
// are unread; the caller must not use c any more. It returns false, and leaves c as it is, if it
// cannot.
func (l *Loops) Adopt(c net.Conn) (*Polled, bool) {
	conn, ok := l.poll.Adopt(c)
	if !ok {
		return nil, false
	}
	return &Polled{Conn: conn, poll: conn}, true
}

// Close ends the workers and waits for them. All connections must be closed before.
func (l *Loops) Close() { l.poll.Close() }

// Polled is a connection that a loop can watch. Until Watch is called, it may be read as any
// other.
type Polled struct {
	net.Conn
	poll *netpoll.Socket // the same
	in   netpoll.Buffer
}

// TryWrite writes as much of b as the connection takes at once. It never waits.
func (p *Polled) TryWrite(b []byte) (n int, err error) { return p.poll.TryWrite(b) }

// Unread reports whether bytes have arrived that the loop has not read. It does not block.
func (p *Polled) Unread() bool { return netpoll.Unread(p.poll) }

// SetLinger is that of net.TCPConn.
func (p *Polled) SetLinger(sec int) error { return netpoll.SetLinger(p.poll, sec) }

// Watch makes the loop read the connection from now on, and returns at once. received gets the
// bytes that came since its last call; it must not keep them. It is called on the loop, by one
// worker at a time, and must not block.
//
// Watching ends when received returns true; then the error is nil. It also ends at the end of the
// input (io.EOF), after a failed read, when the read deadline passes, when the connection is
// closed (net.ErrClosed), or when received panics.
//
// Then ended is called, exactly once and after the last call of received: by a worker, by the
// goroutine that closes the connection or sets the deadline, or by Watch itself. It must not block
// either. It may call Watch again.
func (p *Polled) Watch(received func(b []byte) (stop bool), ended func(err error)) {
	p.poll.Watch(&p.in, func() bool {
		b := p.in.Bytes()
		p.in.Skip(len(b))
		return received(b)
	}, ended)
}
