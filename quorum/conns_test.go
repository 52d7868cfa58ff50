package quorum

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
)

// reading makes a Quorum call after for all bytes from a master, before it learns of them.
func reading(m int, after func() error) func(*Options) {
	return func(o *Options) {
		dial := o.Masters[m].Dial
		o.Masters[m].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &readConn{c, after}, nil
		}
	}
}

type readConn struct {
	net.Conn
	after func() error
}

func (c *readConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		err = c.after()
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// away makes a Quorum not reach a master until reached is set.
func away(m int, reached *atomic.Bool) func(*Options) {
	return func(o *Options) {
		dial := o.Masters[m].Dial
		o.Masters[m].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !reached.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return dial(ctx, network, addr)
		}
	}
}

// deafConn is a connection whose answers are lost while deaf is set.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}
