package protocol

import (
	"fmt"
	"testing"
)

// TestGuestIsAskedAgain: if connections begin as a user with few rights, a client that may be that
// user does not count as logged in, and is asked again; also if the rights were taken away later.
func TestGuestIsAskedAgain(t *testing.T) {
	guest := Standing{LoggedIn: true, Asked: true, User: DefaultUser}
	with := func(change func(*Standing)) Standing {
		s := guest
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		standing Standing
		limited  bool
		asks, in bool // the upstream must be asked again; the client counts as logged in
	}{
		"new":                       {Standing{}, false, true, false},
		"not logged in":             {Standing{Asked: true, User: DefaultUser}, false, true, false},
		"by the address":            {Standing{LoggedIn: true}, false, false, true},
		"by the address, limited":   {Standing{LoggedIn: true}, true, false, true},
		"default":                   {guest, false, false, true},
		"default, limited":          {guest, true, true, false},
		"user not asked":            {with(func(s *Standing) { s.User = "" }), false, false, true},
		"user not asked, limited":   {with(func(s *Standing) { s.User = "" }), true, true, false},
		"alice, limited":            {with(func(s *Standing) { s.User = "alice" }), true, false, true},
		"in MULTI, limited":         {with(func(s *Standing) { s.User, s.Mode = "", ModeTransaction }), true, false, true},
		"with subscriptions, ditto": {with(func(s *Standing) { s.User, s.Mode = "", ModeSubscribed }), true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := Conn{standing: tt.standing, options: Options{Facts: func() Facts { return Facts{GuestsLimited: tt.limited} }}}
			if got := c.mustAsk(); got != tt.asks {
				t.Errorf("asked again %v, want %v", got, tt.asks)
			}
			if got := c.Authenticated(); got != tt.in {
				t.Errorf("authenticated %v, want %v", got, tt.in)
			}
		})
	}
}

// TestWhoNeedsAPasswordIsLimited: Redis holds those to its limits who need a password, not guests
// who may do little.
func TestWhoNeedsAPasswordIsLimited(t *testing.T) {
	for _, tt := range []struct {
		facts    Facts
		loggedIn bool
		want     bool
	}{
		{Facts{}, false, false},
		{Facts{AuthRequired: true}, false, true},
		{Facts{AuthRequired: true}, true, false},
		{Facts{AuthRequired: true, GuestsLimited: true}, false, false},
	} {
		t.Run(fmt.Sprintf("%+v, logged in %v", tt.facts, tt.loggedIn), func(t *testing.T) {
			c := Conn{standing: Standing{LoggedIn: tt.loggedIn}, options: Options{Facts: func() Facts { return tt.facts }}}
			if got := c.Limited(); got != tt.want {
				t.Errorf("limited %v, want %v", got, tt.want)
			}
		})
	}
}

// TestFateOfTheNextLockCommand is a table of connections, and the fate of the next lock command.
func TestFateOfTheNextLockCommand(t *testing.T) {
	in := Standing{LoggedIn: true, User: DefaultUser}
	for _, tt := range []struct {
		name           string
		standing       Standing
		changes        changes
		sent, received uint64
		garbled        bool
		want           Decision
	}{
		{"all answered", in, 0, 3, 3, false, Run},
		{"more replies than expected", in, 0, 3, 4, false, Run},
		{"a reply is missing", in, 0, 3, 2, false, Ask},
		{"not logged in", Standing{}, 0, 3, 3, false, Ask},
		{"subscribed", Standing{LoggedIn: true, Mode: ModeSubscribed}, 0, 3, 3, false, Ask},
		{"something was sent", in, unsure, 3, 3, false, Ask},
		{"monitoring", in, monitor, 3, 3, false, Ask},
		{"QUIT was sent", in, quit, 3, 3, false, Ask},
		{"garbled", in, 0, 3, 3, true, Forward},
		{"silent", in, unsure | repliesOff, 3, 0, false, Forward},
		{"silent, a reply has come since", in, unsure | repliesOff, 3, 1, false, Ask},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Conn{standing: tt.standing, changes: tt.changes, options: Options{Facts: func() Facts { return Facts{} }}}
			c.sent.Store(tt.sent)
			c.received.Store(tt.received)
			c.garbled.Store(tt.garbled)
			if got := c.Decide(); got != tt.want {
				t.Errorf("decided %d, want %d", got, tt.want)
			}
		})
	}
}

// TestFateOfTheWaitingLockCommand is a table of answers to queries, and the fate of the lock
// command that waits.
func TestFateOfTheWaitingLockCommand(t *testing.T) {
	for _, tt := range []struct {
		name          string
		asks          asks
		hello, whoami string
		passed        bool
		want          Decision
		changes       changes // the changes that are kept of all
	}{
		{"nothing but how far", asks{}, "", "", false, Run, monitor | multi | quit},
		{"full", asks{standing: true, user: true}, helloArray, alice, false, Run, monitor | multi | quit},
		{"before Redis 6.2", asks{standing: true}, "-ERR unknown command `HELLO`\r\n", "", false, Ask,
			monitor | multi | quit | unsure},
		{"SKIP was used up", asks{skip: true}, "", "", true, Run, monitor | multi | quit},
		{"SKIP was not used up", asks{skip: true}, "", "", false, Drop, monitor | multi | quit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Conn{changes: unsure | mayBeOff | repliesOff | skipNext | monitor | multi | quit}
			c.queries.last = &query{asks: tt.asks}
			c.queries.head, c.queries.passed = [2][]byte{[]byte(tt.hello), []byte(tt.whoami)}, tt.passed
			if got := c.Conclude(); got != tt.want || c.changes != tt.changes {
				t.Errorf("got %d and changes %b, want %d and %b", got, c.changes, tt.want, tt.changes)
			}
		})
	}
}
