package relay

import (
	"strings"
	"testing"
)

// After unit/multi, and the parts of unit/scripting that a connection can observe.
func TestTransactionsMatchRedis(t *testing.T) {
	t.Parallel()
	performBoth(t, []scene{
		{"EXEC", []string{"a RPUSH mylist a b c", "a MULTI", "a LRANGE mylist 0 -1", "a PING", "a EXEC"}, "PONG"},
		{"DISCARD", []string{"a SET x 1", "a MULTI", "a INCR x", "a DISCARD", "a GET x", "a DISCARD", "a EXEC"},
			"without MULTI"},
		{"nested", []string{"a MULTI", "a MULTI", "a EXEC"}, "nested"},
		{"WATCH inside", []string{"a MULTI", "a WATCH x", "a EXEC"}, "WATCH inside MULTI"},
		{"errors while queueing", []string{"a SET foo1 bar1", "a MULTI", "a SET foo1 bar2", "a NON-EXISTING", "a SET foo2",
			"a EXEC", "a GET foo1",
			"a PING"}, "EXECABORT"},
		{"errors while running", []string{"a MULTI", "a SET x y", "a LPUSH x z", "a INCR x", "a PING", "a EXEC"},
			"WRONGTYPE"},
		{"WATCH, and a change", []string{"a SET x 1", "a WATCH x", "b SET x 2", "a MULTI", "a PING", "a EXEC", "a MULTI",
			"a PING", "a EXEC"}, `*-1\r\n`},
		{"WATCH, and no change", []string{"a WATCH x y", "a MULTI", "a PING", "a EXEC"}, "PONG"},
		{"UNWATCH", []string{"a WATCH x", "b SET x 2", "a UNWATCH", "a MULTI", "a PING", "a EXEC", "a WATCH x", "b SET x 3",
			"a RESET", "a MULTI", "a PING",
			"a EXEC"}, "PONG"},
		{"DISCARD forgets what was watched", []string{"a WATCH x", "b SET x 10", "a MULTI", "a DISCARD", "a MULTI", "a PING",
			"a EXEC"}, "PONG"},
		{"WATCH and FLUSHALL", []string{"a SET x 30", "a WATCH x", "b FLUSHALL", "a MULTI", "a PING", "a EXEC", "a WATCH x",
			"b FLUSHDB", "a MULTI",
			"a PING", "a EXEC"}, "PONG"},
		{"WATCH of what expires", []string{"a SET x foo PX 3000", "a WATCH x", "b? EXISTS x = :0", "a MULTI", "a PING",
			"a EXEC"}, `*-1\r\n`},
		{"WATCH and SWAPDB", []string{"a WATCH x", "b SELECT 1", "b SET x 1", "b SWAPDB 0 1", "a MULTI", "a PING", "a EXEC"},
			`*-1\r\n`},
		{"blocking inside", []string{"a MULTI", "a BLPOP empty 0", "a BRPOPLPUSH empty1 empty2 0",
			"a XREAD BLOCK 0 STREAMS s $", "a WAIT 1 0", "a EXEC"},
			`*-1\r\n`},
		{"nothing inside", []string{"a MULTI", "a EXEC"}, `*0\r\n`},
		{"what cannot be inside", []string{"a MULTI", "a MONITOR", "a SYNC", "a PSYNC x 1", "a EXEC", "a PING"}, "PONG"},
		{"RESET, QUIT inside", []string{"a MULTI", "a SET x 1", "a RESET", "a GET x", "a MULTI", "a SET x 2", "a QUIT", "a.",
			"b GET x"}, `$-1\r\n`},
		{"HELLO inside", []string{"a MULTI", "a HELLO 3", "a GET x", "a EXEC", "a GET x", "a HELLO 2", "a GET x"}, `_\r\n`},
		{"SELECT inside", []string{"a MULTI", "a SELECT 5", "a SET x 1", "a EXEC", "a GET x", "b GET x"}, `$1\r\n1`},
		{"CLIENT REPLY inside", []string{"a MULTI", "a CLIENT REPLY OFF", "a PING", "a> EXEC", "a~", "a> CLIENT REPLY ON",
			"a~", "a PING"}, "PONG"},
		{"SHUTDOWN inside", []string{"a MULTI", "a SHUTDOWN", "a EXEC", "a PING"}, "PONG"},
		{"a busy script", []string{"a CONFIG SET lua-time-limit 10", `b# "EVAL \"while true do end\" 0\r\n"`,
			"a? PING = -BUSY", "a GET x", "a MULTI",
			"a SET x 1", "a EXEC", "a SCRIPT KILL", "b< 1", "a? PING = +PONG", "a GET x"}, "BUSY"},
		{"a busy script between", []string{"a CONFIG SET lua-time-limit 10", "a MULTI", "a SET x 1",
			`b# "EVAL \"while true do end\" 0\r\n"`,
			"c? PING = -BUSY", "a PING", "a EXEC", "c SCRIPT KILL", "b< 1", "a? PING = +PONG", "a GET x"}, "BUSY"},
		{"what scripts return", []string{`a# "EVAL \"return {1,2,{3,'a',false,nil,4}}\" 0\r\nEVAL \"return redis.status_reply('1.2 [x')\" 0\r\nEVAL \"return redis.error_reply('MY err')\" 0\r\nEVAL \"return {'message','a','b'}\" 0\r\n"`, "a< 4",
			"a HELLO 3", `a# "EVAL \"redis.setresp(3); return redis.call('hgetall','h')\" 0\r\nEVAL \"return {double=1.5}\" 0\r\n"`, "a< 2", "a PING"},
			"MY err"},
		{"replies of replicas' commands", []string{"a REPLCONF listening-port 1234", "a ROLE", "a WAIT 0 0",
			"a FAILOVER ABORT", "a REPLICAOF NO ONE"},
			"master"},
		{"a large pipeline of transactions", []string{`a# "` +
			strings.Repeat(`MULTI\r\nSET x 1\r\nEXEC\r\nMULTI\r\nNONE\r\nEXEC\r\n`, 300) + `"`,
			"a< 1800", "a PING"}, "PONG"},
	})
}
