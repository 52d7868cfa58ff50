package relay

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// After unit/introspection, unit/pause and parts of unit/type/list and unit/other of Redis' own
// suite.
func TestClientCommandsMatchRedis(t *testing.T) {
	t.Parallel()
	const silent = "$-1"
	performBoth(t, []scene{
		{"names", []string{"a CLIENT GETNAME", "a CLIENT SETNAME testName", "a CLIENT GETNAME", "a CLIENT SETNAME",
			"a# \"*3\\r\\n$6\\r\\nCLIENT\\r\\n$7\\r\\nSETNAME\\r\\n$3\\r\\na b\\r\\n\"", "a< 1",
			"a CLIENT SETNAME x", "b? CLIENT LIST ID {a.id} = $", "a/", "b? CLIENT LIST ID {a.id} = $0"}, "testName"},
		{"a client killed by its id", []string{"a CLIENT ID", "b CLIENT KILL ID {a.id}", "a.", "b CLIENT KILL ID {a.id}",
			"b PING"}, "PONG"},
		{"a client that kills itself", []string{"a> CLIENT KILL ID {a.id} SKIPME no", "a."}, ":1"},
		{"a client killed in a pipeline", []string{"a SET x 1", "a> CLIENT KILL ID {a.id} SKIPME no", "a> INCR x", "a~",
			"b GET x"}, `$1\r\n1`},
		{"a client killed while it blocks", []string{"a=", "a> BLPOP none 0", "b? CLIENT LIST ID {a.id} = $",
			"b CLIENT KILL ID {a.id}", "a.",
			"b RPUSH none x", "b LLEN none"}, ":1"},
		{"KILL, badly", []string{"a CLIENT KILL", "a CLIENT KILL x", "a CLIENT KILL ID x", "a CLIENT KILL TYPE x",
			"a CLIENT KILL SKIPME x",
			"a CLIENT KILL ID 1 2"}, "No such client"},
		{"LIST, badly", []string{"a CLIENT LIST TYPE x", "a CLIENT LIST ID", "a CLIENT LIST x", "a CLIENT INFO x",
			"a CLIENT LIST ID x"}, "ERR"},
		{"UNBLOCK", []string{"a=", "a> BLPOP none 0", "b? CLIENT UNBLOCK {a.id} = :1", "a< 1", "a> BLPOP none 0",
			"b? CLIENT UNBLOCK {a.id} ERROR = :1",
			"a< 1", "a PING", "b CLIENT UNBLOCK {a.id}"},
			"UNBLOCKED"},
		{"REPLY OFF", []string{"a> CLIENT REPLY OFF", "a> SET foo bar", "a~", "a> CLIENT REPLY ON", "a< 1", "a GET foo"},
			"bar"},
		{"REPLY SKIP", []string{"a> CLIENT REPLY SKIP", "a> PING pong1", "a PING pong2"}, "pong2"},
		{"REPLY ON unsets SKIP", []string{"a> CLIENT REPLY SKIP", "a CLIENT REPLY ON", "a PING pong1"}, "pong1"},
		{"REPLY SKIP, an empty request", []string{"a> CLIENT REPLY SKIP", `a# "*0\r\n"`, "a PING 1", "a> CLIENT REPLY SKIP",
			`a# "\r\n"`, "a PING 2"}, "2"},
		{"REPLY SKIP, SKIP", []string{"a> CLIENT REPLY SKIP", "a> CLIENT REPLY SKIP", "a> PING 1", "a PING 2"}, "2"},
		{"REPLY, badly", []string{"a CLIENT REPLY", "a CLIENT REPLY WRONG", "a CLIENT REPLY on extra", "a PING"}, "PONG"},
		{"REPLY OFF and an error", []string{"a> CLIENT REPLY OFF", "a> GET", "a> NONE", "a> CLIENT REPLY x",
			"a> CLIENT REPLY ON", "a< 1", "a PING"}, "PONG"},
		{"MONITOR", []string{"m MONITOR", "a SET foo bar", "a GET foo", "m< 2"}, "foo"},
		{"MONITOR of a script", []string{"m MONITOR", "a# " + fmt.Sprintf("%q",
			lab.Encode("EVAL", "redis.call('SET',KEYS[1],ARGV[1])", "1", "foo", "baz")),
			"a< 1", "m< 2"}, `\"foo\"`},
		{"MONITOR hides secrets", []string{"m MONITOR", "a AUTH x", "a ACL SETUSER z", "a HELLO 3 AUTH x y",
			"a CONFIG SET requirepass ", "a PING", "m< 3"},
			"redacted"},
		{"MONITOR and transactions", []string{"m MONITOR", "a MULTI", "a SET foo bar", "a EXEC", "m< 3"}, "EXEC"},
		{"MONITOR, other commands, RESET", []string{"m MONITOR", "m PING", "m< 1", "m RESET", "a SET y 1", "m PING"},
			"RESET"},
		{"PAUSE", []string{"a CLIENT PAUSE 100000 WRITE", "a GET x", "b> SET x 1", "b~", "a CLIENT UNPAUSE", "b< 1",
			"a GET x"}, silent},
		{"PAUSE ALL", []string{"b PING", "a CLIENT PAUSE 300", "b> PING", "b< 1"}, "PONG"},
		{"NO-EVICT and the rest", []string{"a CLIENT NO-EVICT on", "a CLIENT NO-EVICT off", "a CLIENT NO-EVICT x",
			"a CLIENT TRACKINGINFO",
			"a CLIENT GETREDIR", "a CLIENT CACHING on", "a CLIENT HELP"}, "redirect"},
		{"several databases", []string{"a SELECT 3", "a SET x 1", "b GET x", "b SELECT 3", "b GET x", "a SWAPDB 3 4",
			"a GET x", "a SELECT 4", "a GET x",
			"a RESET", "a GET x"}, `$1\r\n1`},
		{"a client of many commands", []string{"a# " + fmt.Sprintf("%q",
			strings.Repeat("INCR n\r\n"+lab.Encode("ECHO", "x"), 500)), "a< 1000", "a GET n"},
			`$3\r\n500`},
	})
}

// After unit/obuf-limits: Redis closes the connection of a client that reads too slowly, before
// or in the middle of its replies.
func TestOutputLimitsCloseClients(t *testing.T) {
	t.Parallel()
	big := lab.Long(32<<20, 50<<20) // more than the sockets on the way can buffer
	direct, upstream := lab.StartRedis(t), lab.StartRedis(t)
	p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", lab.StartRedis(t).Addr, "--restart-guard", "off")
	for name, addr := range map[string]string{"directly": direct.Addr, "through the proxy": p.Addr} {
		desk := lab.Dial(t, addr)
		desk.WantDo(ok, "CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0 pubsub 1000000 0 0")
		desk.WantDo(lab.Integer(big), "SETRANGE", "big", fmt.Sprint(big-1), "x")
		one := lab.Dial(t, addr)
		one.Send(lab.Encode("GET", "big"))
		if text, closed, _ := one.Rest(lab.Patience); !closed || text != "" {
			t.Errorf("%s: one large reply: got %d bytes, closed %v, want 0 bytes and a close", name, len(text), closed)
		}
		many := lab.Dial(t, addr)
		many.Send(lab.Encode("SET", "x", "1") + strings.Repeat(lab.Encode("GET", "big"), 3) + lab.Encode("SET", "x", "2"))
		if text, closed, _ := many.Rest(lab.Patience); !closed || len(text) > big {
			t.Errorf("%s: several large replies: got %d bytes, closed %v, want at most one reply and a close", name, len(text),
				closed)
		}
		reader := lab.Dial(t, addr)
		reader.WantDo(subscription("subscribe", "news", 1), "SUBSCRIBE", "news")
		gone := lab.Poll(lab.Patience, func() bool {
			return desk.Do("PUBLISH", "news", strings.Repeat("x", 1<<20)) == ":0\r\n"
		})
		if text, closed, _ := reader.Rest(lab.Patience); !gone || !closed {
			t.Errorf("%s: a subscriber that reads nothing: removed %v, got %d bytes, closed %v, want it removed and closed",
				name, gone, len(text), closed)
		}
	}
}
