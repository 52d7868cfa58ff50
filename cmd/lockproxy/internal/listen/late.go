package listen

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/conf"
	"lockproxy/plain"
)

// lateEvery is how often a lateListener tries to get its address.
const lateEvery = 100 * time.Millisecond

// errListens means that a Unix socket is in use.
var errListens = errors.New("another process listens there")

// lateListener listens once another process has left the address. With reuse-port two processes
// run side by side, and operators must know which one they talk to. The old one keeps admin-listen
// until it ends. Then the new one takes it.
type lateListener struct {
	open func() (net.Listener, error)
	addr net.Addr
	log  *zap.Logger
	done chan struct{} // closed by Close

	mu     sync.Mutex
	ln     net.Listener // nil until the address is free
	closed bool
}

var _ net.Listener = (*lateListener)(nil)

// Late listens at a. With mayWait, if another process has a, the listener takes a over when that
// process has ended.
func Late(ctx context.Context, a conf.Address, mode fs.FileMode, mayWait bool, log *zap.Logger) (net.Listener, error) {
	open := func() (net.Listener, error) { return open(context.WithoutCancel(ctx), a, mode, false) }
	ln, err := open()
	taken := plain.InUse(err) || errors.Is(err, errListens)
	if !taken || !mayWait {
		return ln, err
	}
	var addr net.Addr = &net.UnixAddr{Name: a.Addr, Net: "unix"}
	if a.Network != "unix" {
		if addr, err = net.ResolveTCPAddr(a.Network, a.Addr); err != nil {
			return nil, err
		}
	}
	log.Warn("admin-listen is in use: it is taken over when the other process has ended",
		zap.Stringer("admin_listen", addr))
	return &lateListener{open: open, addr: addr, log: log, done: make(chan struct{})}, nil
}

// Accept implements net.Listener.
func (l *lateListener) Accept() (net.Conn, error) {
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for {
		ln, err := l.listener()
		if err != nil {
			return nil, err
		}
		if ln != nil {
			return ln.Accept()
		}
		select {
		case <-tick.C:
		case <-l.done:
		}
	}
}

// listener returns the listener, or nil while the address is in use.
func (l *lateListener) listener() (net.Listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, net.ErrClosed
	case l.ln != nil:
		return l.ln, nil
	}
	ln, err := l.open()
	if err != nil {
		return nil, nil
	}
	l.ln = ln
	l.log.Info("admin-listen is taken over", zap.Stringer("admin_listen", l.addr))
	return ln, nil
}

// Close implements net.Listener.
func (l *lateListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	close(l.done)
	if l.ln == nil {
		return nil
	}
	return l.ln.Close()
}

// Addr implements net.Listener.
func (l *lateListener) Addr() net.Addr { return l.addr }
