package upstream

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// Facts are what the upstream does on a connection that has not authenticated. The zero value claims nothing.
type Facts struct {
	// AuthRequired: it refused a PING with NOAUTH or NOPERM.
	AuthRequired bool
	// GuestsLimited: it was NOPERM. Connections are logged in from their start, as a user who may do little.
	GuestsLimited bool
	// Resets: it knows RESET, as Redis does since 6.2. A server that refuses it with another error than "unknown command" counts as one
	// that does.
	Resets bool
}

// Ask asks the upstream for its Facts over a fresh connection, without the credentials of the address. It takes
// DialTimeout at most. An answer that leaves it open whether a password is needed is an error, so that callers
// refuse rather than guess.
//
//	> *1\r\n$4\r\nPING\r\n*1\r\n$5\r\nRESET\r\n
//	< +PONG\r\n or -NOAUTH Authentication required.\r\n
//	< +RESET\r\n or -ERR unknown command 'RESET', with args beginning with: \r\n
func (u *Upstream) Ask(ctx context.Context) (Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, u.opts.DialTimeout)
	defer cancel()
	conn, err := u.connect(ctx)
	if err != nil {
		return Facts{}, err
	}
	defer conn.Close()
	var facts Facts
	err = u.during(ctx, conn, func(conn net.Conn) error {
		facts, err = askOn(conn)
		return err
	})
	return facts, err
}

func askOn(conn net.Conn) (facts Facts, err error) {
	if _, err := conn.Write(append(encode([]string{"PING"}), encode([]string{"RESET"})...)); err != nil {
		return Facts{}, err
	}
	ping, err := readLine(conn)
	if err != nil {
		return Facts{}, err
	}
	facts.GuestsLimited = strings.HasPrefix(ping, "-NOPERM")
	if facts.AuthRequired, err = authRequired(ping); err != nil {
		return Facts{}, err
	}
	reset, err := readLine(conn)
	if err != nil {
		return Facts{}, err
	}
	facts.Resets = !strings.HasPrefix(strings.ToLower(reset), "-err unknown")
	return facts, nil
}

// authRequired reads the reply to PING. Redis checks authentication before the states in the second list, so
// these say that no password is needed.
func authRequired(ping string) (bool, error) {
	code, _, _ := strings.Cut(ping, " ")
	switch code {
	case "-NOAUTH", "-NOPERM":
		return true, nil
	case "+PONG", "-LOADING", "-BUSY", "-MASTERDOWN", "-MISCONF":
		return false, nil
	}
	if strings.HasPrefix(ping, "-") {
		return false, &ReplyError{ping[1:]}
	}
	return false, fmt.Errorf("unexpected reply to PING")
}
