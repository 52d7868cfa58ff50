package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// After unit/protocol, unit/quit and unit/auth.
func TestProtocolMatchesRedis(t *testing.T) {
	t.Parallel()
	scenes := []scene{
		{"an empty query", []string{`a# "\r\n"`, "a PING"}, "PONG"},
		{"negative multibulk length", []string{`a# "*-10\r\n"`, "a PING"}, "PONG"},
		{"blocking commands in a pipeline", []string{"a> BLPOP none 0", "a> BLPOP none 0", "b RPUSH none a", "a< 1",
			"b RPUSH none b", "a< 1"}, `b\r\n`},
		{"a command in pieces over time", []string{`a# "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$40000\r\n"`, "a~",
			fmt.Sprintf("a# %q", strings.Repeat("x",
				20_000)), "a~",
			fmt.Sprintf("a# %q", strings.Repeat("y", 20_000)+"\r\n"), "a< 1", "a STRLEN key"}, ":40000"},
		{"many arguments", []string{fmt.Sprintf("a# %q", "*20001\r\n$4\r\nMGET\r\n"+strings.Repeat("$1\r\nk\r\n", 20_000)),
			"a< 1", "a PING"}, "PONG"},
		{"wrong number of many arguments", []string{fmt.Sprintf("a# %q",
			"*20001\r\n$4\r\nPING\r\n"+strings.Repeat("$1\r\nk\r\n", 20_000)), "a< 1",
			"a PING"}, "wrong number of arguments"},
		{"wrong number of arguments", []string{"a PING x y z", "a GET", "a SET a", "a MSET a b c", "a CLIENT",
			"a CONFIG GET", "a OBJECT x", "a EVAL x"},
			"wrong number of arguments for 'ping' command"},
		{"unknown commands", []string{"a FOOBAR a b c", "a CLIENT FOOBAR",
			fmt.Sprintf("a NONE %s", strings.Repeat("x ", 200)),
			fmt.Sprintf("a %s", strings.Repeat("y", 300)), `a# "*2\r\n$5\r\na\r\nb\n\r\n$3\r\n\x00\r\n\r\n"`, "a< 1"},
			"unknown command 'FOOBAR'"},
		{"an inline of 60 KB", []string{fmt.Sprintf("a# %q", "ECHO "+strings.Repeat("x", 60_000)+"\r\n"), "a< 1", "a PING"},
			"xxx"},
		{"inline forms", []string{`a# "SET k \"a\\x00\\n b\"\r\nGET k\nGET  'k'  \n\tPING\r\nGET k\r"`, "a< 4", `a# "\n"`,
			"a< 1"}, `a\x00\n b`},
		{"pieces of an inline", []string{`a# "PI"`, "a~", `a# "NG\r"`, "a~", `a# "\nPING\n"`, "a< 2"}, "PONG"},
		{"RESP3 types", []string{"a HELLO 3", "a DEBUG PROTOCOL true", "a DEBUG PROTOCOL false", "a DEBUG PROTOCOL verbatim",
			"a DEBUG PROTOCOL bignum",
			"a DEBUG PROTOCOL double",
			"a DEBUG PROTOCOL map", "a DEBUG PROTOCOL set", "a DEBUG PROTOCOL null", "a> DEBUG PROTOCOL push", "a< 2",
			"a> DEBUG PROTOCOL attrib", "a< 1",
			"a PING"}, "#t"},
		{"the same types in RESP2", []string{"a DEBUG PROTOCOL true", "a DEBUG PROTOCOL verbatim", "a DEBUG PROTOCOL bignum",
			"a DEBUG PROTOCOL double",
			"a DEBUG PROTOCOL map",
			"a DEBUG PROTOCOL set", "a DEBUG PROTOCOL null", "a DEBUG PROTOCOL attrib", "a PING"}, "PONG"},
		{"HELLO", []string{"a HELLO", "a HELLO 2", "a HELLO 3", "a HELLO 1", "a HELLO 3 SETNAME", "a HELLO 3 SETNAME me",
			"a CLIENT GETNAME",
			"a HELLO 3 AUTH x y", "a HELLO x", "a HELLO 2", "a PING"}, "NOPROTO"},
		{"QUIT", []string{"a QUIT", "a."}, "OK"},
		{"commands behind QUIT", []string{`a# "*1\r\n$4\r\nQUIT\r\n*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$3\r\nbar\r\n"`, "a.",
			"b EXISTS foo"}, ":0"},
		{"a large command behind QUIT", []string{fmt.Sprintf("a# %q", "QUIT\r\n"+lab.Encode("SET", "foo",
			strings.Repeat("x", 64_000))), "a.",
			"b EXISTS foo"}, ":0"},
		{"AUTH without a password to give", []string{"a AUTH foo", "a AUTH a b", "a AUTH a b c", "a AUTH"},
			"without any password configured"},
		{"half-close", []string{"a> SET x 1", "a> INCR x", "a-", "a.", "b GET x"}, `$1\r\n2`},
		{"replies behind an error", []string{`a# "GET\r\nPING\r\nSET a\r\nECHO b\r\n"`, "a< 4"}, "PONG"},
		{"half a request, and away", []string{`a# "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$5\r\nab"`, "a-", "a.", "b EXISTS x"},
			":0"},
	}
	for request, said := range map[string]string{
		"*3000000000\r\n": "invalid multibulk length", "*20\r\nfoo\r\n": "expected '$', got 'f'",
		"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n":        "expected '$', got 'f'",
		"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-10\r\n":        "invalid bulk length",
		"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n": "invalid bulk length",
		"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n":     "invalid bulk length", "*1\r\nfoo\r\n": "expected '$', got 'f'",
		"*blabla\r\n": "invalid multibulk length",
		"set \"\"\"test-key\"\"\" test-value\r\n": "unbalanced quotes", "get 'a\r\n": "unbalanced quotes",
		"*2\r\n$3\r\nGET\r\n\x00":         "",
		"*1\r\n$4\r\nPING\r\n*1\r\nx\r\n": "PONG", strings.Repeat("x", 70_000): "too big inline request",
		"*" + strings.Repeat("1",
			70_000): "too big mbulk count string",
		"*1\r\n$" + strings.Repeat("1", 70_000): "too big bulk count string",
	} {
		scenes = append(scenes, scene{fmt.Sprintf("%.30q", request), []string{fmt.Sprintf("a# %q", request), "a~"}, said})
	}
	performBoth(t, scenes)
}

// After unit/auth.
func TestUnauthenticatedMatchesRedis(t *testing.T) {
	t.Parallel()
	performBoth(t, []scene{
		{"before and behind AUTH", []string{"a GET x", "a AUTH wrong", "a AUTH", "a AUTH nobody foobar", "a SET x 1",
			"a AUTH foobar", "a SET x 1",
			"a INCR x", "a RESET", "a GET x",
			"a AUTH default foobar", "a GET x"}, "WRONGPASS"},
		{"what needs no AUTH", []string{"a HELLO 2", "a RESET", "a QUIT", "a."}, "RESET"},
		{"HELLO", []string{"a HELLO 3 AUTH default foobar", "a PING", "a HELLO 3 AUTH default no", "a PING"}, "WRONGPASS"},
		{"ten arguments, and eleven", []string{"a PING 2 3 4 5 6 7 8 9 10", "a# \"*11\\r\\n\"", "a."},
			"unauthenticated multibulk length"},
		{"16 KB, and more", []string{"a PING", `a# "*1\r\n$16384\r\n"`, "b PING", `b# "*1\r\n$16385\r\n"`, "b."},
			"unauthenticated bulk length"},
	}, "--requirepass", "foobar")
}

// After the regression test of this name in unit/protocol: the client keeps writing after bytes
// that are no request until a write fails, and then reads the reason.
func TestEndlessMalformedInputIsRejected(t *testing.T) {
	t.Parallel()
	direct, upstream := lab.StartRedis(t), lab.StartRedis(t)
	p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", lab.StartRedis(t).Addr, "--restart-guard", "off")
	before := p.Memory(t, "VmHWM")
	for _, start := range []string{"\x00", "*\x00", "$\x00"} {
		for name, addr := range map[string]string{"directly": direct.Addr, "through the proxy": p.Addr} {
			c := lab.Dial(t, addr)
			payload, err := strings.Repeat("A", 1024)+"\n", c.Put(start)
			for began := time.Now(); err == nil && time.Since(began) < time.Minute; {
				err = c.Put(payload)
			}
			if err == nil {
				t.Fatalf("%q, %s: the connection is still open, want it closed", start, name)
			}
			text, _, _ := c.Rest(lab.Patience)
			if !strings.Contains(text, "-ERR Protocol error: too big ") {
				t.Errorf("%q, %s: got %.100q, want the protocol error", start, name, text)
			}
		}
	}
	if after := p.Memory(t, "VmHWM"); after > before+60*int(lab.Slack) {
		t.Errorf("the proxy's memory rose from %d MB to %d MB", before, after)
	}
}
