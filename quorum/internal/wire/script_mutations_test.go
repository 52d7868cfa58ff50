package wire

import (
	"os"
	"strings"
	"testing"
)

// mutations are faults in the script that the fuzz must find.
var mutations = []struct{ name, old, new string }{
	{"a holder that leaves keeps the expiry of the key",
		"elseif held.till > beside then",
		"elseif false then"},
	{"the last holder leaves the mark",
		"elseif beside < ms then",
		"elseif beside < 0 then"},
	{"extend shortens",
		"elseif ms + ttl > held.till then",
		"elseif true then"},
	{"refresh ignores the end that it names",
		"t.whole(has) ~= ARGV[at + 2] then",
		"ARGV[at + 2] == '0' then"},
	{"refresh shortens without an end",
		"t.whole(has) ~= ARGV[at + 2] then",
		"t.whole(has) ~= ARGV[at + 2] and ARGV[at + 2] ~= '0' then"},
	{"refresh does not count changes",
		"till = till + (has + 1 - till) % 8",
		"till = till"},
	{"refresh changes the lock of another",
		"if held ~= true then\n          return held and 0 or result",
		"if false then\n          return held and 0 or result"},
	{"fade lengthens",
		"elseif ms + ttl < held.till then",
		"elseif true then"},
	{"the key expires with the holder that is extended",
		"t.whole(max(till, beside))",
		"t.whole(till)"},
	{"a joiner lowers the expiry",
		"last > ms + ttl and t.whole(last) or till)\n",
		"till)\n"},
	{"holders that have ended hold",
		"elseif till < ms then\n          pcall('ZREM'",
		"elseif till < 0 then\n          pcall('ZREM'"},
	{"holders join despite an intent",
		"local shut = not fence and t.intended(key, mode)",
		"local shut = false"},
	{"the first reader does not count",
		"count = max(number, (had or 0) + 1)",
		"count = max(number, had or 0)"},
	{"readers after share have its fence",
		"(tonumber(sub(rest, 1, 16)) or 0) + 1",
		"(tonumber(sub(rest, 1, 16)) or 0)"},
	{"several keys are not given back",
		"if set > 0 then",
		"if false then"},
	{"keep leaves the token",
		"done = t.failed(done) and done or h.leave(key, secret, held)",
		""},
	{"free deletes foreign keys",
		"not value and not t.modeOf(key)",
		"false"},
	{"release deletes foreign keys",
		" or #first ~= 3 or sub(first[2], 1, 10) ~= 'lockproxy-' then",
		" then"},
	{"slots of holders that end soon are given away",
		"till >= ms and at == place then",
		"till >= ms + 50000 and at == place then"},
	{"slots under other limits count",
		"live >= n and largest <= n then",
		"live >= n then"},
	{"the place of a slot is one too high",
		"entry, score = 'L' .. place .. entry, '-1' .. place",
		"entry, score, place = 'L' .. place .. entry, '-1' .. place, sub(1001 + place, 2)"},
	{"entries of holders that have ended stay",
		"pcall('ZREM', key, '=' .. secret, secret .. (entry or ''))",
		"pcall('ZREM', key, '=' .. secret)"},
	{"the record is not compared",
		"ARGV[1] == '' or have[1] == ARGV[1], nil",
		"true, nil"},
	{"columns: acquires are never too late",
		"if age and age > 990 * ARGV[ttls + i] then",
		"if false then"},
	{"other acquires are never too late",
		"sub(name, 1, 8) == 'acquire_' and age > 990 * ARGV[at + 1]",
		"false"},
	{"top-ups are never too late",
		"name == 'top_up' and age > 1000 * ARGV[at + 6]",
		"false"},
	{"top-ups are too late after their ttl",
		"name == 'top_up' and age > 1000 * ARGV[at + 6]",
		"name == 'top_up' and age > 1000 * ARGV[at + 1]"},
	{"all of a packet with one that is too late are too late",
		"- ARGV[3] > 0 and out[2] * 1000000 + out[3] - ARGV[4]",
		"- ARGV[3] > 0 and 1e15"},
	{"packets are not counted",
		"format('%.0f', writes + 1)",
		"format('%.0f', writes)"},
	{"counters have no limit",
		"number >= 0 and number < limit and",
		"number >= 0 and"},
	{"quiet releases are published",
		"return t.release(key, secret, false)",
		"return t.release(key, secret, true)"},
	{"without rights: a new key has no expiry",
		"elseif not expires then\n",
		"elseif false then\n"},
	{"without rights: grants are not counted",
		"if first ~= '' and not refusal and not have.err and",
		"if false and"},
	{"without rights: raise loses the entry",
		"done = pcall('ZADD', key, h.scoreOf(held.till, held.place), '=' .. secret)",
		"done = 1"},
	{"without rights: share loses the lock",
		"or pcall('ZADD', key, '0', '=' .. secret)\n",
		"or {err = 'WRONGTYPE'}\n"},
}

// Every mutation fits the script. With WIRE_MUTATIONS the fuzz finds each of them.
func TestScriptMutations(t *testing.T) {
	shipped, run := Packet, os.Getenv("WIRE_MUTATIONS") != ""
	t.Cleanup(func() { Packet = shipped })
	var r *rig
	if run {
		r = newRig(t)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			if n := strings.Count(shipped.Body, m.old); n != 1 {
				t.Fatalf("%q is %d times in the script", m.old, n)
			} else if !run {
				return
			}
			Packet = newScript(strings.Replace(shipped.Body, m.old, m.new, 1))
			var sum counts
			for seed := uint64(1); sum.ops < number("WIRE_FUZZ_OPS", 60_000); seed++ {
				if faults := r.fuzz(seed, &sum); faults != "" {
					fault, _, _ := strings.Cut(faults, "\n")
					t.Logf("found after %d operations: %.200s", sum.ops, fault)
					return
				}
			}
			t.Errorf("not found: %+v", sum)
		})
	}
}
