package resp

import (
	"bytes"
	"net"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/scan"
)

// ownCommand returns a command as redcon makes it. The handler may keep it.
func ownCommand(argv [][]byte) redcon.Command {
	size := len("*16\r\n")
	for _, arg := range argv {
		size += len("$2048\r\n") + len(arg) + len("\r\n")
	}
	cmd := redcon.Command{Raw: appendCommand(make([]byte, 0, size), argv, len(argv)), Args: make([][]byte, len(argv))}
	at := len(cmd.Raw)
	for i := len(argv) - 1; i >= 0; i-- { // backwards: line ends have two bytes, headers any number
		at -= len(argv[i]) + 2
		cmd.Args[i] = cmd.Raw[at : at+len(argv[i]) : at+len(argv[i])]
		at = bytes.LastIndexByte(cmd.Raw[:at], '$')
	}
	scan.Lower(cmd.Args[0]) // as the handlers are named
	return cmd
}

// lockConn is the connection that a handler gets for a client that redcon does not serve. It keeps
// the reply until the command has ended.
type lockConn struct {
	*redcon.Writer
	rest
	session net.Conn
	reply   written
	closed  bool // Close was called
}

// newLockConn returns the connection of a session.
func newLockConn(session net.Conn) *lockConn {
	c := &lockConn{session: session}
	c.Writer = redcon.NewWriter(&c.reply)
	return c
}

// written is the last output of a Writer. It is valid until the next one.
type written []byte

// Write implements io.Writer.
func (w *written) Write(p []byte) (int, error) {
	*w = p
	return len(p), nil
}

// take returns the reply.
func (c *lockConn) take() []byte {
	c.Flush() // cannot fail
	return c.reply
}

// rest has the methods of redcon.Conn that the handlers do not use: contexts, detaching, looking
// ahead. They panic, which ends the connection.
type rest struct{ redcon.Conn }

// Close makes the connection end after the reply.
func (c *lockConn) Close() error {
	c.closed = true
	return nil
}

// NetConn returns the Session.
func (c *lockConn) NetConn() net.Conn { return c.session }

// RemoteAddr returns the client's address.
func (c *lockConn) RemoteAddr() string { return c.session.RemoteAddr().String() }

var _ redcon.Conn = (*lockConn)(nil)

// appendCommand appends the request made of argv, whose header says that it has count arguments.
func appendCommand(b []byte, argv [][]byte, count int) []byte {
	b = redcon.AppendArray(b, count)
	for _, arg := range argv {
		b = redcon.AppendBulk(b, arg)
	}
	return b
}
