package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEmbeddedSlowReaderStopsOnlyItself(t *testing.T) {
	m, _ := newTestServer(t)
	slow, other := m.dialTest(t), m.dialTest(t)
	other.call("+OK\n", "SET", "big", strings.Repeat("x", 1<<20))
	for range 60 {
		slow.send("GET", "big")
	}
	other.call("+PONG\n", "PING")
	// The buffer may exceed the pace by one reply, not by sixty.
	waitFor(t, "replies pile up to the pace", func() bool { return unread(slow.bufConn) > replyPace })
	for range 20 {
		other.call("$1048576\n", "GET", "big") // the others go on, and meanwhile
		other.Reader.Discard(1<<20 + 2)
		if n := unread(slow.bufConn); n > 4*replyPace {
			t.Fatalf("%d bytes of replies are held for a client that does not read", n)
		}
	}
	for range 60 {
		slow.expect("$1048576\n")
		if _, err := slow.Reader.Discard(1<<20 + 2); err != nil {
			t.Fatal(err)
		}
	}
}

func unread(c *bufConn) int {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.unreadLocked()
}

// Each of these ends a miniredis process, or makes it useless: by a panic under its lock, by a
// reply that contains itself, by memory, by never ending.
func TestEmbeddedSurvivesFatalCommands(t *testing.T) {
	m, logs := newTestServer(t)
	other := m.dialTest(t)
	other.call(":2\n", "SADD", "set", "a", "b")
	for name, c := range map[string]struct {
		command []string
		reply   string
	}{
		"panic under the lock": {[]string{"SSCAN", "set", "-1"}, "-ERR internal error of the embedded server\n"},
		"a reply in itself":    {[]string{"EVAL", "local t = {} t[1] = t return t", "0"}, "*1\n*1\n*1\n"},
		"a long string": {[]string{"SETRANGE", "s", "4294967290", "x"},
			"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\n"},
		"a negative long string": {[]string{"SETRANGE", "s", "9223372036854775807", "x"}, "-ERR string exceeds"},
		"many bits": {[]string{"SETBIT", "s", "999999999999", "1"},
			"-ERR bit offset is not an integer or out of range\n"},
		"many members":   {[]string{"SRANDMEMBER", "set", "-9223372036854775808"}, "-ERR value is out of range\n"},
		"many positions": {[]string{"LPOS", "l", "a", "COUNT", "99999999999"}, "-ERR value is out of range\n"},
		"in a script": {[]string{"EVAL", "return redis.call('SETRANGE', 's', '4294967290', 'x')", "0"},
			"-ERR Error compiling script"},
		"waiting in a script": {[]string{"EVAL", "return redis.call('BLPOP', 'none', '0')", "0"},
			"-ERR Error compiling script"},
	} {
		t.Run(name, func(t *testing.T) {
			client := m.dialTest(t)
			client.call(c.reply, c.command...)
			client.Close()
			other.call(":2\n", "SCARD", "set")
		})
	}
	client := m.dialTest(t) // here miniredis unlocks by itself
	client.call("+OK\n", "MULTI")
	client.call("+QUEUED\n", "SSCAN", "set", "-1")
	client.call("-ERR internal error of the embedded server\n", "EXEC")
	other.call(":2\n", "SCARD", "set")
	waitFor(t, "three panics are in the log",
		func() bool { return logs.FilterMessage("embedded server panicked").Len() == 3 })
	for _, entry := range logs.All() {
		if text := fmt.Sprint(entry.ContextMap()["command"]); !slices.Contains([]string{"SSCAN", "EVAL", "EXEC"}, text) {
			t.Errorf("logged command %s", text)
		}
	}
}

// TestEmbeddedSurvivesOddArguments throws odd arguments at every command that there is, and wants
// an answer or an end of the connection, soon, every time.
func TestEmbeddedSurvivesOddArguments(t *testing.T) {
	m, logs := newTestServer(t)
	names := strings.Fields(`ACL AUTH CLIENT CLUSTER COMMAND CONFIG ECHO HELLO INFO PING RESET ROLE SELECT SWAPDB
		COPY DEL DUMP EXISTS EXPIRE EXPIREAT EXPIRETIME KEYS MOVE PERSIST PEXPIRE PTTL
		RANDOMKEY RENAME RESTORE SCAN TTL TYPE WAIT GEOADD GEODIST GEORADIUS GEOSEARCH HDEL
		HEXPIRE HGETALL HINCRBY HINCRBYFLOAT HRANDFIELD HSCAN HSET HSETEX HTTL PFADD PFCOUNT
		PFMERGE LINDEX LINSERT LMOVE LMPOP LPOP LPOS LPUSH LRANGE LREM LSET LTRIM RPOPLPUSH
		OBJECT PUBLISH PUBSUB SUBSCRIBE UNSUBSCRIBE EVAL EVALSHA SCRIPT DBSIZE FLUSHALL
		MEMORY TIME SADD SCARD SDIFFSTORE SINTERCARD SINTERSTORE SMISMEMBER SMOVE SPOP
		SRANDMEMBER SREM SSCAN SUNIONSTORE ZADD ZCOUNT ZINCRBY ZINTER ZINTERSTORE ZLEXCOUNT
		ZMPOP ZPOPMIN ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREMRANGEBYRANK
		ZSCAN ZUNION ZUNIONSTORE XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XINFO XPENDING
		XRANGE XTRIM APPEND BITCOUNT BITOP BITPOS DECRBY DELEX GETBIT GETDEL GETEX GETRANGE
		INCRBYFLOAT MSET MSETNX PSETEX SET SETBIT SETEX SETRANGE DISCARD EXEC MULTI WATCH`)
	odd := strings.Fields(`0 1 -1 2 5 9223372036854775807 -9223372036854775808 1e400 nan inf -inf s h l k z st
		hl * $ > 0-0 ( [ [a + - COUNT LIMIT WITHSCORES MATCH AND NOT GROUP STREAMS CREATE
		LOAD USAGE ENCODING [[ \ DB EX PX 4294967296 LEFT MIN BYLEX REV AGGREGATE WEIGHTS km
		FROMLONLAT BYRADIUS FIELDS NX XX GET REPLACE MAXLEN ~ MINID return`)
	odd = append(odd, "", "\x00\xff", "a b", "return redis.call(unpack(ARGV))")
	seed := [][]string{{"FLUSHALL"}, {"SET", "s", "5"}, {"HSET", "h", "a", "1"}, {"RPUSH", "l", "a", "b"},
		{"SADD", "k", "a", "1"},
		{"ZADD", "z", "1", "a", "2", "b"}, {"XADD", "st", "*", "a", "1"}, {"PFADD", "hl", "a"}}
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for n, end := 0, time.Now().Add(time.Second); time.Now().Before(end); n++ {
		if n%200 == 0 {
			for _, command := range seed {
				c := m.dialTest(t)
				c.send(command...)
				c.Reader.ReadString('\n')
				c.Close()
			}
		}
		args := []string{names[random.IntN(len(names))]}
		for range random.IntN(7) {
			args = append(args, odd[random.IntN(len(odd))])
		}
		c := m.dialTest(t)
		c.send(args...)
		if _, err := c.Reader.ReadString('\n'); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("no answer to %q", args)
		}
		c.Close()
	}
	t.Logf("%d panics contained", logs.Len())
	m.dialTest(t).call("+PONG\n", "PING")
}
