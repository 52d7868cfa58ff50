package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// client is one connection to a proxy. One goroutine may send while another one reads.
type client struct {
	net.Conn
	name   string // of the proxy
	reader *bufio.Reader
}

func newClient(conn net.Conn, name string) *client {
	return &client{Conn: conn, name: name, reader: bufio.NewReader(conn)}
}

// reply is one reply of RESP2 or RESP3, or a push.
type reply struct {
	kind byte    // its first byte; a simple string is '+', a bulk string '$', a push '>'
	null bool    // of any kind
	text string  // unless it is a list
	list []reply // of arrays, sets, pushes and maps; of maps, keys and values in turn
}

// Limits of a reply. A proxy sends no larger ones.
const (
	maxReplyText = 16 << 20
	maxReplyList = 1 << 20
	maxNesting   = 8
)

var errReply = errors.New("the answer is not RESP")

// send writes a command.
func (c *client) send(args ...string) error {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := c.Write(b)
	return err
}

// next reads the next reply or push.
func (c *client) next() (reply, error) {
	r, err := c.read(0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the proxy closed the connection")
	}
	return r, err
}

// ask sends a command and reads its reply. It drops pushes before the reply. If ctx ends first,
// the connection cannot be used any more.
func (c *client) ask(ctx context.Context, args ...string) (reply, error) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err := c.send(args...)
	for err == nil {
		var r reply
		if r, err = c.next(); err == nil && r.kind != '>' {
			return r, nil
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return reply{}, err
}

func (c *client) read(depth int) (reply, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" || depth > maxNesting {
		return reply{}, errReply
	}
	r := reply{kind: line[0], text: line[1:]}
	switch r.kind {
	case '+', '-', ':', ',', '#', '(':
		return r, nil
	case '_':
		r.null = true
		return r, nil
	}
	n, err := strconv.Atoi(r.text)
	if err != nil {
		return r, errReply
	}
	r.text = ""
	if n < 0 {
		r.null = true
		return r, nil
	}
	return c.readBody(r, n, depth)
}

// readBody reads the rest of a reply of n bytes or entries.
func (c *client) readBody(r reply, n, depth int) (reply, error) {
	switch r.kind {
	case '$', '=', '!':
		if n > maxReplyText {
			return r, errReply
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(c.reader, b)
		r.text = string(b[:n])
		if r.kind == '!' {
			r.kind = '-'
		}
		return r, err
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return r, errReply
	}
	if n > maxReplyList {
		return r, errReply
	}
	for range n {
		entry, err := c.read(depth + 1)
		if err != nil {
			return r, err
		}
		r.list = append(r.list, entry)
	}
	if r.kind == '|' { // attributes come before the reply that they belong to
		return c.read(depth + 1)
	}
	return r, nil
}

// fields returns a map, which is a flat array in RESP2.
func (r reply) fields() map[string]string {
	m := make(map[string]string, len(r.list)/2)
	for i := 0; i+1 < len(r.list); i += 2 {
		m[r.list[i].text] = r.list[i+1].text
	}
	return m
}
