package tool

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"lockproxy/plain"
	"lockproxy/resp/respio"
)

// client is one connection to a proxy. One goroutine may send while another one reads.
type client struct {
	net.Conn
	name    string // of the proxy
	replies *respio.Reader
}

func newClient(conn net.Conn, name string) *client {
	return &client{Conn: conn, name: name, replies: respio.NewReader(bufio.NewReader(conn), replyLimits)}
}

// proxyReply is one reply of the proxy, or a push.
type proxyReply = respio.Reply

// replyLimits bounds a reply. A proxy sends no larger ones.
var replyLimits = respio.Limits{Line: 64 << 10, Text: 16 << 20, Elems: 1 << 20, Depth: 8, Reply: 32 << 20,
	RESP3: true}

var errReply = errors.New("the answer is not RESP")

// send writes a command.
func (c *client) send(args ...string) error {
	_, err := c.Write(respio.AppendCommand(nil, args...))
	return err
}

// next reads the next reply or push.
func (c *client) next() (r proxyReply, err error) {
	switch err = c.replies.Read(&r); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the proxy closed the connection")
	case errors.Is(err, respio.ErrMalformed), errors.Is(err, respio.ErrTooLarge):
		err = errReply
	}
	return r, err
}

// noAnswer is the cause of a context of within that has ended.
type noAnswer struct {
	to string // the command
	in time.Duration
}

func (e noAnswer) Error() string {
	switch in := plain.Duration(e.in); e.to {
	case "":
		return "no answer in " + in
	case connecting:
		return "no connection in " + in
	default:
		return "no answer to " + e.to + " in " + in
	}
}

// connecting is a noAnswer.to.
const connecting = "connect"

// within bounds the time for questions to a proxy.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, noAnswer{in: d})
}

// endOf returns the cause of the end of ctx. If that is a noAnswer, it names the command.
func endOf(ctx context.Context, command string) error {
	err := context.Cause(ctx)
	if late, ok := errors.AsType[noAnswer](err); ok {
		late.to = command
		return late
	}
	return err
}

// ask sends a command and reads its reply. It drops pushes before the reply. If ctx ends first,
// the connection cannot be used any more.
func (c *client) ask(ctx context.Context, args ...string) (proxyReply, error) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err := c.send(args...)
	for err == nil {
		var r proxyReply
		if r, err = c.next(); err == nil && r.Kind != '>' {
			return r, nil
		}
	}
	if ctx.Err() != nil {
		command := args[0]
		if command == "LOCKPROXY" {
			command += " " + args[1]
		}
		err = endOf(ctx, command)
	}
	return proxyReply{}, err
}
