package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

var (
	// errReplica means that the server is not the master, or no longer. It refuses writes.
	errReplica = errors.New("is a replica")
	// errSentinelItself means that a Sentinel has the master's address.
	errSentinelItself = errors.New("is a Sentinel itself")
)

// checkMaster asks the server for its role. A server that wants a password first passes: the
// client's own commands will show its role.
//
//	> *1\r\n$4\r\nROLE\r\n
//	< *3\r\n$6\r\nmaster\r\n:3129659\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9001\r\n$7\r\n3129242\r\n
func checkMaster(conn net.Conn) error {
	if _, err := conn.Write(encode([]string{"ROLE"})); err != nil {
		return err
	}
	r := replyReader{conn: conn}
	if err := r.skip(1); err != nil {
		return err
	}
	switch r.first {
	case "slave":
		return errReplica
	case "sentinel":
		return errSentinelItself
	}
	return nil
}

// replyReader reads replies of RESP2 without a byte more.
type replyReader struct {
	conn  net.Conn
	first string // the first bulk string
	read  int    // bytes
}

// maxRole bounds the reply to ROLE, which names every replica.
const maxRole = 64 << 10

// skip reads n replies.
func (r *replyReader) skip(n int) error {
	for ; n > 0; n-- {
		line, err := readLine(r.conn)
		if err != nil {
			return err
		}
		if r.read += len(line) + 2; r.read > maxRole || line == "" {
			return fmt.Errorf("unexpected reply to ROLE")
		}
		if !strings.ContainsRune("*$", rune(line[0])) {
			continue
		}
		size, err := strconv.Atoi(line[1:])
		if err != nil || size > maxRole {
			return fmt.Errorf("unexpected reply to ROLE")
		}
		if line[0] == '*' {
			n += max(size, 0)
			continue
		}
		if size < 0 {
			continue
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r.conn, text); err != nil {
			return err
		}
		if r.read += len(text); r.first == "" {
			r.first = string(text[:size])
		}
	}
	return nil
}
