package upstream

import (
	"errors"
	"net"
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
	reply, err := ask(conn, "ROLE")
	if err != nil || len(reply.Elems) == 0 {
		return err
	}
	switch reply.Elems[0].Text {
	case "slave":
		return errReplica
	case "sentinel":
		return errSentinelItself
	}
	return nil
}
