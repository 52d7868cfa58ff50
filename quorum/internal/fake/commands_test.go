package fake

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lockproxy/quorum/internal/wire"
)

// commandCases are commands that run one after the other on an empty keyspace, each by
// redis.pcall in a script. "script: ..." is a script of its own.
var commandCases = map[string]string{
	"strings": `
SET k v
GET k
SET k w NX
SET k w XX
GET k
SET new w XX
SET k v NX XX
SET k v px 100000 keepttl
SET k v PX 100000
PTTL k
SET k w KEEPTTL
PTTL k
SET k w
PTTL k
SET new w NX PX 100000
PTTL new
SET k v PX 0
SET k v PX -5
SET k v PX 9223372036854775807
SET k v PX x
SET k v PX
SET k v FOO
GET none
SET k v KEEPTTL PX 5
SET k
GET k k
get k`,
	"parts": `
GETRANGE k 0 10
SET k abc
GETRANGE k 0 0
GETRANGE k 0 -1
GETRANGE k 1 1
GETRANGE k 1 100
GETRANGE k -2 -1
GETRANGE k -9 1
GETRANGE k 0 -9
GETRANGE k -1 -9
GETRANGE k -9 -10
GETRANGE k 2 1
GETRANGE k 3 9
GETRANGE k x 1
GETRANGE k 1 1.5
SETRANGE k 1 xyz
GET k
SETRANGE k 6 z
GET k
SETRANGE k 2 ""
SETRANGE none 3 ""
TYPE none
SETRANGE none 3 a
GET none
SETRANGE k -1 a
SETRANGE k x a
SET k abc PX 100000
SETRANGE k 0 x
PTTL k`,
	"expiry": `
PTTL k
PEXPIRE k 1000
SET k v
PTTL k
PEXPIRE k 100000
PTTL k
PEXPIRE k x
PEXPIRE k 9223372036854775807
PEXPIREAT k 9223372036854775807
PEXPIRE k 0
TYPE k
SET k v
PEXPIRE k -5
GET k
SET k v
PEXPIREAT k 5
GET k
SET k v
PEXPIREAT k 0
GET k
PEXPIREAT k 1.5
ZADD z 1 a
PEXPIRE z 100000
ZADD z 2 b
PTTL z
ZREM z a b
PTTL z
ZADD z 1 a
PTTL z
HSET h f v
PEXPIRE h 100000
HSET h f w
PTTL h
HDEL h f
HSET h f w
PTTL h
DEL h z none h
DEL h
TYPE h`,
	"hashes": `
HGET h f
HMGET h f g
HLEN h
HGETALL h
HDEL h f
HSET h f v
HSET h f w g x
HSET h f
HSET h f v g
HGET h f
HGET h none
HMGET h f none g
HLEN h
HGETALL h
HDEL h none
HDEL h f f none
HGETALL h
HDEL h g
TYPE h
HSET h "" ""
HGET h ""
HLEN h`,
	"sorted sets": `
ZSCORE z a
ZCOUNT z -inf +inf
ZREVRANGE z 0 -1
ZRANGEBYSCORE z -inf +inf
ZREM z a
ZADD z 1 a
ZADD z 1 a 2 b 3 c
ZADD z 1 a 2
ZADD z x a
ZADD z nan a
ZADD z 1 d y e
ZADD z 5 a
ZSCORE z a
ZSCORE z none
ZADD z XX 7 a 8 none
ZADD z NX 9 a 4 d
ZADD z CH 9 a 4 d 1 b
ZADD z XX CH 10 a
ZADD z GT 1 a
ZADD z GT CH 11 a
ZADD z LT CH 12 a
ZADD z LT CH 3 a
ZADD z XX NX 1 a
ZADD z GT LT 1 a
ZADD z GT NX 1 a
ZADD none XX 1 a
TYPE none
ZRANGEBYSCORE z -inf +inf WITHSCORES
ZADD z 1.5 half 0.1 tenth -1.5 minus 1e300 huge 1e17 seventeen 123456789012345678 many 1e-7 tiny
ZADD z 100000000000000000 a1 99999999999999999 a2 1700000000123 ms inf top -inf bottom
ZRANGEBYSCORE z -inf +inf WITHSCORES
ZREVRANGE z 0 0
ZREVRANGE z 0 1 WITHSCORES
ZREVRANGE z 0 -1
ZREVRANGE z -2 -1
ZREVRANGE z -100 1
ZREVRANGE z 3 2
ZREVRANGE z 100 200
ZREVRANGE z 0 -100
ZREVRANGE z 0 1 SCORES
ZREVRANGE z x 1
ZCOUNT z 1 3
ZCOUNT z (1 3
ZCOUNT z (1 (3
ZCOUNT z 3 1
ZCOUNT z (3 3
ZCOUNT z x 1
ZCOUNT z 1 nan
ZRANGEBYSCORE z 1 3
ZRANGEBYSCORE z (1 3 WITHSCORES
ZRANGEBYSCORE z -inf +inf LIMIT 1 2
ZRANGEBYSCORE z -inf +inf WITHSCORES LIMIT 0 1
ZRANGEBYSCORE z -inf +inf LIMIT 0 1 WITHSCORES
ZRANGEBYSCORE z -inf +inf LIMIT 1 -1
ZRANGEBYSCORE z -inf +inf LIMIT 100 5
ZRANGEBYSCORE z -inf +inf LIMIT -1 5
ZRANGEBYSCORE z -inf +inf LIMIT 0 0
ZRANGEBYSCORE z -inf +inf LIMIT 0
ZRANGEBYSCORE z -inf +inf LIMIT x 1
ZRANGEBYSCORE z -inf +inf FOO
ZRANGEBYSCORE z (x 1
ZADD same 5 b 5 a 5 c 5 B
ZREVRANGE same 0 -1 WITHSCORES
ZRANGEBYSCORE same 5 5
ZADD same 5 a
ZADD same 4 c
ZRANGEBYSCORE same 4 5
ZREM same a none b
ZREM same B c
TYPE same`,
	"wrong types": `
SET s v
HSET h f v
ZADD z 1 a
GET h
GETRANGE z 0 1
GETRANGE h 0 x
SETRANGE h 0 a
HGET s f
HMGET s f
HSET z f v
HDEL s f
HLEN z
HGETALL s
ZADD s 1 a
ZADD s x a
ZADD h XX 1 a
ZREM h a
ZSCORE s a
ZCOUNT s 1 2
ZREVRANGE h 0 1
ZRANGEBYSCORE s 1 2
TYPE s
TYPE h
TYPE z
SET h v NX
SET h v
TYPE h
SET z v XX KEEPTTL
GET z`,
	"channels and others": `
PUBLISH c m
PUBSUB NUMSUB a b
PUBSUB NUMSUB
pubsub numsub a
FOO
GET
script: return redis.pcall()
script: return redis.pcall('GET', {})
script: return redis.pcall('GET', true)
script: return redis.pcall('SET', 'n', 12)
script: return redis.pcall('SET', 'n', 1700000000123)
script: return redis.pcall('SET', 'n', 2^53) and redis.call('GET', 'n')
script: return redis.pcall('SET', 'n', 0.1) and redis.call('GET', 'n')
script: return redis.pcall('SET', 'n', 1e20) and redis.call('GET', 'n')
script: return redis.pcall('SET', 'n', -3) and redis.call('GET', 'n')`,
	"what scripts return": `
script: return 'text'
script: return 1.9
script: return -1.9
script: return 2^53 + 1
script: return true
script: return false
script: return nil
script: return {1, 'a', true, false, {2, 3}, nil, 4}
script: return {}
script: return {ok = 'FINE'}
script: return {err = 'MINE is wrong'}
script: return {1, {err = 'MINE is wrong'}, {ok = 'FINE'}}
script: return {err = "two\nlines"}
script: return redis.sha1hex('secret')
script: return redis.call('HSET', 'h')
script: redis.call('SET', 'k', 'v') return redis.call('HGET', 'k', 'f')
script:  local x = 1
 return redis.call('HGET', 'k', 'f')
script: return redis.pcall('HGET', 'k', 'f').err
script: return redis.pcall('SET', 'k', 'v').ok
script: return {redis.call('HGET', 'none', 'f'), redis.call('TYPE', 'none')}
script: return tostring(1e15) .. tostring(12) .. tostring(0.1) .. tostring(1700000000123) .. tostring(nil)
script: return string.format('%.0f %016.0f %d', 1700000000123, 42, 9007199254740991)
script: return {string.find('12', '^%d+$'), string.find('1a', '^%d+$'), string.find('', '^%d+$')}
script: return {string.find('a b', ' ', 1, true)}
script: return {tonumber('12'), tonumber(''), 3}
script: return {tonumber('1x') or 'no', tonumber(' 7 ') or 'no', tonumber('0x10') or 'no', tonumber('1e3')}
script: return {tonumber('inf') > 5, tonumber('-1.5e1'), tonumber('1e999') > 5, tonumber('1_0') or 'no'}
script: return {tonumber('ff', 16), tonumber(false) or 'no', tonumber(7)}
script: return #{unpack({1, 2, 3}, 2, 3)} .. select('#', unpack({}, 1, 3))`,
}

// TestCommandsAsRedis: each command gives the same answer as Redis, to the letter.
func TestCommandsAsRedis(t *testing.T) {
	r := startRedis(t)
	for name, lines := range commandCases {
		t.Run(name, func(t *testing.T) {
			m := New("run")
			c := m.Connect(func() {})
			r.ask(t, wire.AppendCommand(nil, "FLUSHALL"))
			for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(lines), "\n ", "\x00"), "\n") {
				request := requestOf(line)
				real, fake := r.ask(t, request), m.ask(t, c, request)
				if a, b := exact(&real), exact(&fake); a != b {
					t.Errorf("%s\nRedis answers %s\nthe fake      %s", line, a, b)
				}
			}
		})
	}
}

// requestOf is a line of commandCases as a request.
func requestOf(line string) []byte {
	if body, ok := strings.CutPrefix(line, "script: "); ok {
		return wire.AppendCommand(nil, "EVAL", strings.ReplaceAll(body, "\x00", "\n "), "0")
	}
	words := strings.Fields(line)
	for i, word := range words {
		words[i] = strings.Trim(word, `"`)
	}
	return wire.AppendCommand(nil, append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, words...)...)
}

// exact renders a reply to the letter. An integer a little under 100,000 is a remaining ttl.
func exact(r *wire.Reply) string {
	switch {
	case r.Null:
		return "null"
	case r.Kind == ':' && r.Int > 99000 && r.Int <= 100000:
		return ":100000"
	case r.Kind == ':':
		return fmt.Sprint(":", r.Int)
	case r.Kind == '*':
		var all []string
		for i := range r.Elems {
			all = append(all, exact(&r.Elems[i]))
		}
		return "[" + strings.Join(all, " ") + "]"
	}
	return fmt.Sprintf("%c%q", r.Kind, r.Text)
}

// TestSortedSetAsRedis: a sorted set with more members than Redis keeps in its compact encoding.
func TestSortedSetAsRedis(t *testing.T) {
	r := startRedis(t)
	random := rand.New(rand.NewPCG(1, 2))
	m := New("run")
	c := m.Connect(func() {})
	for range 3000 {
		score := func() string { return fmt.Sprint(random.IntN(400) - 100) }
		end := func() string { return []string{"", "("}[random.IntN(2)] + score() }
		name := func() string { return fmt.Sprintf("m%d", random.IntN(250)) }
		place := func() string { return fmt.Sprint(random.IntN(40) - 20) }
		var line string
		switch random.IntN(8) {
		case 0, 1, 2:
			line = "ZADD z " + score() + " " + name() + " " + score() + " " + name()
		case 3:
			line = "ZREM z " + name() + " " + name()
		case 4:
			line = "ZCOUNT z " + end() + " " + end()
		case 5:
			line = "ZREVRANGE z " + place() + " " + place()
		case 6:
			line = "ZRANGEBYSCORE z " + end() + " " + end() + " LIMIT " + fmt.Sprint(random.IntN(5)) + " " + place()
		case 7:
			line = "ZSCORE z " + name()
		}
		request := requestOf(line)
		real, fake := r.ask(t, request), m.ask(t, c, request)
		if a, b := exact(&real), exact(&fake); a != b {
			t.Fatalf("%s\nRedis answers %s\nthe fake      %s", line, a, b)
		}
	}
}

// TestRefusalsAsRedis: missing rights and full memory, inside a script and outside.
func TestRefusalsAsRedis(t *testing.T) {
	r := startRedis(t)
	m := New("run")
	c := m.Connect(func() {})
	both := func(words ...string) {
		t.Helper()
		request := wire.AppendCommand(nil, words...)
		real, fake := r.ask(t, request), m.ask(t, c, request)
		if a, b := exact(&real), exact(&fake); a != b {
			t.Errorf("%q\nRedis answers %s\nthe fake      %s", words, a, b)
		}
	}
	script := func(body string) { t.Helper(); both("EVAL", body, "0") }
	d := &differ{t: t, redis: r, fake: m}
	d.rights("hset", "pubsub|numsub")
	both("HSET", "h", "f", "v")
	both("PUBSUB", "NUMSUB", "a")
	both("SET", "k", "v")
	script("return redis.pcall('HSET', 'h', 'f', 'v')")
	script("return redis.call('HSET', 'h', 'f', 'v')")
	script("return redis.pcall('PUBSUB', 'NUMSUB', 'a')")
	script("return {redis.pcall('SET', 'k', 'w'), redis.pcall('HSET', 'h', 'f', 'v'), redis.pcall('GET', 'k')}")
	d.rights("eval")
	both("EVAL", "return 1", "0")
	d.rights()
	both("HSET", "h", "f", "v")
	d.limit(true)
	both("HSET", "h", "f", "w")
	both("GET", "k")
	both("PEXPIRE", "k", "100000")
	for _, command := range []string{
		"'SET', 'k', 'x'", "'SETRANGE', 'k', 0, 'x'", "'ZADD', 'z', 1, 'a'", "'HSET', 'h', 'f', 'x'",
		"'DEL', 'none'", "'ZREM', 'z', 'a'", "'HDEL', 'h', 'none'", "'PEXPIRE', 'k', 100000",
		"'PEXPIREAT', 'none', 5", "'GET', 'k'", "'PUBLISH', 'c', 'm'",
	} {
		script("return redis.pcall(" + command + ")")
		script("return redis.call(" + command + ")")
		script("return {redis.pcall(" + command + "), redis.pcall('SET', 'k', 'w')}")
		both("DEL", "z", "k")
	}
}
