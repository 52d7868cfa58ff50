package resp

import (
	"bytes"
	"strconv"

	"lockproxy/resp/internal/scan"
)

// DefaultUser is who a connection belongs to before any AUTH.
const DefaultUser = "default"

// standing is what a connection is for the upstream, by the upstream's own answers (question.go)
// or, before anything was sent, by how it was dialled. Nothing of it is concluded from replies to
// the client's commands.
type standing struct {
	asked      bool // the upstream said so on this connection
	loggedIn   bool
	user       string // who is logged in; empty: that is not known
	whyNoUser  string // what the upstream answered instead of the user
	resp3      bool
	inTx       bool // inside MULTI
	subscribed bool // RESP2 with subscriptions: the upstream refuses ordinary commands
}

// changes are what the client's requests may have made of a connection since the upstream was
// asked last. The replies to them are not looked at. A change noted for nothing costs one
// question.
type changes struct {
	unsure  bool // the standing may be another, or a request may have another number of replies than one
	replies bool // CLIENT REPLY OFF: they may be off
	off     bool // no answer came, and nothing was sent since that may switch replies on
	skip    bool // CLIENT REPLY SKIP: the next request may get no reply
	monitor bool // MONITOR: lines may come at any time, for as long as the connection lives
	multi   bool // the last of MULTI, EXEC, DISCARD and RESET is MULTI

	blocking uint64 // which request, in sent, was the last that may block; 0: none
}

// note is called for a notable request before it is forwarded. It counts the reply that the
// request is to have.
func (s *Session) note() {
	if !s.mayBlock() {
		s.changes.blocking = 0 // from here on it may not be known
	}
	switch kind := s.req.Kind; kind {
	case scan.KindLogin: // a client that logs in again still gets the push of a lost lock
		s.changes.unsure = true
	case scan.KindHello:
		s.changes.unsure = true
		s.protocolSent.Store(true)
	case scan.KindReset:
		s.changes.unsure, s.changes.multi, s.changes.off = true, false, false
		s.protocolSent.Store(true)
	case scan.KindMulti, scan.KindExec:
		s.changes.unsure, s.changes.multi = true, kind == scan.KindMulti
		s.changes.off = s.changes.off && kind == scan.KindMulti
	case scan.KindSubscribe: // none, one or many frames, which may be pushes
		s.changes.unsure = true
		return
	case scan.KindMonitor:
		s.changes.unsure, s.changes.monitor = true, true
	case scan.KindDebug:
		s.changes.unsure = true
	case scan.KindBlocking, scan.KindStream:
		if s.req.MayBlock() {
			s.changes.blocking = s.sent.Load() + 1
		}
	case scan.KindClient:
		s.noteClient()
	case scan.KindReplication, scan.KindUnclear:
		s.opaque = true
	case scan.KindScript:
		s.opaque = s.req.Arg(1) == "debug" && s.req.Arg(2) != "no"
	case scan.KindQuit:
		s.life.quit.Store(true)
	}
	if s.opaque {
		s.out.endReplies()
	}
	s.sent.Add(1)
}

// noteClient is note for CLIENT.
func (s *Session) noteClient() {
	if s.req.Arg(1) != "reply" {
		return
	}
	s.changes.unsure = true
	switch s.req.Arg(2) {
	case "on":
		if s.changes.off = false; s.changes.replies && !s.changes.multi {
			s.step = stepAsk // before something else is sent that may keep the upstream from answering
		}
	case "off":
		s.changes.replies = true
	case "skip":
		s.changes.skip = true
	}
}

// plainReplies reports whether every request since the upstream was asked has one reply, and
// nothing else is a reply.
func (s *Session) plainReplies() bool {
	return !s.changes.unsure && !s.changes.monitor && !s.standing.subscribed && !s.lost.Load()
}

// answered reports whether everything that was sent is answered, as far as can be told without
// asking.
func (s *Session) answered() bool { return s.sent.Load() <= s.received.Load() }

// mayBlock reports whether the upstream may be waiting for another client before it answers: a
// request of that kind was sent and is not known to be answered.
func (s *Session) mayBlock() bool {
	at := s.changes.blocking
	return at > 0 && !(s.plainReplies() && s.received.Load() >= at)
}

// atRest reports whether no request is half read, nothing is unanswered and no transaction is
// open. It looks neither at bytes that were read and not scanned yet, nor at subscriptions.
func (s *Session) atRest() bool {
	return s.req.Between() && (s.up == nil || s.answered() && !s.changes.multi)
}

// limited reports whether lock commands are held to the limits that Redis has before
// authentication. It has none for guests.
func (s *Session) limited() bool {
	facts := s.srv.o.Facts()
	return !s.standing.loggedIn && !s.changes.unsure && facts.AuthRequired && !facts.GuestsLimited
}

// learn reads the upstream's answers to a full question: to HELLO, or to PING in its place, and to
// ACL WHOAMI if that was asked, else whoami is nil. It reports false where the upstream does not
// know a bare HELLO.
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
func (s *Session) learn(hello, whoami []byte) (known bool) {
	if len(hello) == 0 { // refused before anything was looked at: an upstream that wants a login first
		s.standing = standing{asked: true, user: DefaultUser}
		s.resp3.Store(false)
		return true
	}
	now := standing{asked: true, whyNoUser: "not asked"}
	is := func(prefix string) bool { return bytes.HasPrefix(hello, []byte(prefix)) }
	switch {
	case is("-NOAUTH"):
	case is("+QUEUED"):
		now.loggedIn, now.inTx, now.resp3 = true, true, s.standing.resp3
	case is("-ERR Can't execute"), is("*2\r\n$4\r\npong"):
		now.loggedIn, now.subscribed = true, true
	case is("-ERR"):
		if !s.withoutHello {
			s.withoutHello = true
			return false
		}
	case is("%"):
		now.loggedIn, now.resp3 = true, true
	case is("*"), s.withoutHello && (is("+PONG\r\n") || is("$4\r\nPONG\r\n")):
		now.loggedIn = true
	default: // Redis looks at this behind the login: a right that lacks, LOADING, BUSY, MASTERDOWN
		now.loggedIn = hello[0] == '-'
	}
	switch {
	case !now.loggedIn:
		now.user, now.whyNoUser = DefaultUser, ""
	case whoami != nil:
		now.user, now.whyNoUser = userOf(whoami)
	}
	s.standing = now
	s.resp3.Store(now.resp3)
	s.protocolSent.Store(false)
	return true
}

// longestUser is the longest name of a user that is believed.
const longestUser = maxAnswer - 16

// userOf reads the answer to ACL WHOAMI. why says what came instead of a name.
func userOf(answer []byte) (user, why string) {
	header, rest, _ := bytes.Cut(answer, []byte("\r\n"))
	switch {
	case len(header) > 1 && header[0] == '$':
		if size, err := strconv.Atoi(string(header[1:])); err == nil && 0 < size && size <= longestUser && len(rest) == size+2 {
			return string(rest[:size]), ""
		}
		return "", "a name that is too long"
	case len(header) > 0:
		return "", string(header[1:])
	}
	return "", "no answer"
}

// InTransaction reports whether the connection is inside MULTI. As the next four it may be called
// from a handler while it runs its command.
func (s *Session) InTransaction() bool { return s.standing.inTx }

// Subscribed reports whether the connection speaks RESP2 and has subscriptions, so that Redis
// would refuse ordinary commands.
func (s *Session) Subscribed() bool { return s.standing.subscribed }

// Authenticated reports whether the upstream said that the connection is logged in, as itself or
// by the credentials of the address. If not, it may still serve the connection where it wants no
// password.
func (s *Session) Authenticated() bool { return s.standing.loggedIn && !s.guest() }

// Refused reports whether the upstream said that the connection is not logged in.
func (s *Session) Refused() bool { return s.standing.asked && !s.Authenticated() }

// guest reports whether the connection belongs, or may belong, to the user whose it was from its
// start and who may do little. An operator may take rights away at any time, so each command asks.
// In MULTI and with subscriptions the user is not told, and lock commands are refused anyway.
func (s *Session) guest() bool {
	return s.MayBeGuest() && !s.standing.inTx && !s.standing.subscribed
}

// MayBeGuest reports whether the connection belongs to a default user who needs no password and may
// do little, or to a user whom the upstream did not name in front of such guests. In MULTI and with
// subscriptions it names none.
func (s *Session) MayBeGuest() bool {
	now := &s.standing
	unnamed := now.user == DefaultUser || now.user == ""
	return now.asked && unnamed && s.srv.o.Facts().GuestsLimited
}

// User returns who is logged in on the connection, by the upstream's own word where that was
// asked: "default" before any AUTH. It is empty where the upstream did not say.
func (s *Session) User() string { return s.standing.user }

// WhyNoUser returns what the upstream said instead of a User.
func (s *Session) WhyNoUser() string { return s.standing.whyNoUser }

// AskAgain makes the next lock command ask the upstream who is logged in, although nothing was sent
// that may have changed it. A handler calls it where it needs a User and the upstream named none.
func (s *Session) AskAgain() { s.changes.unsure = true }

// RESP3 reports whether the client has switched to RESP3, as far as the upstream said so and
// nothing was sent since that may have changed it. Safe for concurrent use.
func (s *Session) RESP3() bool { return s.resp3.Load() && !s.protocolSent.Load() }
