package commands

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/plain"
	"lockproxy/stat"
)

// parser reads the arguments behind the name of a command. Its error is the reply, without the leading dash.
type parser func(s *Service, argv [][]byte) (args, error)

// command is one of our commands.
type command struct {
	name  string // in lower case
	parse parser
	run   func(*call)     // writes the reply; may wait
	begin func(*loopCall) // asks the masters without waiting; nil: only run can do it
}

// serve makes the handler of a command: the checks in their order (transaction, arguments, authentication,
// subscriptions, permission), then run.
func (s *Service) serve(how command) redcon.HandlerFunc {
	return func(conn redcon.Conn, cmd redcon.Command) {
		c := newCall(how, conn)
		defer func() { s.report(&c) }() // a panic, too
		if err := s.prepare(&c, how.parse, cmd.Args[1:]); err != nil {
			c.refuse(err)
		} else {
			how.run(&c)
			c.outcome = cmp.Or(c.outcome, stat.OutcomeOK)
		}
		conn.WriteRaw(c.reply)
	}
}

// errMustAsk says that only a question to the upstream tells whether the command may run.
var errMustAsk = errors.New("the upstream is to be asked")

var errNoAuth = errors.New("NOAUTH Authentication required.") //lint:ignore ST1005 Redis words it so

// admit parses the arguments into c and decides whether the command may run.
func (s *Service) prepare(c *call, parse parser, argv [][]byte) (err error) {
	if c.session.InTransaction() {
		return errors.New("ERR " + strings.ToUpper(c.name) + " is not allowed in transactions")
	}
	if c.args, err = parse(s, argv); err != nil {
		return err
	}
	if err := s.authenticate(c); err != nil {
		return err
	}
	if c.session.Subscribed() { // before the permission: who is logged in cannot be asked there
		return errors.New("ERR Can't execute '" + c.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return s.permit(c)
}

// authenticate decides whether the connection has shown who it is, as far as the upstream wants that. LOCKPROXY on a Unix socket is for whoever
// may open the socket, so that operators see the proxy also while its upstream is away.
func (s *Service) authenticate(c *call) error {
	if c.session.Authenticated() || c.name == "lockproxy" && c.onUnixSocket() {
		return nil
	}
	if c.session.Refused() && c.session.User() == "" {
		return s.errNoUser(c)
	}
	if c.session.Refused() {
		return errNoAuth
	}
	required, known := s.o.Gate.Known()
	var err error
	if !known && !c.onLoop {
		required, err = s.o.Gate.AuthRequired(c.session.Context())
	}
	switch {
	case !known && c.onLoop:
		return errMustAsk
	case err != nil: // it may want one
		return fmt.Errorf("NOAUTH the upstream has not said yet whether it wants a password: %s", plain.Line(s.o.Reason(err)))
	case required:
		return errNoAuth
	}
	return nil
}

// onUnixSocket tells whether the client came through a Unix socket of the proxy.
func (c *call) onUnixSocket() bool { return c.session.LocalAddr().Network() == "unix" }
