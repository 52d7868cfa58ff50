package resp

import (
	"strings"
	"testing"

	"lockproxy/resp/internal/scan"
)

// TestLearn is a table of what an upstream says to HELLO, or to PING in its place, and to ACL
// WHOAMI, and what the connection is then.
func TestLearn(t *testing.T) {
	const unknown = "-ERR unknown command `HELLO`, with args beginning with: \r\n"
	const arity = "-ERR wrong number of arguments for 'hello' command\r\n"
	const noPerm = "-NOPERM User bob has no permissions to run the 'hello' command\r\n"
	guest := standing{user: DefaultUser}
	named := standing{loggedIn: true, user: "alice"}
	with := func(s standing, change func(*standing)) standing {
		change(&s)
		return s
	}
	for _, tt := range []struct {
		name          string
		was           standing
		withoutHello  bool // the upstream does not know a bare HELLO
		hello, whoami string
		want          standing // all were asked
	}{
		{"refused before anything was looked at", standing{loggedIn: true, resp3: true, inTx: true, user: "alice"}, false, "", "", guest},
		{"not logged in", standing{loggedIn: true, user: "alice"}, false, noHello, noAuth, guest},
		{"RESP2", standing{inTx: true, subscribed: true, resp3: true}, false, helloArray, alice, named},
		{"RESP2, the user is not asked", standing{user: "bob"}, false, helloArray, "", standing{loggedIn: true, whyNoUser: "not asked"}},
		{"RESP3", standing{}, false, helloMap, alice, with(named, func(s *standing) { s.resp3 = true })},
		{"MULTI", standing{}, false, queued, queued, standing{loggedIn: true, whyNoUser: "QUEUED", inTx: true}},
		{"MULTI, RESP3 from before", standing{resp3: true}, false, queued, "", standing{loggedIn: true, whyNoUser: "not asked", inTx: true, resp3: true}},
		{"subscribed", standing{resp3: true}, false, noExecute, noWhoami, standing{loggedIn: true, whyNoUser: strings.TrimSuffix(noWhoami[1:], "\r\n"), subscribed: true}},
		{"subscribed, PING", standing{}, true, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", noWhoami, standing{loggedIn: true, whyNoUser: strings.TrimSuffix(noWhoami[1:], "\r\n"), subscribed: true}},
		{"PING", standing{}, true, "+PONG\r\n", alice, named},
		{"PING of a script", standing{}, true, "$4\r\nPONG\r\n", alice, named},
		{"PING not logged in", standing{}, true, noAuth, noAuth, guest},
		{"PING refused otherwise", standing{}, true, "-ERR x\r\n", alice, standing{user: DefaultUser}},
		{"PONG where HELLO was asked", standing{}, false, "+PONG\r\n", alice, guest},
		{"BUSY", standing{}, false, "-BUSY Redis is busy\r\n", "-BUSY Redis is busy\r\n", standing{loggedIn: true, whyNoUser: "BUSY Redis is busy"}},
		{"LOADING", standing{}, false, helloArray, "-LOADING Redis\r\n", standing{loggedIn: true, whyNoUser: "LOADING Redis"}},
		{"a right to HELLO that lacks", standing{}, false, noPerm, alice, named},
		{"a number", standing{}, false, ":1\r\n", alice, guest},
		{"default", standing{}, false, helloArray, "$7\r\ndefault\r\n", standing{loggedIn: true, user: DefaultUser}},
	} {
		s := &Session{srv: NewServer(Options{})}
		s.standing, s.withoutHello = tt.was, tt.withoutHello
		s.protocolSent.Store(true)
		var whoami []byte
		if tt.whoami != "" {
			whoami = []byte(tt.whoami)
		}
		tt.want.asked = true
		known := s.learn([]byte(tt.hello), whoami)
		switch {
		case !known || s.withoutHello != tt.withoutHello:
			t.Errorf("%s: asked again", tt.name)
		case s.standing != tt.want:
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.name, s.standing, tt.want)
		case s.resp3.Load() != tt.want.resp3:
			t.Errorf("%s: RESP3 is %v for others, want %v", tt.name, !tt.want.resp3, tt.want.resp3)
		case tt.hello != "" && s.RESP3() != tt.want.resp3:
			t.Errorf("%s: RESP3() is %v, want %v", tt.name, !tt.want.resp3, tt.want.resp3)
		}
	}
	for _, hello := range []string{unknown, arity} {
		s := &Session{srv: NewServer(Options{}), standing: standing{user: "before"}}
		if s.learn([]byte(hello), []byte(alice)) || !s.withoutHello || s.standing != (standing{user: "before"}) {
			t.Errorf("%q: not asked again with PING, but %+v", hello, s.standing)
		}
	}
}

// TestUserOf: a name is believed only if it is whole.
func TestUserOf(t *testing.T) {
	bulk := func(name string) string { return string(appendCommand(nil, [][]byte{[]byte(name)}, 1)[len("*1\r\n"):]) }
	longest := strings.Repeat("n", 1008)
	for _, tt := range []struct{ name, answer, user, why string }{
		{"a name", bulk("alice"), "alice", ""},
		{"line ends", bulk("a\r\nb"), "a\r\nb", ""},
		{"a line end is all", bulk("\r\n"), "\r\n", ""},
		{"like a header", bulk("$3\r\n"), "$3\r\n", ""},
		{"spaces and zeros", bulk(" \x00\xff"), " \x00\xff", ""},
		{"the longest", bulk(longest), longest, ""},
		{"longer", bulk(longest + "n"), "", "a name that is too long"},
		{"cut off as it is too long to be kept", bulk(strings.Repeat("n", 5000))[:maxAnswer], "", "a name that is too long"},
		{"empty", bulk(""), "", "a name that is too long"},
		{"null", "$-1\r\n", "", "a name that is too long"},
		{"shorter than it says", "$6\r\nalice\r\n", "", "a name that is too long"},
		{"longer than it says", "$4\r\nalice\r\n", "", "a name that is too long"},
		{"no number", "$x\r\nalice\r\n", "", "a name that is too long"},
		{"an error", "-NOPERM no permissions\r\n", "", "NOPERM no permissions"},
		{"a status", queued, "", "QUEUED"},
		{"nothing", "", "", "no answer"},
		{"a dollar", "$", "", ""},
	} {
		if user, why := userOf([]byte(tt.answer)); user != tt.user || why != tt.why {
			t.Errorf("%s: got %q, %q; want %q, %q", tt.name, user, why, tt.user, tt.why)
		}
	}
}

// TestNote is a table of commands, what each may have made of a connection, and how many replies
// are expected.
func TestNote(t *testing.T) {
	all := changes{true, true, true, true, true, true, 0}
	unsure, multi := changes{unsure: true}, changes{unsure: true, multi: true}
	with := func(c changes, change func(*changes)) changes {
		change(&c)
		return c
	}
	for _, tt := range []struct {
		was     changes
		send    string
		want    changes
		replies uint64
	}{
		{changes{}, "GET k", changes{}, 1},
		{all, "GET k", all, 1},
		{changes{}, "AUTH a b", unsure, 1},
		{changes{}, "hello 3", unsure, 1},
		{changes{}, "MULTI", multi, 1},
		{multi, "EXEC", unsure, 1},
		{multi, "DISCARD", unsure, 1},
		{multi, "RESET", unsure, 1},
		{all, "EXEC", with(all, func(c *changes) { c.multi, c.off = false, false }), 1},
		{all, "RESET", with(all, func(c *changes) { c.multi, c.off = false, false }), 1},
		{changes{off: true}, "MULTI", changes{unsure: true, multi: true, off: true}, 1},
		{changes{}, "SUBSCRIBE c", unsure, 0},
		{changes{}, "punsubscribe", unsure, 0},
		{changes{}, "SSUBSCRIBE c d", unsure, 0},
		{changes{}, "MONITOR", changes{unsure: true, monitor: true}, 1},
		{changes{}, "DEBUG PROTOCOL push", unsure, 1},
		{changes{}, "BLPOP q 0", changes{blocking: 1}, 1},
		{changes{}, "wait 1 0", changes{blocking: 1}, 1},
		{changes{}, "XREAD COUNT 1 block 0 STREAMS s $", changes{blocking: 1}, 1},
		{changes{}, "XREAD COUNT 1 STREAMS block 0", changes{}, 1},
		{changes{}, "XREADGROUP GROUP g c COUNT 1 NOACK BLOCK 0 STREAMS s >", changes{blocking: 1}, 1},
		{changes{}, "XREADGROUP GROUP block streams COUNT 1 STREAMS s >", changes{}, 1},
		{changes{}, "XREADGROUP GROUP streams c BLOCK 0 STREAMS s >", changes{blocking: 1}, 1},
		{changes{}, "XREAD" + strings.Repeat(" COUNT 1", 6) + " BLOCK 0 STREAMS s $", changes{blocking: 1}, 1},
		{changes{}, "XREAD STREAMS" + strings.Repeat(" s", 20), changes{}, 1},
		{changes{unsure: true, blocking: 1}, "MULTI", changes{unsure: true, multi: true, blocking: 1}, 1},
		{changes{}, "CLIENT ID", changes{}, 1},
		{changes{}, "CLIENT REPLY", unsure, 1},
		{changes{}, "CLIENT REPLY ON", unsure, 1},
		{changes{off: true, replies: true}, "client reply on", changes{unsure: true, replies: true}, 1},
		{changes{}, "CLIENT REPLY OFF", changes{unsure: true, replies: true}, 1},
		{changes{}, "Client Reply Skip", changes{unsure: true, skip: true}, 1},
		{changes{}, "SCRIPT LOAD x", changes{}, 1},
		{changes{}, "QUIT", changes{}, 1},
		{changes{}, "SCRIPT DEBUG no", changes{}, 1},
		{changes{}, "SCRIPT DEBUG yes", changes{}, 1},
		{changes{}, "SYNC", changes{}, 1},
		{changes{}, "REPLCONF ack 0", changes{}, 1},
	} {
		for _, inline := range []bool{false, true} {
			s := &Session{srv: NewServer(Options{}), changes: tt.was}
			s.out.init(nil, &s.progress)
			argv := asBytes(strings.Fields(tt.send))
			b := appendCommand(nil, argv, len(argv))
			if inline {
				b = []byte(tt.send + "\r\n")
			}
			for len(b) > 0 { // as scan does
				n, ev := s.req.Scan(b)
				if b = b[n:]; ev == scan.Notable {
					s.notable()
				}
				if n == 0 {
					t.Fatalf("%s: held up at %q", tt.send, b)
				}
			}
			s.count()
			kind := scan.Classify(argv[0])
			opaque := kind == scan.KindReplication || kind == scan.KindUnclear || strings.HasPrefix(tt.send, "SCRIPT DEBUG yes")
			switch {
			case s.changes != tt.want:
				t.Errorf("%s:\ngot  %+v\nwant %+v", tt.send, s.changes, tt.want)
			case s.sent.Load() != tt.replies:
				t.Errorf("%s: %d replies expected, want %d", tt.send, s.sent.Load(), tt.replies)
			case s.opaque != opaque || s.out.noReply.Load() != opaque:
				t.Errorf("%s: opaque is %v, want %v", tt.send, s.opaque, opaque)
			case s.life.quit.Load() != (kind == scan.KindQuit):
				t.Errorf("%s: taken for QUIT: %v", tt.send, s.life.quit.Load())
			case s.protocolSent.Load() != (kind == scan.KindHello || kind == scan.KindReset):
				t.Errorf("%s: may change the protocol: %v", tt.send, s.protocolSent.Load())
			}
		}
	}
}

// TestGuests: where connections begin as a user with few rights, whoever may be that one does not
// count as logged in, and is asked again; also where the rights were taken away later.
func TestGuests(t *testing.T) {
	guest := standing{loggedIn: true, asked: true, user: DefaultUser}
	with := func(change func(*standing)) standing {
		s := guest
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		standing standing
		limited  bool
		asks, in bool // it is to be asked again; it counts as logged in
	}{
		"new":                       {standing{}, false, true, false},
		"not logged in":             {standing{asked: true, user: DefaultUser}, false, true, false},
		"by the address":            {standing{loggedIn: true}, false, false, true},
		"by the address, limited":   {standing{loggedIn: true}, true, false, true},
		"default":                   {guest, false, false, true},
		"default, limited":          {guest, true, true, false},
		"user not asked":            {with(func(s *standing) { s.user = "" }), false, false, true},
		"user not asked, limited":   {with(func(s *standing) { s.user = "" }), true, true, false},
		"alice, limited":            {with(func(s *standing) { s.user = "alice" }), true, false, true},
		"in MULTI, limited":         {with(func(s *standing) { s.user, s.inTx = "", true }), true, false, true},
		"with subscriptions, ditto": {with(func(s *standing) { s.user, s.subscribed = "", true }), true, false, true},
	} {
		s := &Session{srv: NewServer(Options{Facts: func() Facts { return Facts{GuestsLimited: tt.limited} }}), standing: tt.standing}
		if got := s.mustAsk(); got != tt.asks {
			t.Errorf("%s: asked again %v, want %v", name, got, tt.asks)
		}
		if got, refused := s.Authenticated(), tt.standing.asked && !tt.in; got != tt.in || s.Refused() != refused {
			t.Errorf("%s: authenticated %v, refused %v; want %v, %v", name, got, s.Refused(), tt.in, refused)
		}
	}
}

// TestLimited: Redis holds those to its limits who need a password, not guests who may do little.
func TestLimited(t *testing.T) {
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
		s := &Session{srv: NewServer(Options{Facts: func() Facts { return tt.facts }}), standing: standing{loggedIn: tt.loggedIn}}
		if got := s.limited(); got != tt.want {
			t.Errorf("%+v, logged in %v: limited %v, want %v", tt.facts, tt.loggedIn, got, tt.want)
		}
	}
}
