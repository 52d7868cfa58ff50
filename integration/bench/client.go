package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"lockproxy/resp/respio"
)

// client is a plain connection that sends one command at a time, like redis-benchmark. It does no
// more work than any client must do.
type client struct {
	conn    net.Conn
	replies *respio.Reader
	frame   []byte // of the last reply
	out     []byte
}

func dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, replies: respio.NewReader(bufio.NewReader(conn), replyLimits)}, nil
}

// do sends a command and returns the first line of its reply, and the body of a bulk
// string. The bytes are good until the next call.
func (c *client) do(args ...string) (line, body []byte, err error) {
	if err := c.send(args...); err != nil {
		return nil, nil, err
	}
	return c.receive()
}

// send is the first half of do, and receive the second.
func (c *client) send(args ...string) error {
	c.out = respio.AppendCommand(c.out[:0], args...)
	_, err := c.conn.Write(c.out)
	return err
}

func (c *client) receive() (line, body []byte, err error) {
	if c.frame, err = c.replies.AppendFrame(c.frame[:0]); err != nil {
		return nil, nil, err
	}
	end := bytes.IndexByte(c.frame, '\n') + 1
	if c.frame[0] == '$' && len(c.frame) > end {
		body = c.frame[end : len(c.frame)-len("\r\n")]
	}
	return c.frame[:end], body, nil
}

// replyLimits are beyond the values that the measurements read.
var replyLimits = respio.Limits{Line: 64 << 10, Text: 64 << 20, Elems: 1 << 20, Depth: 8, Reply: 64 << 20, RESP3: true}

// expect sends one command on a connection of its own; any other reply is an error.
func expect(addr, want string, args ...string) error {
	got, err := ask(addr, args...)
	if err == nil && got != want {
		err = fmt.Errorf("%s at %s answered %q", args[0], addr, got)
	}
	return err
}

// ask sends one command on a connection of its own and returns the reply's first line, or the body
// of a bulk string.
func ask(addr string, args ...string) (string, error) {
	c, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer c.conn.Close()
	c.conn.SetDeadline(time.Now().Add(patience))
	line, body, err := c.do(args...)
	if body != nil {
		return string(body), err
	}
	return string(line), err
}

// served returns how often a Redis ran a command since CONFIG RESETSTAT, and how often it refused
// or failed it.
func served(addr, command string) (calls, failed int, err error) {
	text, err := ask(addr, "INFO", "commandstats")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		fields, found := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_"+strings.ToLower(command)+":")
		if !found {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			name, value, _ := strings.Cut(field, "=")
			n, _ := strconv.Atoi(value)
			switch name {
			case "calls":
				calls = n
			case "rejected_calls", "failed_calls":
				failed += n
			}
		}
	}
	return calls, failed, nil
}
