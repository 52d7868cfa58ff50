// Package netpoll moves the bytes of sockets: event loops, non-blocking reads and writes, read
// buffers, socket options. It knows no RESP.
//
// On Linux, Pollers takes over plain TCP and Unix sockets. A watched connection has no goroutine:
// a worker of the loop reads it when bytes arrive and hands them to a callback. Workers share one
// epoll set and one queue of ready sockets, first in, first out. A socket is read once, then it
// goes to the end of the queue, so that no transfer keeps others waiting. One worker runs at
// first; more start when the running ones are busy for long.
//
// Elsewhere, and for TLS, Pollers.Adopt refuses, and a goroutine reads the connection with
// Receive.
package netpoll

import (
	"errors"
	"fmt"
)

// errTwoWait is the error of the second of two concurrent readers (or writers) of a Socket.
var errTwoWait = errors.New("two readers, or two writers, wait for one socket")

// PanicError is how watching ends when the callback panics.
type PanicError struct {
	Value any    // the value of the panic
	Stack []byte // of the worker that called it
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic on the loop: %v\n%s", e.Value, e.Stack)
}
