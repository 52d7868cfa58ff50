package upstream

import (
	"context"
	"net"
	"strings"

	"lockproxy/resp/respio"
)

// GuestRules describe the upstream's behaviour on a connection that has not authenticated.
type GuestRules struct {
	// AuthRequired says that it refused a PING with NOAUTH or NOPERM.
	AuthRequired bool
	// GuestsLimited says that it refused with NOPERM: connections begin logged in as a user with
	// few rights.
	GuestsLimited bool
	// Resets reports whether it has RESET, which Redis added in 6.2. A server that refuses RESET
	// with another error than "unknown command" has it.
	Resets bool
}

// Ask asks the upstream for its GuestRules over a new connection, without the credentials of the
// address, in at most DialTimeout. An answer that does not say whether a password is needed is an
// error, so that callers refuse rather than guess.
//
//	> *1\r\n$4\r\nPING\r\n*1\r\n$5\r\nRESET\r\n
//	< +PONG\r\n or -NOAUTH Authentication required.\r\n
//	< +RESET\r\n or -ERR unknown command 'RESET', with args beginning with: \r\n
func (u *Upstream) Ask(ctx context.Context) (GuestRules, error) {
	ctx, cancel := context.WithTimeout(ctx, u.opts.DialTimeout)
	defer cancel()
	conn, err := u.connect(ctx)
	if err != nil {
		return GuestRules{}, err
	}
	defer conn.Close()
	var facts GuestRules
	err = u.during(ctx, conn, func(conn net.Conn) error {
		facts, err = askOn(conn)
		return err
	})
	return facts, err
}

func askOn(conn net.Conn) (facts GuestRules, err error) {
	both := respio.AppendCommand(respio.AppendCommand(nil, "PING"), "RESET")
	if _, err := conn.Write(both); err != nil {
		return GuestRules{}, err
	}
	replies := newReader(conn)
	ping, err := readReply(replies, "PING")
	if err != nil {
		return GuestRules{}, err
	}
	facts.GuestsLimited = ping.Code() == "NOPERM"
	if facts.AuthRequired, err = authRequired(&ping); err != nil {
		return GuestRules{}, err
	}
	reset, err := readReply(replies, "RESET")
	if err != nil {
		return GuestRules{}, err
	}
	facts.Resets = !reset.IsError() || !strings.HasPrefix(strings.ToLower(reset.Text), "err unknown")
	return facts, nil
}

// authRequired reads the reply to PING. Redis checks authentication before the states in the
// second list, so these mean that no password is needed.
func authRequired(ping *respio.Reply) (bool, error) {
	switch ping.Code() {
	case "NOAUTH", "NOPERM":
		return true, nil
	case "LOADING", "BUSY", "MASTERDOWN", "MISCONF":
		return false, nil
	}
	switch {
	case ping.IsError():
		return false, &ReplyError{ping.Text}
	case ping.Kind == '+' && ping.Text == "PONG":
		return false, nil
	}
	return false, unexpected("PING")
}
