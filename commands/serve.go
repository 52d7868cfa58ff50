package commands

import (
	"cmp"
	"errors"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/plain"
	"lockproxy/resp"
	"lockproxy/stat"
)

// parser parses the arguments of a command. Its error is the reply, without the leading dash.
type parser func(s *Service, argv [][]byte) (args, error)

// command is one of stat.Commands.
type command struct {
	name  string
	parse parser
	run   func(*call)     // writes the reply; may block
	begin func(*loopCall) // asks the masters without blocking; may be nil
}

// serve makes the handler of a command. It checks in this order: transaction, arguments,
// authentication, subscriptions, permission.
func (s *Service) serve(how command) redcon.HandlerFunc {
	return func(conn redcon.Conn, cmd redcon.Command) {
		c := newCall(how, conn)
		defer func() { s.report(&c) }() // after a panic, too
		if err := s.prepare(&c, how.parse, cmd.Args[1:]); err != nil {
			c.refuse(err)
		} else {
			how.run(&c)
			c.outcome = cmp.Or(c.outcome, stat.OutcomeOK)
		}
		conn.WriteRaw(c.reply)
	}
}

// errMustAsk means that the upstream must be asked whether the command may run.
var errMustAsk = errors.New("the upstream is to be asked")

const errNoAuth = denial("NOAUTH Authentication required.")

// prepare parses the arguments into c and returns an error if the command may not run.
func (s *Service) prepare(c *call, parse parser, argv [][]byte) error {
	err := s.check(c, parse, argv)
	if err != nil && !errors.Is(err, errMustAsk) {
		c.noLogin = s.anonymous(c)
	}
	return err
}

// check does what prepare does, except that it leaves c.noLogin alone.
func (s *Service) check(c *call, parse parser, argv [][]byte) (err error) {
	if c.session.InTransaction() {
		return errors.New("ERR " + strings.ToUpper(c.name) + " is not allowed in transactions")
	}
	if c.args, err = parse(s, argv); err != nil {
		return err
	}
	if err := s.authenticate(c); err != nil {
		return err
	}
	// before the permission: a subscribed connection cannot be asked who is logged in
	if c.session.Subscribed() {
		return errors.New("ERR Can't execute '" + c.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return s.permit(c)
}

// authenticate returns an error if the upstream wants a login and the connection has none.
// LOCKPROXY on a Unix socket needs no login, so that operators can use it while the upstream is
// down.
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
	case err != nil: // the upstream may want a login
		return denialf("NOAUTH the upstream has not said yet whether it wants a password: %s", plain.Line(s.o.Reason(err)))
	case required:
		return errNoAuth
	}
	return nil
}

// anonymous reports whether no client has logged in on the connection although the upstream wants a
// login, or the rights that lock-acl asks for depend on one. Whoever reaches the proxy can cause the
// refusals of such a connection: for want of a login, for wrong arguments, or by lock-acl. It goes
// by the last known answers and never asks. In doubt the connection is anonymous.
func (s *Service) anonymous(c *call) bool {
	required, known := s.o.Gate.Last()
	switch user := c.session.User(); {
	case !known || required:
		return !c.session.Authenticated() || c.session.MayBeGuest()
	case s.o.Permission != nil:
		return user == "" || user == resp.DefaultUser
	}
	return false
}

// onUnixSocket reports whether the client uses a Unix socket of the proxy.
func (c *call) onUnixSocket() bool { return c.session.LocalAddr().Network() == "unix" }
