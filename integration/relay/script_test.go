package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"lockproxy/integration/lab"
)

// script writes random sequences of commands whose replies are the same on every server: none
// that depends on time, connection ids or chance, and only one channel, because servers list
// several in random order.
type script struct{ *rand.Rand }

// bytes returns n commands. One script in ten has some of its bytes changed, one in ten ends with
// QUIT, and only the others may turn replies off: with replies off, Redis closes at an error or
// QUIT only if older replies still wait.
func (s script) bytes(n int) string {
	var b strings.Builder
	kind := s.IntN(10)
	for range n {
		args := s.command()
		for kind < 2 && slices.Contains(args, "REPLY") {
			args = s.command()
		}
		if s.IntN(8) == 0 {
			b.WriteString(s.inline(args))
		} else {
			b.WriteString(lab.Encode(args...))
		}
		if s.IntN(30) == 0 {
			b.WriteString(s.pick("\r\n", "*0\r\n", "*-1\r\n", "  \r\n", "\n"))
		}
	}
	if kind == 1 {
		return b.String() + s.pick("QUIT\r\n", "*1\r\n$4\r\nquit\r\n")
	}
	text := []byte(b.String())
	if kind == 0 {
		for range 1 + s.IntN(3) {
			s.mutate(&text)
		}
	}
	return string(text)
}

func (s script) mutate(text *[]byte) {
	t := *text
	at := s.IntN(len(t))
	switch s.IntN(3) {
	case 0:
		t[at] = byte(s.IntN(256))
	case 1:
		t = append(t[:at], t[at+1:]...)
	case 2:
		t = append(t[:at], append([]byte(s.pick("\r\n", "$", "*", "0", "9", "-", " ", "\"", "'", "\\x41")), t[at:]...)...)
	}
	*text = t
}

// inline writes a command as a person at a terminal would, if its arguments allow that.
func (s script) inline(args []string) string {
	var words []string
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \r\n\t\"'\\\x00") || len(a) > 100 {
			a = fmt.Sprintf("%q", strings.Map(func(r rune) rune {
				if r < 32 || r > 126 {
					return '.'
				}
				return r
			}, a[:min(len(a), 100)]))
		}
		words = append(words, a)
	}
	return strings.Join(words, s.pick(" ", "  ", "\t")) + s.pick("\r\n", "\n")
}

func (s script) pick(choices ...string) string { return choices[s.IntN(len(choices))] }

func (s script) key() string { return fmt.Sprintf("key%d", s.IntN(6)) }

func (s script) value() string {
	switch s.IntN(8) {
	case 0:
		return ""
	case 1:
		return strings.Repeat(s.pick("x", "\r\n", "*1\r\n", "$-1\r\n", "\x00"), s.IntN(3000))
	case 2:
		return lab.Encode("PING") // answered if requests are cut at the wrong place
	default:
		return fmt.Sprint(s.IntN(100))
	}
}

func (s script) number() string { return fmt.Sprint(s.IntN(12) - 3) }

// command returns a random command, most of them right, some with the wrong type, number or form
// of arguments.
func (s script) command() []string {
	k, v, n, m := s.key(), s.value(), s.number(), s.number()
	table := [][]string{
		{"SET", k, v}, {"SET", k, v}, {"SET", k, v, s.pick("NX", "XX", "GET", "KEEPTTL", "BAD")}, {"GET", k}, {"GET", k},
		{"GETDEL", k}, {"DEL", k, s.key()},
		{"EXISTS", k, s.key()}, {"INCR", k}, {"INCRBY", k, n}, {"DECR", k}, {"APPEND", k, v}, {"STRLEN", k},
		{"GETRANGE", k, n, m},
		{"SETRANGE", k, n, v}, {"MSET", k, v, s.key(), s.value()}, {"MGET", k, s.key(), "none"}, {"TYPE", k},
		{"RENAME", k, s.key()},
		{"LPUSH", k, v, s.value()}, {"RPUSH", k, v}, {"LPOP", k}, {"RPOP", k, n}, {"LRANGE", k, n, m}, {"LLEN", k},
		{"LINSERT", k, "BEFORE", v, s.value()},
		{"HSET", k, s.key(), v}, {"HGET", k, s.key()}, {"HDEL", k, s.key()}, {"HLEN", k}, {"HINCRBYFLOAT", k, "f", "1.5"},
		{"HMGET", k, "f", s.key()},
		{"SADD", k, n, m}, {"SCARD", k}, {"SISMEMBER", k, n}, {"SMISMEMBER", k, n, m}, {"ZADD", k, n, v}, {"ZSCORE", k, v},
		{"ZRANGE", k, "0", "-1", "WITHSCORES"},
		{"ZINCRBY", k, n, v}, {"SETBIT", k, n, s.pick("0", "1")}, {"BITCOUNT", k}, {"PFADD", k, v}, {"PFCOUNT", k},
		{"BLPOP", k, "0.001x"},
		{"PING"}, {"PING", v}, {"ECHO", v}, {"SELECT", s.pick("0", "1", "2", "x", "99")}, {"DBSIZE"}, {"FLUSHDB"},
		{"MULTI"}, {"MULTI"}, {"EXEC"}, {"EXEC"}, {"EXEC"}, {"DISCARD"}, {"WATCH", k}, {"UNWATCH"},
		{"EVAL", s.pick("return {1,'a',{redis.call('GET',KEYS[1])}}", "return redis.error_reply('MY err')",
			"return {ok='fine'}", "return nil", "bad("), "1", k},
		{"EVAL", "redis.setresp(3); return {double=1.5}", "0"}, {"EVAL", "return {map={a=1}, set={b=true}}", "0"},
		{"SCRIPT", "EXISTS", "abc"},
		{"SUBSCRIBE", "a"}, {"SUBSCRIBE", "a", "a"}, {"UNSUBSCRIBE"}, {"UNSUBSCRIBE", "a", "b"}, {"PSUBSCRIBE", "a*"},
		{"PUNSUBSCRIBE"},
		{"SSUBSCRIBE", "s"}, {"SUNSUBSCRIBE"}, {"UNSUBSCRIBE"}, {"PUNSUBSCRIBE"}, {"PUBLISH", s.pick("a", "b", "none"), v},
		{"PUBSUB", "NUMSUB", "a"},
		{"CLIENT", "SETNAME", s.pick("me", "you", "a b", "")}, {"CLIENT", "GETNAME"}, {"CLIENT", "NO-EVICT", "on"},
		{"CLIENT", "REPLY", "ON"},
		{"CLIENT", "REPLY", s.pick("SKIP", "SKIP", "BAD")}, {"CLIENT"}, {"CLIENT", "TRACKING", s.pick("ON", "OFF")},
		{"HELLO", s.pick("4", "x", "1")}, {"HELLO", "3", "BAD"}, {"AUTH", "nobody", "x"}, {"AUTH", v}, {"AUTH"},
		{"OBJECT", "ENCODING", k},
		{"NO-SUCH-COMMAND", v}, {v}, {"", k}, {"GET"}, {"SET", k}, {"lOck2", k, v}, {"SORT", k, "ALPHA"},
		{"COPY", k, s.key()}, {"LCS", k, s.key()},
		{"DEBUG", "PROTOCOL", s.pick("string", "integer", "double", "null", "array", "set", "map", "attrib", "bignum",
			"true", "verbatim")},
		{"XADD", k, fmt.Sprintf("%d-%d", s.IntN(50), s.IntN(9)), "f", v}, {"XRANGE", k, "-", "+"}, {"XLEN", k},
		{"GEOADD", k, "13.3", "38.1", "P"}, {"GEOPOS", k, "P"},
	}
	switch s.IntN(300) { // these change all that follows, so they are rare
	case 0, 1, 2, 3:
		return []string{"RESET"}
	case 4:
		return []string{"CLIENT", "REPLY", "OFF"}
	}
	return table[s.IntN(len(table))]
}
