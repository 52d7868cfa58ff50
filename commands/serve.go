package commands

import (
	"errors"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/resp"
)

// parser reads the arguments behind the name of a command. Its error is the reply, without the leading dash.
type parser func(h *handlers, argv [][]byte) (args, error)

// serve makes the handler of a command: the checks in the order that Redis makes them (transaction, arguments, authentication,
// subscriptions), then run.
func (h *handlers) serve(name string, parse parser, run func(*call)) redcon.HandlerFunc {
	return func(conn redcon.Conn, cmd redcon.Command) {
		c := &call{Conn: conn, session: resp.SessionOf(conn), name: name}
		err := h.admit(c, parse, cmd.Args[1:])
		if err != nil {
			c.WriteError(err.Error())
			return
		}
		run(c)
	}
}

var errNoAuth = errors.New("NOAUTH Authentication required.") //lint:ignore ST1005 Redis words it so

// admit parses the arguments into c and decides whether the command may run.
func (h *handlers) admit(c *call, parse parser, argv [][]byte) (err error) {
	if c.session.InTransaction() {
		return errors.New("ERR " + strings.ToUpper(c.name) + " is not allowed in transactions")
	}
	if c.args, err = parse(h, argv); err != nil {
		return err
	}
	if !c.session.Authenticated() {
		required, err := h.Gate.AuthRequired(c.session.Context())
		if err != nil || required { // an upstream that was never asked may have a password
			return errNoAuth
		}
	}
	if c.session.Subscribed() {
		return errors.New("ERR Can't execute '" + c.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return nil
}

// writeNull writes the null of the protocol version that the client speaks.
func (c *call) writeNull() {
	if c.session.RESP3() {
		c.WriteRaw([]byte("_\r\n"))
		return
	}
	c.WriteNull()
}
