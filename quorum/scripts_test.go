package quorum

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	testState = "lockproxy:state:lock:"
	mine      = "0123456789abcdef0123456789abcdef01234567"
	theirs    = "fedcba9876543210fedcba9876543210fedcba98"
)

// bench is one server with the scripts.
type bench struct {
	t *testing.T
	*redis.Client
}

// eval runs a script under any record and returns its reply as text, without the master's time, which must be right.
func (b bench) eval(op opKind, key string, argv ...any) string {
	b.t.Helper()
	if scripts[op].keys == lockAndState {
		argv = append(argv, "")
	}
	r, err := b.run(op, key, argv...)
	if err != nil {
		return "error"
	}
	switch r := r.(type) {
	case []any:
		if len(r) == 4 {
			b.clock(fmt.Sprint(r[2]), fmt.Sprint(r[3]))
			return fmt.Sprint(r[:2])
		}
	case string:
		if op == opExtend {
			word := strings.SplitN(r, " ", 3)
			b.clock(word[0], word[1])
			return word[2]
		}
	}
	return fmt.Sprint(r)
}

// run is eval with everything as it is.
func (b bench) run(op opKind, key string, argv ...any) (any, error) {
	b.t.Helper()
	keys := map[keys][]string{lockOnly: {key}, lockAndState: {key, testState}, stateOnly: {testState}}[scripts[op].keys]
	if len(argv) != scripts[op].args {
		b.t.Fatalf("%d arguments, the script has %d", len(argv), scripts[op].args)
	}
	return b.Eval(b.t.Context(), scripts[op].body, keys, argv...).Result()
}

// clock checks the time that a script has read.
func (b bench) clock(seconds, micros string) {
	b.t.Helper()
	says, ok := parseClock(seconds, micros)
	if off := time.Since(time.Unix(0, int64(says))); !ok || off.Abs() > time.Minute {
		b.t.Errorf("the time is said to be %s.%s", seconds, micros)
	}
}

func (b bench) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// ttl checks that the key runs out within limit, and does run out: B16.
func (b bench) ttl(key string, limit time.Duration) {
	b.t.Helper()
	if left := b.PTTL(b.t.Context(), key).Val(); left <= limit/2 || left > limit {
		b.t.Errorf("%s lives for %v, want just under %v", key, left, limit)
	}
}

// Every script on miniredis and on a real Redis, which does not forgive what miniredis forgives.
func TestScripts(t *testing.T) {
	servers := map[string]func(t *testing.T) string{
		"miniredis": func(t *testing.T) string { return startMini(t).Addr() },
		"redis":     func(t *testing.T) string { return startRedis(t).addr },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := redis.NewClient(&redis.Options{Addr: start(t), Protocol: 2, DisableIdentity: true, MaxRetries: -1})
			defer func() { _ = c.Close() }()
			for what, f := range map[string]func(b bench){
				"acquire": testAcquireLua, "raise": testRaiseLua, "release": testReleaseLua, "topup": testTopUpLua, "check": testCheckLua,
				"extend": testExtendLua, "info": testInfoLua, "free": testFreeLua, "record": testRecordLua, "admit": testAdmitLua,
			} {
				t.Run(what, func(t *testing.T) {
					c.FlushAll(t.Context())
					f(bench{t, c})
				})
			}
		})
	}
}

func testAcquireLua(b bench) {
	ctx := b.t.Context()
	b.want("free", b.eval(opAcquire, "lock:a", mine, 5000, 7, ""), "[1 1]")
	b.want("value", b.Get(ctx, "lock:a").Val(), mine+"0000000000000001")
	b.ttl("lock:a", 5*time.Second)
	b.want("counter", b.HGet(ctx, testState, "7").Val(), "1")
	if r := b.eval(opAcquire, "lock:a", theirs, 5000, 7, ""); !strings.HasPrefix(r, "[0 4") && r != "[0 5000]" {
		b.t.Errorf("held: %s, want [0 4...]", r)
	}
	b.want("counter after a refusal", b.HGet(ctx, testState, "7").Val(), "1")
	b.want("owner", b.eval(opAcquire, "lock:o", mine, 5000, 7, "me"), "[1 2]")
	b.want("value with owner", b.Get(ctx, "lock:o").Val(), mine+"0000000000000002me")
	b.want("no fencing", b.eval(opAcquire, "lock:n", mine, 5000, "", ""), "[1 0]")
	b.want("value without fencing", b.Get(ctx, "lock:n").Val(), mine+"0000000000000000")

	// Anything that stands there is a refusal and stays.
	b.RPush(ctx, "lock:list", "x")
	b.want("a list", b.eval(opAcquire, "lock:list", mine, 5000, 7, ""), "[0 -1]")
	b.Set(ctx, "lock:for ever", "x", 0)
	b.want("no expiry", b.eval(opAcquire, "lock:for ever", mine, 5000, 7, ""), "[0 -1]")
	b.want("untouched", b.Get(ctx, "lock:for ever").Val(), "x")

	// Large numbers keep every digit.
	b.HSet(ctx, testState, "8", "9007199254740000")
	b.want("large", b.eval(opAcquire, "lock:large", mine, 5000, 8, ""), "[1 9007199254740001]")
	b.want("large value", b.Get(ctx, "lock:large").Val(), mine+"9007199254740001")

	// A counter that cannot be raised: no key either.
	b.HSet(ctx, testState, "9", "junk")
	b.want("broken counter", b.eval(opAcquire, "lock:b", mine, 5000, 9, ""), "error")
	b.want("broken counter", fmt.Sprint(b.Exists(ctx, "lock:b").Val()), "0")
}

func testRaiseLua(b bench) {
	ctx := b.t.Context()
	b.HSet(ctx, testState, "7", "8")
	b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
	b.want("not ours", b.eval(opRaise, "lock:a", theirs, 100, 7), "0")
	b.want("missing", b.eval(opRaise, "lock:none", mine, 100, 7), "0")
	b.want("counter untouched", b.HGet(ctx, testState, "7").Val(), "9")
	// 10 is more than 9, though not as text.
	b.want("ours", b.eval(opRaise, "lock:a", mine, 10, 7), "1")
	b.want("counter", b.HGet(ctx, testState, "7").Val(), "10")
	b.want("value", b.Get(ctx, "lock:a").Val(), mine+"0000000000000010me")
	b.ttl("lock:a", 5*time.Second)
	b.want("lower", b.eval(opRaise, "lock:a", mine, 3, 7), "1")
	b.want("counter not lowered", b.HGet(ctx, testState, "7").Val(), "10")
	b.want("value has the number", b.Get(ctx, "lock:a").Val(), mine+"0000000000000003me")
	b.eval(opRaise, "lock:a", mine, uint64(9007199254740001), 7)
	b.want("large", b.HGet(ctx, testState, "7").Val(), "9007199254740001")
	b.eval(opRelease, "lock:a", mine, "")
	b.want("counts on", b.eval(opAcquire, "lock:a", theirs, 5000, 7, ""), "[1 9007199254740002]")
	b.RPush(ctx, "lock:list", mine)
	b.want("a list", b.eval(opRaise, "lock:list", mine, 100, 7), "0")
	b.want("new counter", b.eval(opRaise, "lock:a", theirs, 5, 77), "1")
	b.want("new counter", b.HGet(ctx, testState, "77").Val(), "5")
}

func testReleaseLua(b bench) {
	ctx := b.t.Context()
	b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
	b.want("not ours", b.eval(opRelease, "lock:a", theirs, ""), "0")
	b.want("still there", fmt.Sprint(b.Exists(ctx, "lock:a").Val()), "1")
	b.want("ours", b.eval(opRelease, "lock:a", mine, ""), "1")
	b.want("gone", fmt.Sprint(b.Exists(ctx, "lock:a").Val()), "0")
	b.want("twice", b.eval(opRelease, "lock:a", mine, ""), "0")
	b.RPush(ctx, "lock:list", mine)
	b.want("a list", b.eval(opRelease, "lock:list", mine, ""), "0")
	b.want("list still there", fmt.Sprint(b.Exists(ctx, "lock:list").Val()), "1")
}

func testTopUpLua(b bench) {
	ctx := b.t.Context()
	b.want("absent", b.eval(opTopUp, "lock:a", mine, 3000, 7, 10, ""), "1")
	b.want("value", b.Get(ctx, "lock:a").Val(), mine+"0000000000000010")
	b.want("counter", b.HGet(ctx, testState, "7").Val(), "10")
	b.ttl("lock:a", 3*time.Second)
	b.want("again", b.eval(opTopUp, "lock:a", mine, 60000, 7, 10, ""), "2")
	b.ttl("lock:a", time.Minute)
	b.want("again, less", b.eval(opTopUp, "lock:a", mine, 3000, 7, 10, ""), "2")
	b.ttl("lock:a", time.Minute)
	b.want("another's", b.eval(opTopUp, "lock:a", theirs, 3000, 7, 50, ""), "0")
	b.want("counter untouched", b.HGet(ctx, testState, "7").Val(), "10")
	b.want("lower", b.eval(opTopUp, "lock:b", mine, 3000, 7, 9, ""), "1")
	b.want("counter not lowered", b.HGet(ctx, testState, "7").Val(), "10")
	b.RPush(ctx, "lock:list", mine)
	b.want("a list", b.eval(opTopUp, "lock:list", mine, 3000, 7, 10, ""), "0")
	b.want("no fencing", b.eval(opTopUp, "lock:n", mine, 3000, "", 0, ""), "1")
	b.want("value without fencing", b.Get(ctx, "lock:n").Val(), mine+"0000000000000000")
	b.want("counts on", b.eval(opAcquire, "lock:c", mine, 3000, 7, ""), "[1 11]")
}

func testCheckLua(b bench) {
	b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
	b.want("ours", b.eval(opCheck, "lock:a", mine), "1")
	b.want("another's", b.eval(opCheck, "lock:a", theirs), "0")
	b.want("missing", b.eval(opCheck, "lock:none", mine), "0")
	b.RPush(b.t.Context(), "lock:list", mine)
	b.want("a list", b.eval(opCheck, "lock:list", mine), "0")
}

func testExtendLua(b bench) {
	ctx := b.t.Context()
	b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
	b.want("not ours", b.eval(opExtend, "lock:a", theirs, 60000), "0")
	b.ttl("lock:a", 5*time.Second)
	b.want("ours", b.eval(opExtend, "lock:a", mine, 60000), "0000000000000001me")
	b.ttl("lock:a", time.Minute)
	b.want("less", b.eval(opExtend, "lock:a", mine, 5000), "0000000000000001me")
	b.ttl("lock:a", time.Minute)
	b.want("value", b.Get(ctx, "lock:a").Val(), mine+"0000000000000001me")
	b.want("counter", b.HGet(ctx, testState, "7").Val(), "1")
	b.want("missing", b.eval(opExtend, "lock:none", mine, 5000), "0")
	b.want("still missing", fmt.Sprint(b.Exists(ctx, "lock:none").Val()), "0")
	b.RPush(ctx, "lock:list", mine)
	b.want("a list", b.eval(opExtend, "lock:list", mine, 5000), "0")
}

func testInfoLua(b bench) {
	ctx := b.t.Context()
	info := func(key string) string {
		r, err := b.run(opInfo, key, "")
		if errors.Is(err, redis.Nil) {
			return "null"
		}
		return fmt.Sprint(r, err)
	}
	b.want("missing", info("lock:a"), "null")
	b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
	if got := info("lock:a"); !regexp.MustCompile(`^(5000|4\d\d\d) ` + mine + "0000000000000001me<nil>$").MatchString(got) {
		b.t.Errorf("held: %q", got)
	}
	b.Set(ctx, "lock:long", strings.Repeat("x", 1000), 0)
	b.want("long, for ever", info("lock:long"), "-1 "+strings.Repeat("x", 256)+"<nil>")
	b.RPush(ctx, "lock:list", mine)
	b.want("a list", info("lock:list"), "OTHER<nil>")
}

func testFreeLua(b bench) {
	ctx := b.t.Context()
	b.want("missing", b.eval(opFree, "lock:a", releasedPrefix), "0")
	b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
	b.want("ours", b.eval(opFree, "lock:a", releasedPrefix), "1")
	b.Set(ctx, "lock:a", "x", 0)
	b.want("foreign", b.eval(opFree, "lock:a", releasedPrefix), "1")
	b.want("gone", fmt.Sprint(b.Exists(ctx, "lock:a").Val()), "0")
	b.RPush(ctx, "lock:list", mine)
	b.want("a list", b.eval(opFree, "lock:list", releasedPrefix), "0")
	b.want("list still there", fmt.Sprint(b.Exists(ctx, "lock:list").Val()), "1")
}
