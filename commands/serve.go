package commands

import (
	"cmp"
	"errors"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/stat"
)

// parse parses the arguments of a command. Its error is the reply, without the leading dash.
type parse func(argv [][]byte) (args, error)

// preconditions are the checks that differ between commands.
type preconditions struct {
	inTransaction func(argv [][]byte) error // the error of a command inside MULTI
	parse         parse
}

// command is one of stat.Commands.
type command struct {
	name  string
	parse parse
	run   func(*call)     // writes the reply; may block
	begin func(*loopCall) // asks the masters without blocking; may be nil
}

// checks returns the checks of a lock command.
func (how *command) checks() preconditions {
	return preconditions{parse: how.parse, inTransaction: func([][]byte) error {
		return errors.New("ERR " + strings.ToUpper(how.name) + " is not allowed in transactions")
	}}
}

// serve makes the handler of a command. It checks in this order: transaction, arguments,
// authentication, subscriptions, permission.
func (s *Service) serve(how command) redcon.HandlerFunc {
	return func(conn redcon.Conn, cmd redcon.Command) {
		c := newCall(how, conn)
		defer func() { s.outcomes.report(&c) }() // after a panic, too
		if err := s.prepare(&c, how.checks(), cmd.Args[1:]); err != nil {
			c.refuse(err)
		} else {
			how.run(&c)
			c.outcome = cmp.Or(c.outcome, stat.OutcomeOK)
		}
		conn.WriteRaw(c.reply)
	}
}

// errMustAsk means that only the upstream knows whether the command may run.
var errMustAsk = errors.New("the upstream is to be asked")

// prepare parses the arguments into c and returns an error if the command may not run.
func (s *Service) prepare(c *call, how preconditions, argv [][]byte) error {
	err := s.check(c, how, argv)
	if err != nil && !errors.Is(err, errMustAsk) {
		c.noLogin = s.permissions.anonymous(c)
	}
	return err
}

// check does what prepare does, except that it leaves c.noLogin alone.
func (s *Service) check(c *call, how preconditions, argv [][]byte) (err error) {
	if c.session.InTransaction() {
		return how.inTransaction(argv)
	}
	if c.args, err = how.parse(argv); err != nil {
		return err
	}
	if err := s.permissions.authenticate(c); err != nil {
		return err
	}
	// before the permission: a subscribed connection cannot be asked who is logged in
	if c.session.Subscribed() {
		return errors.New("ERR Can't execute '" + c.name +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return s.permissions.permit(c)
}

// onUnixSocket reports whether the client uses a Unix socket of the proxy.
func (c *call) onUnixSocket() bool { return c.session.LocalAddr().Network() == "unix" }
