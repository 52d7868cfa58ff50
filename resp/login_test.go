package resp

import (
	"strings"
	"testing"
)

// TestUser: who is logged in, as far as that is certain.
func TestUser(t *testing.T) {
	const authed = "< +OK"
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"new", nil, "default"},
		{"AUTH password", []string{"> AUTH pw", authed}, "default"},
		{"AUTH user", []string{"> AUTH app pw", authed}, "app"},
		{"letters of a name count", []string{"> AUTH aPP pw", authed}, "aPP"},
		{"AUTH refused", []string{"> AUTH app pw", authed, "> AUTH other no", "< -WRONGPASS"}, "app"},
		{"AUTH twice", []string{"> AUTH app pw", "> AUTH other pw", authed, authed}, "other"},
		{"back to the default user", []string{"> AUTH app pw", "> AUTH pw", authed, authed}, "default"},
		{"a name too long to know", []string{"> AUTH " + strings.Repeat("u", keepUser+1) + " pw", authed}, ""},
		{"HELLO", []string{"> AUTH app pw", "> HELLO 3", authed, "< %1 +a +b"}, "app"},
		{"HELLO SETNAME", []string{"> AUTH app pw", "> HELLO 3 SETNAME x", authed, "< %1 +a +b"}, "app"},
		{"HELLO AUTH", []string{"> HELLO 3 AUTH app pw", "< %1 +a +b"}, "app"},
		{"HELLO AUTH SETNAME", []string{"> HELLO 2 auth app pw SETNAME x", "< *2 +a +b"}, "app"},
		{"HELLO SETNAME AUTH", []string{"> HELLO 2 setname x AUTH app pw", "< *2 +a +b"}, "app"},
		{"HELLO AUTH refused", []string{"> HELLO 3 AUTH app pw", "< -WRONGPASS"}, "default"},
		{"HELLO AUTH twice", []string{"> AUTH admin pw", "> HELLO 3 AUTH a pw AUTH b pw", authed, "< %1 +a +b"}, ""},
		{"HELLO with its AUTH far behind", []string{"> AUTH admin pw", "> HELLO 3 SETNAME x SETNAME y AUTH b pw", authed, "< %1 +a +b"}, ""},
		{"RESET", []string{"> AUTH app pw", "> RESET", authed, "< +RESET"}, "default"},
		{"RESET refused", []string{"> AUTH app pw", "> RESET", authed, "< -ERR"}, "app"},
		{"in MULTI", []string{"> AUTH app pw", "> MULTI", "> AUTH other pw", "> EXEC", authed, authed, "< +QUEUED", "< *1 +OK"}, ""},
		{"in MULTI, with HELLO", []string{"> MULTI", "> HELLO 3 AUTH other pw", "> EXEC", authed, "< +QUEUED", "< *1 +OK"}, ""},
		{"in MULTI, then again", []string{"> MULTI", "> AUTH other pw", "> EXEC", authed, "< +QUEUED", "< *1 +OK", "> AUTH app pw", authed}, "app"},
		{"in MULTI, discarded", []string{"> AUTH app pw", "> MULTI", "> AUTH other pw", "> DISCARD", authed, authed, "< +QUEUED", authed}, "app"},
		{"in MULTI, aborted", []string{"> AUTH app pw", "> MULTI", "> AUTH other pw", "> EXEC", authed, authed, "< +QUEUED", "< -EXECABORT"}, "app"},
		{"not told for certain", []string{"> AUTH app pw", authed, "> MONITOR", "> AUTH other pw", authed, authed}, ""},
		{"told for certain, with MONITOR behind", []string{"> AUTH app pw", "> AUTH other pw", "> MONITOR", authed, authed, authed}, "other"},
		{"refused for certain, with SUBSCRIBE behind", []string{"> AUTH app pw", "> AUTH other no", "> SUBSCRIBE a", authed, "< -WRONGPASS"}, "app"},
		{"refused, not told for certain", []string{"> AUTH app pw", authed, "> MONITOR", "> AUTH other pw", authed, "< -WRONGPASS"}, ""},
		{"without a reply", []string{"> AUTH app pw", authed, "> CLIENT REPLY OFF", "> AUTH other pw"}, ""},
		{"without a reply to it alone", []string{"> AUTH app pw", authed, "> CLIENT REPLY SKIP", "> AUTH other pw"}, ""},
		{"without a reply to it alone, in one go", []string{"> AUTH app pw", "> CLIENT REPLY SKIP", "> AUTH other pw", "> PING", authed, "< +PONG"}, ""},
		{"without a reply to HELLO alone, in one go", []string{"> AUTH app pw", "> CLIENT REPLY SKIP", "> HELLO 3 AUTH other pw", "> PING", authed, "< +PONG"}, ""},
		{"RESET without a reply, in one go", []string{"> AUTH app pw", "> CLIENT REPLY SKIP", "> RESET", "> PING", authed, "< -NOAUTH"}, "default"},
		{"RESET without a reply, wrongly", []string{"> AUTH app pw", "> CLIENT REPLY SKIP", "> RESET x", "> PING", authed, "< +PONG"}, ""},
	} {
		s := state{user: defaultUser}
		script(&s, tt.lines...)
		if s.user != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, s.user, tt.want)
		}
	}
}

// TestMarkerLosesLogin: an AUTH whose reply was not found when a marker came back may have changed the user.
func TestMarkerLosesLogin(t *testing.T) {
	s := state{user: defaultUser}
	script(&s, "> AUTH app pw", "< +OK", "> SUBSCRIBE a", "> AUTH other pw")
	s.resync()
	if s.user != "" || !s.authed {
		t.Errorf("user %q, authed %v; want nobody known, and still authenticated", s.user, s.authed)
	}
	script(&s, "> AUTH other pw", "< +OK")
	if s.user != "other" {
		t.Errorf("user %q behind the marker", s.user)
	}
}

// TestLoginBehindMarker: what a marker shows to be over counts in its order, also what had no reply.
func TestLoginBehindMarker(t *testing.T) {
	for _, tt := range []struct {
		last         []string
		user         string
		authed, full bool
	}{
		{[]string{"> CLIENT REPLY SKIP", "> AUTH other pw"}, "", true, false},
		{[]string{"> CLIENT REPLY SKIP", "> RESET"}, "default", false, false},
		{[]string{"> RESET"}, "", false, true},
		{[]string{"> CLIENT REPLY SKIP", "> RESET"}, "", false, true},
	} {
		s := state{user: defaultUser}
		script(&s, "> AUTH app pw")
		for range maxWaiting - 1 {
			if tt.full {
				script(&s, "> EXEC")
			}
		}
		script(&s, tt.last...)
		script(&s, "< +OK")
		s.resync()
		if s.user != tt.user || s.authed != tt.authed {
			t.Errorf("%s, full %v: user %q, authed %v; want %q, %v", tt.last, tt.full, s.user, s.authed, tt.user, tt.authed)
		}
	}
}

// TestForgedReset: a script may answer with the words of a RESET that is accepted. That moves no other reply to an AUTH, and where it cannot be
// told from the answer to a RESET nobody is believed to be logged in before the next marker.
func TestForgedReset(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
	}{
		{"in one go", []string{"> EVAL x", "> EVAL y", "> RESET", "> AUTH boss no", "< +RESET", "< +OK", "< +RESET", "< -WRONGPASS"}},
		{"not told for certain", []string{"> CLIENT REPLY ON", "> EVAL x", "> EVAL y", "> RESET", "< +OK", "< +RESET", "> AUTH boss no", "< +OK", "< +RESET", "< -WRONGPASS"}},
		{"counted wrong", []string{"> HELLO 3 AUTH app pw", "> CLIENT REPLY OFF", "> RESET", "> PING", "< %1 +a +b", "< -NOPERM", "< +RESET", "< -NOAUTH"}},
	} {
		s := state{user: defaultUser}
		script(&s, append([]string{"> AUTH app pw", "< +OK"}, tt.lines...)...)
		if s.authed || s.user == "boss" || s.user == "app" {
			t.Errorf("%s: user %q, authed %v", tt.name, s.user, s.authed)
		}
		s.resync()
		if s.authed || s.user == "boss" || s.user == "app" {
			t.Errorf("%s, behind a marker: user %q, authed %v", tt.name, s.user, s.authed)
		}
		script(&s, "> AUTH app pw", "< +OK")
		if s.user != "app" || !s.authed {
			t.Errorf("%s, AUTH behind a marker: user %q, authed %v", tt.name, s.user, s.authed)
		}
	}
}

// TestWaitingIsBounded: what is remembered for a client that reads nothing has a limit; beyond it nothing is certain before the next marker,
// and behind that all is again.
func TestWaitingIsBounded(t *testing.T) {
	for _, tt := range []struct {
		last string
		inTx bool
		user string
	}{{"> MULTI", true, "app"}, {"> EXEC", false, "app"}, {"> PING", true, "app"}, {"> AUTH other pw", true, ""}, {"> RESET", false, ""}} {
		s := state{user: defaultUser}
		script(&s, "> AUTH app pw", "< +OK")
		sent := s.sent.Load()
		for range 5 * maxWaiting {
			script(&s, "> EXEC", "> MULTI")
		}
		script(&s, tt.last)
		if len(s.waiting) != maxWaiting || cap(s.waiting) > 2*maxWaiting || s.regular() || s.settled() {
			t.Fatalf("%d waiting in room for %d, regular %v, settled %v", len(s.waiting), cap(s.waiting), s.regular(), s.settled())
		}
		for range maxWaiting + 100 {
			script(&s, "< -ERR EXEC without MULTI")
		}
		if n := s.received.Load() - sent; n != maxWaiting+100 {
			t.Errorf("%d replies counted, want %d", n, maxWaiting+100)
		}
		s.resync()
		if s.inTx != tt.inTx || s.user != tt.user || s.lost.any {
			t.Errorf("%s last: in a transaction %v, user %q; want %v, %q", tt.last, s.inTx, s.user, tt.inTx, tt.user)
		}
		script(&s, "> AUTH next pw", "< +OK", "> RESET", "< +RESET")
		s.resync()
		if !s.regular() {
			t.Errorf("%s last: not regular after RESET", tt.last)
		}
	}
}
