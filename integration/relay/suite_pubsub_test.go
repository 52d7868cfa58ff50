package relay

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// After unit/pubsub and unit/pubsubshard.
func TestPubSubMatchesRedis(t *testing.T) {
	t.Parallel()
	performBoth(t, []scene{
		{"PING", []string{"a SUBSCRIBE somechannel", "a PING", "a PING foo", "a UNSUBSCRIBE somechannel", "a PING",
			"a PING foo"}, "pong"},
		{"PING in RESP3", []string{"a HELLO 3", "a SUBSCRIBE somechannel", "a PING", "a PING foo", "a GET x",
			"a UNSUBSCRIBE somechannel", "a PING"}, "PONG"},
		{"PUBLISH", []string{"a> SUBSCRIBE chan1 chan2", "a< 2", "b PUBLISH chan1 hello", "b PUBLISH chan2 world", "a< 2",
			"a UNSUBSCRIBE chan1",
			"b PUBLISH chan1 hello", "b PUBLISH chan2 world", "a< 1",
			"a UNSUBSCRIBE chan2", "b PUBLISH chan2 x", "a PING"}, "world"},
		{"UNSUBSCRIBE from all", []string{"a SUBSCRIBE chan1", "a UNSUBSCRIBE", "b PUBLISH chan1 hello", "a~",
			"a UNSUBSCRIBE", "a PUNSUBSCRIBE",
			"a SUNSUBSCRIBE", "a GET x"}, "unsubscribe"},
		{"one channel more than once", []string{"a> SUBSCRIBE chan1 chan1 chan1", "a< 3", "b PUBLISH chan1 hello", "a< 1",
			"a~"}, "hello"},
		{"UNSUBSCRIBE from others", []string{"a> UNSUBSCRIBE foo bar quux", "a< 3", "a> PUNSUBSCRIBE foo.* bar.*", "a< 2",
			"a PING"}, "quux"},
		{"patterns", []string{"a> PSUBSCRIBE foo.* bar.*", "a< 2", "b PUBLISH foo.1 hello", "b PUBLISH bar.1 hello",
			"b PUBLISH foo1 hello", "a< 2",
			"a PUNSUBSCRIBE foo.*", "b PUBLISH foo.1 x", "b PUBLISH bar.1 y", "a< 1",
			"b PUBSUB NUMPAT"}, "pmessage"},
		{"both", []string{"a SUBSCRIBE foo.bar", "a PSUBSCRIBE foo.*", "b PUBLISH foo.bar hello", "a< 2",
			"b PUBSUB NUMSUB foo.bar x",
			"b PUBSUB CHANNELS foo*"}, "pmessage"},
		{"shards", []string{"a SSUBSCRIBE s", "b SPUBLISH s hello", "a< 1", "b PUBLISH s other", "a~",
			"b PUBSUB SHARDNUMSUB s", "b PUBSUB SHARDCHANNELS",
			"a SUNSUBSCRIBE s", "a GET x"}, "smessage"},
		{"what is refused", []string{"a SUBSCRIBE x", "a GET x", "a MULTI", "a EXEC", "a HELLO 3", "a CLIENT ID",
			"a SUBSCRIBE", "a RESET", "a GET x"},
			"are allowed in this context"},
		{"keyspace events", []string{"b CONFIG SET notify-keyspace-events KEA", "a PSUBSCRIBE *", "b SET foo bar", "a< 2",
			"b DEL foo", "a< 2",
			`b# "CONFIG SET notify-keyspace-events \"\"\r\n"`, "b< 1"}, "keyevent"},
		{"to oneself inside a transaction", []string{"a HELLO 3", "a SUBSCRIBE foo", "a MULTI", "a PING abc",
			"a PUBLISH foo bar", "a PING def", "a> EXEC",
			"a< 2", "a PING"}, "message"},
		{"to oneself inside a script", []string{"a HELLO 3", "a SUBSCRIBE foo",
			`a# "EVAL \"redis.call('publish','foo','bar'); redis.call('publish','foo','baz'); return 'ok'\" 0\r\n"`, "a< 3",
			"a PING"}, "baz"},
		{"leaving inside a transaction", []string{"a HELLO 3", "a> SUBSCRIBE foo bar baz", "a< 3", "a MULTI", "a PING abc",
			"a UNSUBSCRIBE bar",
			"a UNSUBSCRIBE baz", "a PING def", "a EXEC", "b PUBLISH foo vaz", "a< 1",
			"b PUBLISH bar x", "a PING"}, "vaz"},
		{"a transaction that subscribes", []string{"a MULTI", "a SUBSCRIBE x", "a PSUBSCRIBE y*", "a EXEC", "a PING",
			"a GET x", "b PUBLISH x 1", "a< 1",
			"a UNSUBSCRIBE", "a PUNSUBSCRIBE", "a GET x"}, "psubscribe"},
		{"messages with replies off", []string{"a HELLO 3", "a SUBSCRIBE channel", "b PUBLISH channel hello", "a< 1",
			"a> CLIENT REPLY OFF",
			"a> SUBSCRIBE channel2", "b? PUBSUB NUMSUB channel2 = *2\r\n$8\r\nchannel2\r\n:1",
			"b PUBLISH channel hello", "a~", "a> CLIENT REPLY ON", "a~"}, "hello"},
		{"a message of 300 KB", []string{"a SUBSCRIBE x", "b SETRANGE big 300000 y",
			`b# "EVAL \"return redis.call('publish','x',redis.call('get','big'))\" 0\r\n"`, "b< 1", "a< 1"}, "message"},
	})
}

// After unit/tracking.
func TestTrackingMatchesRedis(t *testing.T) {
	t.Parallel()
	on := func(how string) []string { return []string{"a HELLO 3", "a CLIENT TRACKING on " + how} }
	with := func(steps []string, more ...string) []string { return append(steps, more...) }
	performBoth(t, []scene{
		{"of keys that were read", with(on(""), "b MSET key1 1 key2 1", "a GET key1", "a GET key2", "b INCR key1", "a< 1",
			"b INCR key2", "a< 1",
			"b INCR key1", "a PING"), "invalidate"},
		{"of keys that one writes oneself", with(on(""), "a GET key1", "a> SET key1 1", "a< 2", "a GET key1", "a> INCR key1",
			"a< 2"), "invalidate"},
		{"not of one's own", with(on("noloop"), "a GET key1", "a SET key1 1", "a PING"), "PONG"},
		{"redirected to another", []string{"r CLIENT ID", "a CLIENT TRACKING on REDIRECT {r.id}",
			"r SUBSCRIBE __redis__:invalidate", "a GET key1",
			"b SET key1 2", "r< 1", "b FLUSHALL", "a GET key1", "a CLIENT GETREDIR"}, "invalidate"},
		{"redirected to one that leaves", []string{"r HELLO 3", "a HELLO 3", "a CLIENT TRACKING on REDIRECT {r.id}",
			"a SET key1 1", "a GET key1", "r/",
			"b? CLIENT LIST ID {r.id} = $0", "b INCR key1", "a< 1"}, "tracking-redir-broken"},
		{"OPTIN", with(on("OPTIN"), "a GET key1", "b SET key1 1", "a PING", "a CLIENT CACHING yes", "a GET key1",
			"b SET key1 2", "a< 1",
			"a CLIENT CACHING no"), "invalidate"},
		{"OPTOUT", with(on("OPTOUT"), "a GET key1", "b SET key1 1", "a< 1", "a CLIENT CACHING no", "a GET key1",
			"b SET key1 2", "a PING",
			"a CLIENT CACHING yes"), "invalidate"},
		{"CACHING without either", with(on(""), "a CLIENT CACHING yes", "a CLIENT TRACKING on BCAST",
			"a CLIENT TRACKING off", "a CLIENT CACHING yes"),
			"ERR"},
		{"expired", with(on(""), "b SET mykey x PX 1000", "a GET mykey", "a< 1", "a PING"), "invalidate"},
		{"FLUSHALL", with(on(""), "a GET key1", "b FLUSHALL", "a< 1", "b FLUSHDB", "a PING"), "invalidate"},
		{"in a transaction", with(on(""), "a GET key1", "a MULTI", "a SET key1 1", "a GET key1", "a> EXEC", "a< 2",
			"b SET key1 5", "a~"), "invalidate"},
		{"of scripts", with(on(""), "a# \"EVAL \\\"return redis.call('get',KEYS[1])\\\" 1 key1\\r\\n\"", "a< 1",
			"b SET key1 1", "a< 1"), "invalidate"},
		{"prefixes", []string{"a HELLO 3", "a CLIENT TRACKING on BCAST PREFIX foo PREFIX bar",
			"a CLIENT TRACKING on BCAST PREFIX fo", "b SET foo1 1",
			"a< 1", "b SET other 1", "b SET bar1 1", "a< 1", "a CLIENT TRACKINGINFO", "a CLIENT TRACKING off", "b SET foo2 1",
			"a PING"}, "foo1"},
		{"INFO", with(on("OPTIN"), "a CLIENT TRACKINGINFO", "a CLIENT TRACKING off", "a CLIENT TRACKINGINFO", "a RESET",
			"a CLIENT TRACKINGINFO"), "optin"},
		{"RESP2 without a redirection", []string{"a CLIENT TRACKING on", "a GET x", "b SET x 1", "a PING", "a HELLO 3",
			"a GET x", "b SET x 2", "a< 1"},
			"invalidate"},
	})
}

// The proxy passes the stream to a replica that speaks the old protocol, which Redis' suite
// itself uses to read replicated commands.
func TestOldReplicationStreamPasses(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 1)
	c.Upstream.Must(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	host, desk := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	host.Timeout = lab.Patience
	desk.WantDo(ok, "SET", "before", "1")
	host.Send("SYNC\r\n")
	read := func(what string) {
		t.Helper()
		for got := ""; !strings.HasSuffix(got, what); {
			if err := host.SetReadDeadline(time.Now().Add(host.Timeout)); err != nil {
				t.Fatal(err)
			}
			b, err := host.Reader.ReadByte()
			if got += string(b); err != nil {
				t.Fatalf("%v while waiting for %q", err, what)
			}
		}
	}
	read("REDIS00") // the start of the RDB file
	// In one write, so that the master's PING cannot come between the two.
	desk.Send(lab.Encode("SET", "one", "LOCK job 60s") + lab.Encode("INCR", "two"))
	desk.Want(ok + ":1\r\n")
	read(lab.Encode("SELECT", "0") + lab.Encode("SET", "one", "LOCK job 60s") + lab.Encode("INCR", "two"))
}
