package resp

import "lockproxy/resp/internal/protocol"

// Cut reports whether the running command is longer than the limits and has lost arguments, or
// parts of them, and how many arguments it had. See Options.Judge. A handler may call it while it
// runs its command.
func (s *Session) Cut() (cut bool, args int64) { return s.pump.req.Cut, s.pump.req.Args }

// Library returns what the client calls its library (CLIENT SETINFO LIB-NAME), on a server with
// Options.Judge; empty if it has not said. It may hold any bytes. A handler may call it while it
// runs its command.
func (s *Session) Library() string { return s.runner.library }

// InTransaction reports whether the connection is inside MULTI. A handler may call it, and the
// other methods here, while it runs its command.
func (s *Session) InTransaction() bool { return s.proto.Standing().Mode == protocol.ModeTransaction }

// Subscribed reports whether the connection speaks RESP2 and has subscriptions, so that Redis
// would refuse ordinary commands.
func (s *Session) Subscribed() bool { return s.proto.Standing().Mode == protocol.ModeSubscribed }

// Authenticated reports whether the upstream said that the connection is logged in, by its own or
// by the address's credentials. If not, it may still serve the connection if it wants no password.
func (s *Session) Authenticated() bool { return s.proto.Authenticated() }

// Refused reports whether the upstream said that the connection is not logged in.
func (s *Session) Refused() bool { return s.proto.Standing().Asked && !s.proto.Authenticated() }

// MayBeGuest reports whether the connection belongs to a default user who needs no password and
// has few rights, or whether the upstream has such a user and named none for this connection. In
// MULTI and with subscriptions it names none.
func (s *Session) MayBeGuest() bool { return s.proto.MayBeGuest() }

// User returns the user who is logged in on the connection, by the upstream's own word if that was
// asked: "default" before any AUTH. It is empty if the upstream did not say.
func (s *Session) User() string { return s.proto.Standing().User }

// WhyNoUser returns the upstream's answer if that had no User.
func (s *Session) WhyNoUser() string { return s.proto.Standing().WhyNoUser }

// AskAgain makes the next lock command ask the upstream for the user, even if the client has not
// sent anything that may have changed it. A handler calls it if it needs a User and the upstream
// named none.
func (s *Session) AskAgain() { s.proto.AskAgain() }

// RESP3 reports whether the client has switched to RESP3: the upstream said so, and no request
// since may have changed it. Safe for concurrent use.
func (s *Session) RESP3() bool { return s.proto.RESP3() }
