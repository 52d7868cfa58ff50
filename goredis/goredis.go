// Package goredis keeps the answers of a server from ending the process through go-redis.
//
// go-redis allocates the length that a line announces before the bytes are there, calls itself for
// every level of nesting, and panics at some replies that Redis does not send. A process survives
// neither a failed allocation nor a full stack. [Conn] lets only bounded replies through, and
// [Call] turns a panic into an error.
package goredis

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// BadReplyError is the fault of a reply, in words that follow the name of the server:
// "announces a reply of 1099511627776 bytes, at most 16777216 are read".
type BadReplyError struct{ text string }

// Error returns the words.
func (e *BadReplyError) Error() string { return e.text }

var errMalformed = &BadReplyError{"answered something that is not Redis' protocol"}

// Conn returns c for a Dialer of go-redis with Protocol 2. A Read that meets a reply beyond the
// limits of this package, or of another protocol, fails with a *BadReplyError, and so does every
// later one. It passes all other bytes as they come. Calls of Read must not overlap.
func Conn(c net.Conn) net.Conn {
	checked := &checkedConn{Conn: c}
	if socket, ok := c.(syscall.Conn); ok { // go-redis asks it whether the server has hung up
		return struct {
			*checkedConn
			syscall.Conn
		}{checked, socket}
	}
	return checked
}

type checkedConn struct {
	net.Conn
	replies replyScanner
	err     error // set once a reply was refused
}

// Read implements net.Conn.
func (c *checkedConn) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(b)
	if bad := c.replies.check(b[:n]); bad != nil {
		c.err = bad
		return 0, bad
	}
	return n, err
}

// Call calls f, which uses a client of go-redis on this goroutine. If go-redis panics, Call
// returns a *BadReplyError.
func Call(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errMalformed
		}
	}()
	return f()
}

// Receive calls PubSub.ReceiveTimeout in a [Call]. It replaces PubSub.Channel, which reads on a
// goroutine of go-redis.
func Receive(ctx context.Context, pubsub *redis.PubSub, timeout time.Duration) (message any, err error) {
	err = Call(func() (err error) {
		message, err = pubsub.ReceiveTimeout(ctx, timeout)
		return err
	})
	return message, err
}
