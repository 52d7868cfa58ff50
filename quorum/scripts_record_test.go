package quorum

import (
	"fmt"
	"strconv"
	"strings"
)

// testRecordLua: under another record nothing is done but a release.
func testRecordLua(b bench) {
	ctx := b.t.Context()
	b.HSet(ctx, testState, "record", "A right", "7", "5")
	calls := map[opKind][]any{
		opAcquire: {theirs, 5000, 7, ""}, opRaise: {mine, 100, 7}, opTopUp: {mine, 60000, 7, 50, ""}, opCheck: {mine}, opExtend: {mine, 60000}, opInfo: {},
		opRelease: {mine, ""},
	}
	for op, argv := range calls {
		b.Del(ctx, "lock:a")
		b.eval(opAcquire, "lock:a", mine, 5000, 7, "me")
		value, counter := b.Get(ctx, "lock:a").Val(), b.HGet(ctx, testState, "7").Val()
		for _, wrong := range []string{"A wrong", "A righ", "A right "} {
			if _, err := b.run(op, "lock:a", append(argv[:len(argv):len(argv)], wrong)...); err == nil || !strings.HasPrefix(err.Error(), notAdmitted+" ") {
				b.t.Errorf("%s under another record: %v, want NOTADMITTED", fakeOps[op], err)
			}
			if op == opRelease {
				b.want("released all the same", fmt.Sprint(b.Exists(ctx, "lock:a").Val()), "0")
				continue
			}
			b.want("value", b.Get(ctx, "lock:a").Val(), value)
			b.want("counter", b.HGet(ctx, testState, "7").Val(), counter)
			b.ttl("lock:a", 5e9)
		}
		if op == opAcquire {
			b.Del(ctx, "lock:a")
		}
		if _, err := b.run(op, "lock:a", append(argv[:len(argv):len(argv)], "A right")...); err != nil {
			b.t.Errorf("%s under the record: %v", fakeOps[op], err)
		}
	}
	b.HDel(ctx, testState, "record")
	if _, err := b.run(opAcquire, "lock:b", mine, 5000, 7, "", "A right"); err == nil {
		b.t.Error("granted without a record")
	}
}

// admit runs admit.lua: from, empty, to, settings, born, durable, floor, counters.
func (b bench) admit(argv ...string) string {
	b.t.Helper()
	all := make([]any, len(argv))
	for i, a := range argv {
		all[i] = a
	}
	return b.eval(opAdmit, "", all...)
}

func testAdmitLua(b bench) {
	ctx := b.t.Context()
	look := func() lookReply {
		b.t.Helper()
		said, ok := parseLook(&reply{kind: '$', text: b.eval(opLook, "")})
		if !ok {
			b.t.Fatal("look cannot be read")
		}
		said.clock = 0
		return said
	}
	state := func(what string, want lookReply) {
		b.t.Helper()
		if got := look(); got != want {
			b.t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	state("nothing", lookReply{})
	b.want("another expected", b.admit("A x", "", "A y", "-", "-", "-", "", ""), "0")
	b.want("first", b.admit("", "1", "N x", "-", "-", "-", "", ""), "1")
	state("first", lookReply{fields: 1, record: "N x"})
	b.want("none expected", b.admit("", "", "N y", "-", "-", "-", "", ""), "0")
	b.want("empty expected", b.admit("N x", "1", "N y", "-", "-", "-", "", ""), "0")

	b.HSet(ctx, testState, "7", "9007199254740991", "8", "9", "9", "5")
	b.want("counters", b.admit("N x", "", "A y", "s=1", "x,y", "run", "", "8 10 9 4 10 1"), "1")
	state("admitted", lookReply{fields: 8, record: "A y", settings: "s=1", born: "x,y", durable: "run"})
	b.want("10 is more than 9", b.HGet(ctx, testState, "8").Val(), "10")
	b.want("not lowered", b.HGet(ctx, testState, "9").Val(), "5")
	b.want("new", b.HGet(ctx, testState, "10").Val(), "1")
	b.want("kept fields", b.admit("A y", "", "A z", "-", "", "-", "", ""), "1")
	state("kept fields", lookReply{fields: 7, record: "A z", settings: "s=1", durable: "run"})

	b.want("floor", b.admit("A z", "", "A w", "-", "", "", "3671294823219200", ""), "1")
	b.want("floor", b.HGet(ctx, testState, "4095").Val(), "3671294823219200")
	b.want("above the floor", b.HGet(ctx, testState, "7").Val(), "9007199254740991")
	b.want("below the floor", b.HGet(ctx, testState, "8").Val(), "3671294823219200")
	b.want("fields", strconv.FormatInt(b.HLen(ctx, testState).Val(), 10), "4098")

	var all allCounters
	if err := all.read(b.eval(opCounters, "", "A w")); err != nil || all[7] != 9007199254740991 || all[0] != 3671294823219200 {
		b.t.Errorf("counters %v, %d %d", err, all[7], all[0])
	}
	if _, err := b.run(opCounters, "", "A z"); err == nil {
		b.t.Error("counters under another record")
	}
	b.FlushAll(ctx)
	b.want("copied", b.admit("", "", "A y", "s", "", "", "", all.String()), "1")
	var copied allCounters
	if err := copied.read(b.eval(opCounters, "", "A y")); err != nil || copied != all {
		b.t.Errorf("the copy differs: %v", err)
	}
	b.Set(ctx, testState, "x", 0)
	b.want("no hash", b.admit("", "", "A y", "-", "-", "-", "", ""), "error")
}
