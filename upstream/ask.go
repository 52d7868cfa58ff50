package upstream

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"net"
	"strings"
)

// Facts are what the upstream does on a connection that has not authenticated. The zero value claims nothing.
type Facts struct {
	// AuthRequired: it refused a PING with NOAUTH or NOPERM.
	AuthRequired bool
	// EchoesUnknown: its error for an unknown command repeats the command's name, which makes an unknown
	// command fit to mark a place in the stream of replies.
	EchoesUnknown bool
}

// Ask asks the upstream for its Facts over a fresh connection, without the credentials of the address. It takes
// DialTimeout at most. An answer that leaves it open whether a password is needed is an error, so that callers
// refuse rather than guess.
//
//	> *1\r\n$4\r\nPING\r\n*1\r\n$40\r\n8143...\r\n
//	< +PONG\r\n or -NOAUTH Authentication required.\r\n
//	< -ERR unknown command '8143...', with args beginning with: \r\n
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

func askOn(conn net.Conn) (Facts, error) {
	nonce, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(10), big.NewInt(40), nil))
	if err != nil {
		return Facts{}, fmt.Errorf("draw a nonce: %w", err)
	}
	name := fmt.Sprintf("%040d", nonce)
	if _, err := conn.Write(append(encode([]string{"PING"}), encode([]string{name})...)); err != nil {
		return Facts{}, err
	}
	ping, err := readLine(conn)
	if err != nil {
		return Facts{}, err
	}
	var facts Facts
	if facts.AuthRequired, err = authRequired(ping); err != nil {
		return Facts{}, err
	}
	unknown, err := readLine(conn)
	if err != nil {
		return Facts{}, err
	}
	facts.EchoesUnknown = strings.HasPrefix(unknown, "-") && strings.Contains(unknown, name)
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
