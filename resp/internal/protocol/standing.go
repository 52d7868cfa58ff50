package protocol

import (
	"bytes"
	"strconv"
)

// DefaultUser is the user of a connection before any AUTH.
const DefaultUser = "default"

// Standing is the upstream's view of a connection, by the upstream's own answers or, before
// anything was sent, by how it was dialled. Replies to the client's commands do not change it.
type Standing struct {
	Asked     bool // the upstream was asked on this connection
	LoggedIn  bool // with AUTH, when it was dialled, or as a user who needs no password
	RESP3     bool // the upstream answers in RESP3; otherwise in RESP2, or it did not say
	Mode      ConnMode
	User      string // the user who is logged in; empty: unknown
	WhyNoUser string // the upstream's answer if that has no user
}

// ConnMode says which commands the upstream runs at once.
type ConnMode uint8

const (
	ModeNormal      ConnMode = iota // all
	ModeTransaction                 // inside MULTI: it queues them
	ModeSubscribed                  // RESP2 with subscriptions: it refuses ordinary commands
)

// readStanding reads the upstream's answers to a full query: to HELLO, or to PING if withoutHello
// is set, and to ACL WHOAMI unless whoami is nil. known is false if the upstream does not know a
// bare HELLO. wasRESP3 is the protocol before, which the answer inside MULTI does not show.
//
//	> *1\r\n$5\r\nHELLO\r\n
//	< *14\r\n$6\r\nserver\r\n$5\r\nredis\r\n... or %7\r\n...    logged in, RESP2 or RESP3
//	< -NOAUTH HELLO must be called with the client already authenticated, ...
//	< +QUEUED\r\n                                               inside MULTI
//	< -ERR Can't execute 'hello': only (P|S)SUBSCRIBE / ...     RESP2 with subscriptions
//	< -ERR unknown command 'HELLO' or wrong number of arguments: before Redis 6.2
//	> *2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n
//	< $5\r\nalice\r\n
//	< -NOPERM ...                                               a user without that right
func readStanding(hello, whoami []byte, wasRESP3, withoutHello bool) (now Standing, known bool) {
	if len(hello) == 0 { // the upstream refused all requests: it wants a login first
		return Standing{Asked: true, User: DefaultUser}, true
	}
	now = Standing{Asked: true, WhyNoUser: "not asked"}
	is := func(prefix string) bool { return bytes.HasPrefix(hello, []byte(prefix)) }
	switch {
	case is("-NOAUTH"):
	case is("+QUEUED"):
		now.LoggedIn, now.Mode, now.RESP3 = true, ModeTransaction, wasRESP3
	case is("-ERR Can't execute"), is("*2\r\n$4\r\npong"):
		now.LoggedIn, now.Mode = true, ModeSubscribed
	case is("-ERR"):
		if !withoutHello {
			return Standing{}, false
		}
	case is("%"):
		now.LoggedIn, now.RESP3 = true, true
	case is("*"), withoutHello && (is("+PONG\r\n") || is("$4\r\nPONG\r\n")):
		now.LoggedIn = true
	default: // Redis checks these after the login: a missing right, LOADING, BUSY, MASTERDOWN
		now.LoggedIn = hello[0] == '-'
	}
	switch {
	case !now.LoggedIn:
		now.User, now.WhyNoUser = DefaultUser, ""
	case whoami != nil:
		now.User, now.WhyNoUser = userOf(whoami)
	}
	return now, true
}

// longestUser is the length of the longest name of a user that is believed.
const longestUser = maxAnswer - 16

// userOf reads the answer to ACL WHOAMI. why describes an answer without a name.
func userOf(answer []byte) (user, why string) {
	header, rest, _ := bytes.Cut(answer, []byte("\r\n"))
	switch {
	case len(header) > 1 && header[0] == '$':
		size, err := strconv.Atoi(string(header[1:]))
		if err == nil && 0 < size && size <= longestUser && len(rest) == size+2 {
			return string(rest[:size]), ""
		}
		return "", "no usable name"
	case len(header) > 0:
		return "", string(header[1:])
	}
	return "", "no answer"
}
