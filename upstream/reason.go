package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"lockproxy/plain"
)

// Reason returns an error of this package in a few words, for one line of a reply: "connection
// refused", "i/o timeout", "no such host", or the upstream's reply. It has no line ends, no
// addresses of the proxy's side and at most 160 bytes. Nil gives "".
func Reason(err error) string {
	if err == nil {
		return ""
	}
	return plain.Short(reason(err))
}

func reason(err error) string {
	if reply, ok := errors.AsType[*ReplyError](err); ok {
		return reply.Text
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "i/o timeout"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "i/o timeout"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "connection closed"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}
