package adopt

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// testTable returns a table with limits like those of commands.
func testTable(t testing.TB, keys string, adoptTTL time.Duration) *Table {
	return NewTable(Options{
		Keys: patterns(t, keys), TTL: adoptTTL, MaxTTL: time.Minute,
		ParseTTL: func(name string, ms []byte) (time.Duration, error) {
			d, err := time.ParseDuration(string(ms) + "ms")
			switch {
			case err != nil || d <= 0:
				return 0, fmt.Errorf("ERR invalid expire time in '%s' command", name)
			case d < 10*time.Millisecond:
				return 0, fmt.Errorf("ERR ttl %s is under min-ttl 10", ms)
			case d > time.Minute:
				return 0, fmt.Errorf("ERR ttl %s exceeds max-ttl 60000", ms)
			}
			return d, nil
		},
		ParseKey: func(key []byte) (string, error) {
			if len(key) == 0 {
				return "", errors.New("ERR invalid key: it is empty")
			}
			return string(key), nil
		},
	})
}

// args returns the arguments of a request, which vertical bars separate.
func args(line string) (argv [][]byte) {
	for arg := range strings.SplitSeq(line, "|") {
		argv = append(argv, []byte(arg))
	}
	return argv
}

func TestParseCommands(t *testing.T) {
	const s = time.Second
	for line, want := range map[string]LockCommand{
		"SET|k|v|NX|PX|30000":          {Name: "set", Do: Take, Value: "v", TTL: 30 * s, reply: okOrNull},
		"set|k|v|ex|30|nx":             {Name: "set", Do: Take, Value: "v", TTL: 30 * s, reply: okOrNull},
		"SET|k|v|Px|30000|nX":          {Name: "set", Do: Take, Value: "v", TTL: 30 * s, reply: okOrNull},
		"SET|k|v|NX":                   {Name: "set", Do: Take, Value: "v", TTL: 20 * s, reply: okOrNull},
		"SETNX|k|v":                    {Name: "setnx", Do: Take, Value: "v", TTL: 20 * s, reply: oneOrZero},
		"SET|k|v|XX|PX|5":              {Name: "set", Do: Refresh, Value: "v", TTL: s / 200, reply: okOrNull},
		"SET|k|v|IFEQ|v|EX|5":          {Name: "set", Do: Refresh, Value: "v", TTL: 5 * s, reply: okOrNull},
		"SET|k|v|EX|5|ifeq|v":          {Name: "set", Do: Refresh, Value: "v", TTL: 5 * s, reply: okOrNull},
		"SET|k|px|NX|PX|30000":         {Name: "set", Do: Take, Value: "px", TTL: 30 * s, reply: okOrNull},
		"SET|k|nx|IFEQ|nx|PX|30000":    {Name: "set", Do: Refresh, Value: "nx", TTL: 30 * s, reply: okOrNull},
		"SET|k|\x00\xff\r\n|NX|PX|100": {Name: "set", Do: Take, Value: "\x00\xff\r\n", TTL: s / 10, reply: okOrNull},
		"GET|k":                        {Name: "get", Do: Read, What: ReadValue},
		"EXISTS|k":                     {Name: "exists", Do: Read, What: ReadExists},
		"PTTL|k":                       {Name: "pttl", Do: Read, What: ReadPTTL},
		"TTL|k":                        {Name: "ttl", Do: Read, What: ReadTTL},
		"DEL|k":                        {Name: "del", Do: Release, Any: true, reply: oneOrZero},
		"UNLINK|k":                     {Name: "unlink", Do: Release, Any: true, reply: oneOrZero},
		"DELEX|k|IFEQ|v":               {Name: "delex", Do: Release, Value: "v", reply: oneOrZero},
		"PEXPIRE|k|5":                  {Name: "pexpire", Do: Refresh, Any: true, TTL: s / 200, reply: oneOrZero},
		"EXPIRE|k|5":                   {Name: "expire", Do: Refresh, Any: true, TTL: 5 * s, reply: oneOrZero},
		"EXPIRE|k|0":                   {Name: "expire", Do: Release, Any: true, reply: oneOrZero},
		"PEXPIRE|k|-1":                 {Name: "pexpire", Do: Release, Any: true, reply: oneOrZero},
	} {
		t.Run(line, func(t *testing.T) {
			argv := args(line)
			got, err := testTable(t, "k", 20*s).Parse(argv)
			want.Key = "k"
			if err != nil || got != want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
			for _, arg := range argv { // the buffer is used again
				clear(arg)
			}
			if got != want {
				t.Error("the command shares memory with the request")
			}
		})
	}
}

// refused is a request and its refusal.
type refused struct {
	line   string
	reason Reason
	text   string // without ERR
}

// refusals returns requests on the lock key k that are refused without adopt-ttl.
func refusals(t *testing.T) []refused {
	release := bodyOf(t, "@verrou/core 0.5.2: delete")
	acquire := bodyOf(t, "redlock 5.0.0-beta.2: ACQUIRE_SCRIPT")
	refresh := bodyOf(t, "Laravel 13.26.1: refreshLock")
	unknown := "return redis.call('INCR', KEYS[1])"
	return append(refusedCommands, []refused{
		{"EVAL|" + refresh + "|1|k|v|0", ReasonNoExpiry, "lock key 'k': no expiry, add PX or EX, or set adopt-ttl"},
		{"EVAL|" + acquire + "|2|k|a|v|100", ReasonKeys, "lock key 'k': one key a command"},
		{"EVALSHA|" + sha1Of(acquire) + "|2|a|k|v|100", ReasonKeys, "lock key 'k': one key a command"},
		{"EVAL|" + unknown + "|1|k", ReasonScript,
			"lock key 'k': unknown script " + sha1Of(unknown) + ", see docs/adopting.md"},
		{"EVAL|" + release + "|1|k", ReasonCommand, "wrong number of arguments for 'eval' command"},
		{"EVAL|" + release + "|1|k|", ReasonValue, "lock key 'k': a value of 0 bytes, want 1 to 512"},
		{"EVAL|" + acquire + "|1|k|v|3600000", ReasonTTL, "ttl 3600000 exceeds max-ttl 60000"},
	}...)
}

var refusedCommands = []refused{
	{"SET|k|v|NX", ReasonNoExpiry, "lock key 'k': no expiry, add PX or EX, or set adopt-ttl"},
	{"SET|k|v|XX", ReasonNoExpiry, "lock key 'k': no expiry, add PX or EX, or set adopt-ttl"},
	{"SETNX|k|v", ReasonNoExpiry, "lock key 'k': no expiry, add PX or EX, or set adopt-ttl"},
	{"PERSIST|k", ReasonNoExpiry, "lock key 'k': no expiry, add PX or EX, or set adopt-ttl"},
	{"SET|k|v", ReasonCommand, "lock key 'k': SET without NX or XX"},
	{"SET|k|v|PX|100", ReasonCommand, "lock key 'k': SET without NX or XX"},
	{"SET|k|v|NX|GET|PX|100", ReasonCommand, "lock key 'k': SET without NX or XX"},
	{"SET|k|v|XX|KEEPTTL", ReasonCommand, "lock key 'k': SET without NX or XX"},
	{"SET|k|v|IFEQ|w|PX|100", ReasonCommand, "lock key 'k': SET without NX or XX"},
	{"SET|k|v|IFNE|w|PX|100", ReasonCommand, "lock key 'k': SET without NX or XX"},
	{"SET|k|v|NX|EXAT|2000000000", ReasonCommand, "lock key 'k': absolute times differ between machines"},
	{"SET|k|v|NX|PXAT|2000000000", ReasonCommand, "lock key 'k': absolute times differ between machines"},
	{"SET|k|v|NX|XX|PX|100", ReasonCommand, "syntax error"},
	{"SET|k|v|NX|PX|100|EX|1", ReasonCommand, "syntax error"},
	{"SET|k|v|NX|PX", ReasonCommand, "syntax error"},
	{"SET|k|v|NY", ReasonCommand, "syntax error"},
	{"HSET|k|f|v", ReasonCommand, "lock key 'k': 'hset' is not a lock command"},
	{"ZADD|k|1|v", ReasonCommand, "lock key 'k': 'zadd' is not a lock command"},
	{"WATCH|a|k", ReasonCommand, "lock key 'k': 'watch' is not a lock command"},
	{"BLPOP|k|1", ReasonCommand, "lock key 'k': 'blpop' is not a lock command"},
	{"FCALL|f|1|k", ReasonCommand, "lock key 'k': 'fcall' is not a lock command"},
	{"EVAL_RO|return 1|1|k", ReasonCommand, "lock key 'k': 'eval_ro' is not a lock command"},
	{"Unheard\r\nof|k", ReasonCommand, "lock key 'k': 'unheard  of' is not a lock command"},
	{"DELEX|k", ReasonCommand, "lock key 'k': 'delex without ifeq' is not a lock command"},
	{"EXPIRE|k|5|GT", ReasonCommand, "lock key 'k': 'expire with gt' is not a lock command"},
	{"DEL|a|k", ReasonKeys, "lock key 'k': one key a command"},
	{"EXISTS|k|k", ReasonKeys, "lock key 'k': one key a command"},
	{"EVAL|return 1|x|k", ReasonCommand, "value is not an integer or out of range"},
	{"EVAL|return 1|2|k", ReasonCommand, "Number of keys can't be greater than number of args"},
	{"GET|k|x", ReasonCommand, "wrong number of arguments for 'get' command"},
	{"SET|k", ReasonCommand, "wrong number of arguments for 'set' command"},
	{"SET|k|" + strings.Repeat("v", 513) + "|NX|PX|100", ReasonValue,
		"lock key 'k': a value of 513 bytes, want 1 to 512"},
	{"SET|k||NX|PX|100", ReasonValue, "lock key 'k': a value of 0 bytes, want 1 to 512"},
	{"SET|k|v|NX|PX|3600000", ReasonTTL, "ttl 3600000 exceeds max-ttl 60000"},
	{"SET|k|v|NX|EX|3600", ReasonTTL, "ttl 3600000 exceeds max-ttl 60000"},
	{"SET|k|v|XX|EX|3600", ReasonTTL, "ttl 3600000 exceeds max-ttl 60000"},
	{"SET|k|v|NX|EX|9223372036854775807", ReasonTTL, "invalid expire time in 'set' command"},
	{"SET|k|v|NX|PX|5", ReasonTTL, "ttl 5 is under min-ttl 10"},
	{"SET|k|v|NX|PX|0", ReasonTTL, "invalid expire time in 'set' command"},
	{"SET|k|v|XX|PX|-5", ReasonTTL, "invalid expire time in 'set' command"},
	{"SET|k|v|NX|PX|30s", ReasonTTL, "value is not an integer or out of range"},
	{"SET|k|v|NX|PX|+30", ReasonTTL, "value is not an integer or out of range"},
}

func TestRefusedCommandsSayWhy(t *testing.T) {
	for _, c := range refusals(t) {
		t.Run(c.line[:min(len(c.line), 40)], func(t *testing.T) {
			_, err := testTable(t, "k", 0).Parse(args(c.line))
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Error() != "ERR "+c.text || refusal.Reason != c.reason {
				t.Errorf("got %+v\nwant ERR %s (%s)", err, c.text, c.reason)
			}
		})
	}
}

func TestRefusalsIfAllKeysAreLocks(t *testing.T) {
	umlauts, letters := strings.Repeat("ä", 32), strings.Repeat("k", 64)
	for line, want := range map[string]string{
		"FLUSHDB":                          "ERR 'flushdb' is not a lock command",
		"KEYS|*":                           "ERR 'keys' is not a lock command",
		"CONFIG|SET|a|b":                   "ERR 'config|set' is not a lock command",
		"EVAL|return 1|0":                  "ERR 'eval' is not a lock command",
		"HSET|a|b|c":                       "ERR lock key 'a': 'hset' is not a lock command",
		"GET|":                             "ERR invalid key: it is empty",
		"DEL":                              "ERR wrong number of arguments for 'del' command",
		"":                                 "ERR '' is not a lock command",
		"HSET|" + umlauts + umlauts + "|b": "ERR lock key '" + umlauts + "': 'hset' is not a lock command",
		"HSET|aä\n\x00'|b":                 "ERR lock key 'aä  '': 'hset' is not a lock command",
		"HSET|" + letters + "k|b":          "ERR lock key '" + letters + "': 'hset' is not a lock command",
	} {
		t.Run(line, func(t *testing.T) {
			if _, err := testTable(t, "*", 0).Parse(args(line)); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestRefusalsOfRequestsThatAreNotRead(t *testing.T) {
	table := testTable(t, "lock:*", 0)
	_, err := table.Parse([][]byte{[]byte("eval"), []byte("return"), nil, nil})
	long, _ := errors.AsType[*Refusal](err)
	for got, want := range map[*Refusal]string{
		table.InTransaction(args("SET|lock:1|v|NX")):  "ERR lock key 'lock:1': not allowed in transactions",
		table.InTransaction(args("DEBUG|SLEEP")):      "ERR not allowed in transactions",
		long:                                          "ERR a script of more than 64 KB",
		table.TooLong(args("EVAL|return")):            "ERR a script of more than 64 KB",
		table.TooLong(args("EVAL|return|1|lock:1|v")): "ERR lock key 'lock:1': 'eval' of more than 64 KB",
		table.TooLong(args("SET|lock:1|vvv")):         "ERR lock key 'lock:1': 'set' of more than 64 KB",
		table.TooLong(args("SET|lock:1")):             "ERR 'set' of more than 64 KB", // the key may be cut
		table.TooLong(args("HSET|lock:1|vvv")):        "ERR lock key 'lock:1': 'hset' is not a lock command",
	} {
		t.Run(want, func(t *testing.T) {
			if got.Text != want {
				t.Errorf("got %s", got.Text)
			}
		})
	}
}

// TestOtherScripts: these share commands with locks, but the proxy cannot do what they do.
func TestOtherScripts(t *testing.T) {
	release := bodyOf(t, "bsm/redislock 0.9.4: luaRelease")
	for name, body := range map[string]string{
		"Spring Integration 7.0.6: UNLINK_UNLOCK_SCRIPT of RedisPubSubLock": `
local lockClientId = redis.call('GET', KEYS[1])
if (lockClientId == ARGV[1] and redis.call('UNLINK', KEYS[1]) == 1) then
	redis.call('PUBLISH', ARGV[2], KEYS[1])
	return true
end
return false
`,
		"redlock-rb 0.1.8: EXTEND_LIFE_SCRIPT": `
        if redis.call("get", KEYS[1]) == ARGV[1] then
          redis.call("expire", KEYS[1], ARGV[2])
          return 0
        else
          return 1
        end
`,
		"deletes another key":    strings.Replace(release, `"del", KEYS[1]`, `"del", KEYS[2]`, 1),
		"compares the wrong way": strings.Replace(release, "==", "~=", 1),
		"answers something else": strings.Replace(release, "return 0", "return 1", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := testTable(t, "k", 0).Parse(args("EVAL|" + body + "|1|k|v|5"))
			if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != ReasonScript {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestScriptIsLearned(t *testing.T) {
	table := testTable(t, "k", 0)
	body := bodyOf(t, "redis-py 4.3.4: LUA_RELEASE_SCRIPT")
	for _, how := range []struct {
		name  string
		learn func()
	}{
		{"from SCRIPT LOAD", func() { table.Learn([]byte(body)) }},
		{"from EVAL", func() { _, _ = table.Parse(args("EVAL|" + body + "|1|k|v")) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			table = testTable(t, "k", 0)
			request := "EVALSHA|" + strings.ToUpper(sha1Of(body)) + "|1|k|v"
			_, err := table.Parse(args(request))
			if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != "" ||
				refusal.Text != "NOSCRIPT No matching script. Please use EVAL." {
				t.Fatalf("before: %v", err)
			}
			how.learn()
			got, err := table.Parse(args(request))
			want := LockCommand{Name: "evalsha", Library: "redis-py 4.3.4: LUA_RELEASE_SCRIPT", Do: Release, Key: "k",
				Value: "v",
				reply: oneOrZero}
			if err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestUnknownScriptIsNamed(t *testing.T) {
	table := testTable(t, "k", 0)
	body := `return redis.call('INCRBY', KEYS[1], "secret")`
	table.Learn([]byte(body))
	for _, request := range []string{"EVAL|" + body, "EVALSHA|" + sha1Of(body)} {
		_, err := table.Parse(args(request + "|1|k"))
		refusal, ok := errors.AsType[*Refusal](err)
		if !ok || refusal.SHA1 != sha1Of(body) || refusal.Key != "k" ||
			refusal.Form != `return redis . call ( "incrby" , KEYS [ ? ] , "?" )` {
			t.Errorf("%s: %+v", request, err)
		}
	}
}

// TestTellsFree: only some replies depend on whether the key is free.
func TestTellsFree(t *testing.T) {
	for source, want := range map[string]bool{
		"redsync 4.18.1: deleteScript":                                    true,
		"Dapr components-contrib 1.18.0: unlockScript":                    true,
		"redis-py 4.3.4: LUA_RELEASE_SCRIPT":                              false,
		"redis-semaphore 5.8.0: delIfEqualLua":                            false,
		"bsm/redislock 0.9.4: luaRefresh":                                 false,
		"Spring Integration 7.0.6: RENEW_SCRIPT":                          false,
		"ShedLock 7.9.0: updLuaScript":                                    false,
		"redlock-rb 2.0.6: UNLOCK_SCRIPT":                                 false,
		"DistributedLock.Redis 2.8: ReleaseScript":                        false,
		"@sesamecare-oss/redlock 1.4.0: RELEASE_SCRIPT":                   false,
		"@microfleet/ioredis-lock 6.0.1: pexpireifequal":                  false,
		"go-zero 1.10.3: delscript.lua":                                   false,
		"redlock 5.0.0-beta.2: RELEASE_SCRIPT":                            false,
		"Laravel 8.83.26: releaseLock":                                    false,
		"RedLock.net 2.3.2: Unlock.lua":                                   false,
		"RedBeat 2.4.2: LUA_EXTEND_TO_SCRIPT":                             false,
		"ioredis-lock 4.0.0: pexpireifequal":                              false,
		"redis-py 4.3.4: LUA_EXTEND_SCRIPT":                               false,
		"Spring Integration 7.0.6: UNLINK_UNLOCK_SCRIPT of RedisSpinLock": false,
	} {
		t.Run(source, func(t *testing.T) {
			request := []string{"EVAL", bodyOf(t, source), "1", "k"}
			for _, r := range library {
				if r.source == source {
					request = append(request, arguments(r)[0]...)
				}
			}
			c, err := testTable(t, "k", 0).Parse(args(strings.Join(request, "|")))
			if err != nil || c.TellsFree() != want {
				t.Errorf("got %v, %v", c.TellsFree(), err)
			}
		})
	}
}

func TestReplyOfRead(t *testing.T) {
	adopted := Holding{Held: true, Adopted: true, Value: "v", Fence: 7, Rest: 1499 * time.Millisecond}
	other := Holding{Held: true, Fence: 7, Rest: 1500 * time.Millisecond}
	forever := Holding{Held: true, Rest: -1}
	for _, c := range []struct {
		name  string
		what  What
		held  Holding
		resp3 bool
		want  string
	}{
		{"GET", ReadValue, adopted, false, "$1\r\nv\r\n"},
		{"GET of another lock", ReadValue, other, false, "$26\r\nlockproxy:0000000000000007\r\n"},
		{"GET of a free key", ReadValue, Holding{}, false, "$-1\r\n"},
		{"GET of a free key in RESP3", ReadValue, Holding{}, true, "_\r\n"},
		{"EXISTS of another lock", ReadExists, other, false, ":1\r\n"},
		{"EXISTS of a free key", ReadExists, Holding{}, false, ":0\r\n"},
		{"PTTL", ReadPTTL, adopted, false, ":1499\r\n"},
		{"PTTL without expiry", ReadPTTL, forever, false, ":-1\r\n"},
		{"PTTL of a free key", ReadPTTL, Holding{}, false, ":-2\r\n"},
		{"TTL rounds down", ReadTTL, adopted, false, ":1\r\n"},
		{"TTL rounds up", ReadTTL, other, false, ":2\r\n"},
		{"TTL without expiry", ReadTTL, forever, false, ":-1\r\n"},
		{"rest", ReadRestIfEqual, adopted, false, ":1499\r\n"},
		{"rest of another lock", ReadRestIfEqual, other, false, ":-3\r\n"},
		{"rest of another value", ReadRestIfEqual, Holding{Held: true, Adopted: true, Value: "w"}, false, ":-3\r\n"},
		{"rest of a free key", ReadRestIfEqual, Holding{}, false, ":-3\r\n"},
		{"value and rest", ReadValueAndRest, adopted, false, "*2\r\n$1\r\nv\r\n:1499\r\n"},
		{"value and rest of a free key", ReadValueAndRest, Holding{}, true, "*2\r\n_\r\n:-2\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := LockCommand{Do: Read, What: c.what, Value: "v"}
			if got := string(command.AppendRead(nil, c.held, c.resp3)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	table := testTable(t, "k", 0)
	body := func(i int) []byte { return fmt.Appendf(nil, "return %d", i) }
	for i := range mostScripts {
		table.Learn(body(i))
	}
	table.Learn(body(0)) // used again
	table.Learn(body(mostScripts))
	for i, want := range map[int]bool{0: true, 1: false, 2: true, mostScripts: true} {
		if _, got := table.cache.get(sha1Of(string(body(i)))); got != want {
			t.Errorf("script %d is known: %v", i, got)
		}
	}
}

func TestTableIsSafeForConcurrentUse(t *testing.T) {
	table := testTable(t, "k", 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 500 {
				body := fmt.Sprintf("return %d", (i*250+j)*3%1500)
				table.Learn([]byte(body))
				_, _ = table.Parse(args("EVALSHA|" + sha1Of(body) + "|1|k"))
			}
		})
	}
	wg.Wait()
}

// FuzzParse: any request that names a lock key has a command or a refusal.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"SET|k|v|NX|PX|100", "EVAL|return 1|1|k|v", "EXPIRE|k|1", "DEL|a|k"} {
		f.Add(line)
	}
	for _, r := range library {
		f.Add("EVAL|" + r.body + "|1|k|v|100")
	}
	f.Fuzz(func(t *testing.T, line string) {
		table, argv := testTable(t, "k*", time.Second), args(line)
		c, err := table.Parse(argv)
		switch {
		case err == nil && (c.Do == 0 || !strings.HasPrefix(c.Key, "k") || len(c.Value) > 512 || c.TTL > time.Minute):
			t.Errorf("%q: %+v", argv, c)
		case err == nil && table.opts.Keys.Judge(argv, len(argv), false) != Own:
			t.Errorf("%q is a command, but not the proxy's", argv)
		case err != nil && strings.ContainsAny(err.Error(), "\r\n"):
			t.Errorf("%q: refused with %q", argv, err)
		}
	})
}
