package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// client is a plain connection that sends one command at a time, as redis-benchmark does: it costs
// what a client must cost.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// do sends a command and returns the first line of its reply, and behind it the body of a bulk
// string. The bytes are good until the next call.
func (c *client) do(args ...string) (line, body []byte, err error) {
	if err := c.send(args...); err != nil {
		return nil, nil, err
	}
	return c.receive()
}

// send is the first half of do, and receive the second.
func (c *client) send(args ...string) error {
	c.out = append(strconv.AppendInt(append(c.out[:0], '*'), int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(arg)), 10), "\r\n"...)
		c.out = append(append(c.out, arg...), "\r\n"...)
	}
	_, err := c.conn.Write(c.out)
	return err
}

func (c *client) receive() (line, body []byte, err error) {
	if line, err = c.in.ReadSlice('\n'); err != nil {
		return nil, nil, err
	}
	if line[0] != '$' {
		return line, nil, nil
	}
	size, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || size < 0 {
		return line, nil, err
	}
	line = append([]byte(nil), line...) // reading on may move it
	body = make([]byte, size+2)
	if _, err = io.ReadFull(c.in, body); err != nil {
		return nil, nil, err
	}
	return line, body[:size], nil
}

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
