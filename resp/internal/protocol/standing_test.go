package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// TestStandingFollowsFromAnswers is a table of what an upstream says to HELLO, or to PING in its
// place, and to ACL WHOAMI, and the standing of the connection then.
func TestStandingFollowsFromAnswers(t *testing.T) {
	const noPerm = "-NOPERM User bob has no permissions to run the 'hello' command\r\n"
	guest := Standing{User: DefaultUser}
	named := Standing{LoggedIn: true, User: "alice"}
	for _, tt := range []struct {
		name          string
		was           Standing
		withoutHello  bool // the upstream does not know a bare HELLO
		hello, whoami string
		want          Standing // all were asked
	}{
		{"refused before anything was looked at", Standing{LoggedIn: true, RESP3: true, Mode: ModeTransaction,
			User: "alice"}, false, "", "", guest},
		{"not logged in", Standing{LoggedIn: true, User: "alice"}, false, noHello, noAuth, guest},
		{"RESP2", Standing{Mode: ModeTransaction, RESP3: true}, false, helloArray, alice, named},
		{"RESP2, the user is not asked", Standing{User: "bob"}, false, helloArray, "",
			Standing{LoggedIn: true, WhyNoUser: "not asked"}},
		{"RESP3", Standing{}, false, helloMap, alice, Standing{LoggedIn: true, RESP3: true, User: "alice"}},
		{"MULTI", Standing{}, false, queued, queued, Standing{LoggedIn: true, WhyNoUser: "QUEUED", Mode: ModeTransaction}},
		{"MULTI, RESP3 from before", Standing{RESP3: true}, false, queued, "",
			Standing{LoggedIn: true, WhyNoUser: "not asked", Mode: ModeTransaction, RESP3: true}},
		{"subscribed", Standing{RESP3: true}, false, noExecute, noWhoami,
			Standing{LoggedIn: true, WhyNoUser: strings.TrimSuffix(noWhoami[1:], "\r\n"), Mode: ModeSubscribed}},
		{"subscribed, PING", Standing{}, true, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", noWhoami,
			Standing{LoggedIn: true, WhyNoUser: strings.TrimSuffix(noWhoami[1:], "\r\n"), Mode: ModeSubscribed}},
		{"PING", Standing{}, true, "+PONG\r\n", alice, named},
		{"PING of a script", Standing{}, true, "$4\r\nPONG\r\n", alice, named},
		{"PING not logged in", Standing{}, true, noAuth, noAuth, guest},
		{"PING refused otherwise", Standing{}, true, "-ERR x\r\n", alice, Standing{User: DefaultUser}},
		{"PONG where HELLO was asked", Standing{}, false, "+PONG\r\n", alice, guest},
		{"BUSY", Standing{}, false, "-BUSY Redis is busy\r\n", "-BUSY Redis is busy\r\n",
			Standing{LoggedIn: true, WhyNoUser: "BUSY Redis is busy"}},
		{"LOADING", Standing{}, false, helloArray, "-LOADING Redis\r\n",
			Standing{LoggedIn: true, WhyNoUser: "LOADING Redis"}},
		{"a right to HELLO that lacks", Standing{}, false, noPerm, alice, named},
		{"a number", Standing{}, false, ":1\r\n", alice, guest},
		{"default", Standing{}, false, helloArray, "$7\r\ndefault\r\n", Standing{LoggedIn: true, User: DefaultUser}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Conn{standing: tt.was, withoutHello: tt.withoutHello}
			var whoami []byte
			if tt.whoami != "" {
				whoami = []byte(tt.whoami)
			}
			tt.want.Asked = true
			known := c.learn([]byte(tt.hello), whoami)
			switch {
			case !known || c.withoutHello != tt.withoutHello:
				t.Error("asked again")
			case c.standing != tt.want:
				t.Errorf("got  %+v\nwant %+v", c.standing, tt.want)
			case c.RESP3() != tt.want.RESP3:
				t.Errorf("RESP3 is %v for others, want %v", !tt.want.RESP3, tt.want.RESP3)
			}
		})
	}
}

// TestLearnsThatHelloIsUnknown: the next query asks with PING.
func TestLearnsThatHelloIsUnknown(t *testing.T) {
	for _, hello := range []string{
		"-ERR unknown command `HELLO`, with args beginning with: \r\n",
		"-ERR wrong number of arguments for 'hello' command\r\n",
	} {
		c := Conn{standing: Standing{User: "before"}}
		if c.learn([]byte(hello), []byte(alice)) || !c.withoutHello || c.standing != (Standing{User: "before"}) {
			t.Errorf("%q: not asked again with PING, but %+v", hello, c.standing)
		}
	}
}

// TestUserOf: a name is believed only if it is whole.
func TestUserOf(t *testing.T) {
	bulk := func(name string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(name), name) }
	longest := strings.Repeat("n", 1008)
	for _, tt := range []struct{ name, answer, user, why string }{
		{"a name", bulk("alice"), "alice", ""},
		{"line ends", bulk("a\r\nb"), "a\r\nb", ""},
		{"a line end is all", bulk("\r\n"), "\r\n", ""},
		{"like a header", bulk("$3\r\n"), "$3\r\n", ""},
		{"spaces and zeros", bulk(" \x00\xff"), " \x00\xff", ""},
		{"the longest", bulk(longest), longest, ""},
		{"longer", bulk(longest + "n"), "", "no usable name"},
		{"cut off as it is too long to be kept", bulk(strings.Repeat("n", 5000))[:maxAnswer], "",
			"no usable name"},
		{"empty", bulk(""), "", "no usable name"},
		{"null", "$-1\r\n", "", "no usable name"},
		{"shorter than it says", "$6\r\nalice\r\n", "", "no usable name"},
		{"longer than it says", "$4\r\nalice\r\n", "", "no usable name"},
		{"no number", "$x\r\nalice\r\n", "", "no usable name"},
		{"an error", "-NOPERM no permissions\r\n", "", "NOPERM no permissions"},
		{"a status", queued, "", "QUEUED"},
		{"nothing", "", "", "no answer"},
		{"a dollar", "$", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if user, why := userOf([]byte(tt.answer)); user != tt.user || why != tt.why {
				t.Errorf("got %q, %q; want %q, %q", user, why, tt.user, tt.why)
			}
		})
	}
}
