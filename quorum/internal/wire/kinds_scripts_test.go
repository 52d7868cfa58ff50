package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// third is a secret beside mine and theirs.
var third = strings.Repeat("3", SecretLen)

func shared(key, secret string, ttl time.Duration) *Op {
	o := lasting(Acquire, key, secret, ttl)
	o.Counter, o.Terms = 7, &Terms{Mode: Shared}
	return o
}

func limited(key, secret string, limit int, try ...int) *Op {
	o := lasting(Acquire, key, secret, 50*time.Second)
	o.Counter, o.Terms = 7, &Terms{Mode: Limited, Limit: limit, Try: [2]int{try[0], try[len(try)-1]}}
	return o
}

// waiting returns an acquire of a client that waits.
func waiting(o *Op) *Op {
	t := Terms{}
	if o.Terms != nil {
		t = *o.Terms
	}
	t.Waits = 1500 * time.Millisecond
	o.Terms = &t
	return o
}

// likely returns a release of a lock that is likely to have that mode.
func likely(key, secret string, mode Mode) *Op {
	return &Op{Kind: Release, TokenAt: TokenAt{key, secret}, Publish: true, Terms: &Terms{Mode: mode}}
}

func keep(key, secret string, ttl time.Duration) *Op { return lasting(Release, key, secret, ttl) }

// found is what an inspection says: the mode, how many hold it, and each without its times.
func (s *server) found(key string) string {
	s.t.Helper()
	p := s.packet(fenced, "", op(Inspect, key, ""))
	got, ok := ParseInspect(&p.Results[0])
	if !ok {
		s.t.Fatalf("%s: %s", key, text(&p.Results[0]))
	}
	if got.Count == 0 && got.Holders == nil {
		return text(&p.Results[0])
	}
	var all []string
	for _, h := range got.Holders {
		name := strings.NewReplacer(mine, "mine", theirs, "theirs", third, "third", "kept"+mine[4:],
			"kept").Replace(h.ID) + string(AppendFence(nil, h.Fence)) + h.Owner
		if got.Mode == Limited {
			name = fmt.Sprint(h.Slot, " ", name)
		}
		all = append(all, name)
	}
	if got.Mode == Limited {
		slices.Sort(all)
	}
	return fmt.Sprint(got.Mode, " ", got.Count, " ", strings.Join(all, ", "))
}

// The first reader counts, the others have its number, and the last takes the key away.
func TestFirstReaderCountsLastTakesTheKey(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("readers", s.run(shared("lock:a", mine, 20*time.Second), shared("lock:a", theirs, 50*time.Second),
			shared("lock:b", mine, time.Minute)), "S0000000000000000001 S0000000000000000001 S0000000000000000002")
		s.want("they stand", s.found("lock:a"), "shared 2 theirs0000000000000001, mine0000000000000001")
		s.want("a sorted set", s.do("TYPE", "lock:a"), "zset")
		s.expires("lock:a", 50*time.Second)
		refused := s.run(acquire("lock:a", third), limited("lock:a", third, 3, 0))
		if refused[0] != '-' || strings.Count(refused, "-") != 2 {
			t.Errorf("others are answered %s", refused)
		}
		s.want("a Redlock library", s.do("SET", "lock:a", "x", "NX", "PX", "1000"), "nil")
		s.want("both", s.run(op(Check, "lock:a", mine), op(Check, "lock:a", theirs), op(Check, "lock:a", third)), "1 1 0")
		s.want("the latest leaves", s.run(op(Release, "lock:a", theirs)), "1")
		s.expires("lock:a", 20*time.Second) // not earlier holders, which have left
		s.want("late joiner", s.run(shared("lock:a", third, 20*time.Second)), "S0000000000000000002")
		s.want("all leave", s.run(op(Release, "lock:a", mine), op(Release, "lock:a", mine), op(Release, "lock:a", third)),
			"1 0 1")
		s.want("nothing is left", s.do("EXISTS", "lock:a"), "0")
		s.want("a writer", s.run(acquire("lock:a", mine)), "3")
		if got := s.run(shared("lock:a", theirs, time.Second)); got[0] != '-' {
			t.Errorf("beside a writer: %s", got)
		}
	})
}

// An extension, a raise and a fade change one reader, and the key lives as long as the last.
func TestReaderOperations(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.run(shared("lock:a", mine, 20*time.Second), shared("lock:a", theirs, 30*time.Second))
		s.want("extend", s.run(lasting(Extend, "lock:a", mine, time.Minute), lasting(Extend, "lock:a", mine, time.Second)),
			"S0000000000000000001 S0000000000000000001")
		s.expires("lock:a", time.Minute)
		s.want("raise", s.run(raise("lock:a", mine, 9), raise("lock:a", third, 10)), "1 0")
		s.counter(9)
		s.want("raised", s.found("lock:a"), "shared 2 mine0000000000000009, theirs0000000000000001")
		s.want("fade", s.run(lasting(Fade, "lock:a", mine, 10*time.Second)), "1")
		s.expires("lock:a", 30*time.Second)
		top := topUp("lock:a", third, 40*time.Second, 20)
		top.Terms = &Terms{Mode: Shared}
		s.want("top up", s.run(top, top), "1 2")
		s.counter(20)
		s.expires("lock:a", 40*time.Second)
		s.want("keep", s.run(keep("lock:a", mine, time.Minute), op(Release, "lock:a", mine),
			lasting(Extend, "lock:a", mine, time.Hour)), "1 0 0")
		s.expires("lock:a", time.Minute)
		s.want("one is kept", s.found("lock:a"),
			"shared 3 kept0000000000000009, third0000000000000020, theirs0000000000000001")
		s.want("free", s.run(op(Free, "lock:a", "")), "1")
		s.want("nothing is left", s.do("EXISTS", "lock:a"), "0")
	})
}

// A reader whose ttl has ended does not hold the lock, though others keep the key.
func TestReaderEnds(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.run(shared("lock:a", mine, 30*time.Millisecond), shared("lock:a", theirs, 20*time.Second))
		for s.run(op(Check, "lock:a", mine)) == "1" {
		}
		s.want("too late", s.run(lasting(Extend, "lock:a", mine, time.Second), op(Check, "lock:a", theirs),
			op(Release, "lock:a", mine)), "0 1 0")
		s.want("one is left", s.found("lock:a"), "shared 1 theirs0000000000000001")
		s.want("forgotten", s.run(shared("lock:a", third, time.Second))+" "+s.do("ZCARD", "lock:a"),
			"S0000000000000000001 5")
	})
}

// A client that waits keeps others from joining the holders that it waits for.
func TestWaitingKeepsOthersFromJoining(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.run(shared("lock:a", mine, 20*time.Second))
		s.run(waiting(acquire("lock:a", theirs)))
		if got := s.run(shared("lock:a", third, time.Second), waiting(shared("lock:a", third, time.Second)),
			limited("lock:a", third, 1, 0)); strings.Count(got, "-") != 3 {
			t.Errorf("with an intent: %s", got)
		}
		s.run(op(Release, "lock:a", mine))
		if got := s.run(shared("lock:a", third, time.Second)); got[0] != '-' {
			t.Errorf("before the one who waits: %s", got)
		}
		s.want("who waits", s.run(waiting(acquire("lock:a", theirs)), op(Release, "lock:a", theirs),
			shared("lock:a", mine, time.Second)), "2 1 S0000000000000000003")
		s.run(waiting(limited("lock:a", theirs, 3, 0)))
		if got := s.run(shared("lock:a", third, time.Second)); got[0] != '-' {
			t.Errorf("with the intent of a slot: %s", got)
		}
		s.want("slots", s.run(op(Release, "lock:a", mine), limited("lock:a", mine, 3, 0),
			waiting(shared("lock:a", third, time.Second)))[:24], "1 L0000000000000000004 -")
		if got := s.run(limited("lock:a", third, 3, 1)); got[0] != '-' {
			t.Errorf("with the intent of a reader: %s", got)
		}
	})
}

// An intent lasts as long as a client waits. A longer intent is not shortened.
func TestIntentEnds(t *testing.T) {
	forEachServer(t, func(s *server) {
		const intent = IntentPrefix + "lock:a"
		s.run(shared("lock:a", mine, 20*time.Second))
		for _, tt := range []struct{ waits, want time.Duration }{
			{10 * time.Second, 10 * time.Second}, {4 * time.Second, 10 * time.Second}, {25 * time.Second, 25 * time.Second},
		} {
			both := acquire("lock:b", theirs)
			both.Terms = &Terms{More: []string{"lock:a"}, Counters: []uint16{7}}
			for _, o := range []*Op{acquire("lock:a", theirs), limited("lock:a", theirs, 3, 0), both} {
				o = waiting(o)
				o.Terms.Waits = tt.waits
				s.run(o)
				s.expires(intent, tt.want)
			}
		}
		s.do("SET", intent, "shared", "PX", "60000") // keeps no reader out
		o := waiting(acquire("lock:a", theirs))
		o.Terms.Waits = 10 * time.Second
		s.run(o)
		s.expires(intent, 10*time.Second)
		s.run(op(Release, "lock:a", mine), waiting(acquire("lock:a", theirs)))
		s.want("got what it waited for", s.do("EXISTS", intent), "0")
	})
}

// Each has a slot of its own under its own limit.
func TestEachSlotHasOneHolder(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("tried first", s.run(limited("lock:a", mine, 3, 1, 2), limited("lock:a", theirs, 3, 1, 2),
			limited("lock:a", third, 3, 1, 2)),
			"L0010000000000000001 L0020000000000000002 L0000000000000000003")
		s.want("a sorted set", s.do("TYPE", "lock:a"), "zset")
		fourth := strings.Repeat("4", SecretLen)
		got := s.run(limited("lock:a", fourth, 3, 0), acquire("lock:a", fourth), shared("lock:a", fourth, time.Second))
		if strings.Count(got, "-") != 3 {
			t.Errorf("full: %s", got)
		}
		s.want("a greater limit", s.run(limited("lock:a", fourth, 4, 0)), "L0030000000000000004")
		s.want("they stand", s.found("lock:a"), "limit 4 0 third0000000000000003, 1 mine0000000000000001, 2 theirs0000000000000002, 3 "+fourth+"0000000000000004")
		s.want("one leaves", s.run(op(Release, "lock:a", mine), op(Release, "lock:a", mine), limited("lock:a", mine, 4, 0)),
			"1 0 L0010000000000000005")
		s.want("raise, check, extend", s.run(raise("lock:a", mine, 9), op(Check, "lock:a", mine),
			lasting(Extend, "lock:a", mine, time.Minute)), "1 2 L0010000000000000009")
		s.expires("lock:a", time.Minute)
		s.counter(9)
		s.want("fade", s.run(lasting(Fade, "lock:a", mine, time.Second)), "1")
		s.expires("lock:a", 50*time.Second)
		share := lasting(Share, "lock:a", mine, time.Second)
		if got := s.run(share); got[0] != '!' {
			t.Errorf("shared: %s", got)
		}
		top := topUp("lock:a", mine, 40*time.Second, 20)
		top.Terms = &Terms{Mode: Limited, Slot: 1}
		s.want("top up", s.run(op(Release, "lock:a", mine), top, top), "1 1 2")
		top.Secret, top.Terms = strings.Repeat("5", SecretLen), &Terms{Mode: Limited, Slot: 2}
		s.want("a slot that is taken", s.run(top), "0")
		s.want("keep", s.run(keep("lock:a", mine, time.Minute), op(Release, "lock:a", mine)), "2 0")
		s.want("closed", s.found("lock:a"), "limit 4 0 third0000000000000003, 1 kept0000000000000020, 2 theirs0000000000000002, 3 "+fourth+"0000000000000004")
		s.want("free", s.run(op(Free, "lock:a", ""))+s.do("EXISTS", "lock:a"), "10")
	})
}

// oneSlotEnds lets mine, in slot 0 of two, run out beside theirs.
func (s *server) oneSlotEnds() {
	s.t.Helper()
	short := limited("lock:a", mine, 2, 0)
	short.TTL = 30 * time.Millisecond
	s.run(short, limited("lock:a", theirs, 2, 1))
	for s.run(op(Check, "lock:a", mine)) == "1" {
	}
}

// A slot is free when its ttl has ended, and the key lives no longer than the last slot.
func TestSlotEnds(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.oneSlotEnds()
		s.want("too late", s.run(lasting(Extend, "lock:a", mine, time.Second), limited("lock:a", third, 2, 1)),
			"0 L0000000000000000003")
		s.run(op(Release, "lock:a", third), op(Release, "lock:a", theirs))
		s.want("nothing is left", s.do("EXISTS", "lock:a"), "0")
		short := limited("lock:a", mine, 2, 0)
		short.TTL = 20 * time.Second
		s.run(short, limited("lock:a", theirs, 2, 1), op(Release, "lock:a", theirs))
		s.expires("lock:a", 20*time.Second)
	})
}

// A slot that has run out is topped up with the token that had it, and is found by that again.
func TestSlotIsToppedUpAgain(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.oneSlotEnds()
		top := topUp("lock:a", mine, 20*time.Second, 3)
		top.Terms = &Terms{Mode: Limited, Slot: 0}
		s.want("top up", s.run(top, op(Check, "lock:a", mine), top), "1 1 2")
		s.want("two hold it", s.found("lock:a"), "limit 2 0 mine0000000000000003, 1 theirs0000000000000002")
		s.want("release", s.run(op(Release, "lock:a", mine)), "1")
		s.want("one is left", s.found("lock:a"), "limit 1 1 theirs0000000000000002")
	})
}

// Several keys are locked all or none, with a number that is greater than any of theirs.
func TestSeveralKeys(t *testing.T) {
	forEachServer(t, func(s *server) {
		both := lasting(Acquire, "lock:a", mine, 50*time.Second)
		both.Counter, both.Terms = 7, &Terms{More: []string{"lock:b", "lock:c"}, Counters: []uint16{8, 7}}
		s.must("HSET", testState, "7", "4", "8", "20")
		s.want("all", s.run(both), "21")
		for _, key := range []string{"lock:a", "lock:b", "lock:c"} {
			s.value(key, mine+"0000000000000021")
			s.expires(key, 50*time.Second)
		}
		s.want("counters", s.do("HMGET", testState, "7", "8"), "[21 21]")
		up := raise("lock:a", mine, 30)
		up.Terms = both.Terms
		s.want("raised", s.run(up), "1")
		s.want("counters", s.do("HMGET", testState, "7", "8"), "[30 30]")
		s.value("lock:c", mine+"0000000000000030")
		s.run(op(Release, "lock:b", mine))
		up.Fence = 40
		s.want("not where one is gone", s.run(up), "0")
		both.Secret = theirs
		if got := s.run(both, op(Check, "lock:b", theirs)); got[0] != '-' || !strings.HasSuffix(got, " 0") {
			t.Errorf("one is held: %s", got)
		}
		s.must("SET", "lock:a", "x")
		s.want("for ever", s.run(both), "-1")
		s.must("DEL", "lock:a", "lock:c")
		s.want("free again", s.run(both, acquire("lock:b", mine))[:3], "31 ")
	})
}

// A lock that is kept stays closed, and its token is dead.
func TestKeptLockHasADeadToken(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.run(acquire("lock:a", mine))
		s.want("keep", s.run(keep("lock:a", mine, 20*time.Second), keep("lock:a", mine, time.Hour),
			lasting(Extend, "lock:a", mine, time.Hour), op(Check, "lock:a", mine), op(Release, "lock:a", mine)), "1 0 0 0 0")
		s.expires("lock:a", 20*time.Second)
		s.want("closed", s.found("lock:a"), "exclusive 1 kept0000000000000001")
		if got := s.run(acquire("lock:a", theirs), shared("lock:a", theirs, time.Second),
			limited("lock:a", theirs, 1, 0)); strings.Count(got, "-") != 3 {
			t.Errorf("closed: %s", got)
		}
	})
}

// The holder of an exclusive lock becomes a reader. Who joins has a greater number.
func TestExclusiveHolderBecomesReader(t *testing.T) {
	forEachServer(t, func(s *server) {
		a := acquire("lock:a", mine)
		a.Owner = "me"
		share := lasting(Share, "lock:a", mine, 20*time.Second)
		share.Counter = 7
		s.want("shared", s.run(a, share, share), "1 S0000000000000000001me S0000000000000000001me")
		s.expires("lock:a", 50*time.Second) // never lowered
		s.want("joins", s.run(shared("lock:a", theirs, time.Second)), "S0000000000000000002")
		s.want("of nobody", s.run(lasting(Share, "lock:a", third, time.Second)), "0")
		s.want("leaves", s.run(op(Release, "lock:a", mine), op(Check, "lock:a", theirs)), "1 1")
	})
}

// A lock that another library set, with 40 hex digits for its value, becomes a shared one as well.
func TestShareOfAnotherLibrary(t *testing.T) {
	forEachServer(t, func(s *server) {
		for _, tail := range []string{"", "text that is no fence"} {
			s.must("SET", "lock:a", mine+tail, "PX", "20000")
			share := lasting(Share, "lock:a", mine, time.Second)
			share.Counter = 7
			s.want("shared", s.run(share), "S0000000000000000000")
			s.want("it stands", s.found("lock:a"), "shared 1 mine0000000000000000")
			s.want("leaves", s.run(op(Release, "lock:a", mine)), "1")
		}
	})
}

// All kinds refuse a key that is no lock, and do not change it.
func TestForeignKeys(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.must("ZADD", "lock:zset", "1", mine)
		s.must("HSET", "lock:hash", "s"+mine, "0", "0", "x")
		s.must("RPUSH", "lock:list", mine)
		for _, key := range []string{"lock:zset", "lock:hash", "lock:list"} {
			before := s.do("DUMP", key)
			s.want(key, s.run(waiting(acquire(key, theirs)), waiting(shared(key, theirs, time.Second)),
				waiting(limited(key, theirs, 3, 0)), op(Free, key, "")), "-1 -1 -1 0")
			s.want("found", s.found(key), "OTHER")
			s.want("touched", s.do("DUMP", key), before)
		}
	})
}

// Each operation of a packet is answered for any members of a sorted set beside its mark.
func TestHoldersThatAreNone(t *testing.T) {
	forEachServer(t, func(s *server) {
		const later = 9999999999999999
		for _, members := range [][]any{
			{later, "=" + mine},
			{0, "lockproxy-shared", later, "=" + mine},
			{0, "lockproxy-limit", later, "=" + mine, -1999, mine + "Lxyz"},
			{128, "lockproxy-limit", 5000000, "=" + mine, -1000, mine, -1001, "", -1001, theirs + "L001"},
			{-5, "lockproxy-limit", "inf", "=" + mine, "-inf", mine + "S000", later, ""},
		} {
			set := append([]any{"ZADD", "lock:a"}, members...)
			for _, o := range []*Op{
				op(Check, "lock:a", mine), op(Release, "lock:a", mine), op(Inspect, "lock:a", ""), raise("lock:a", mine, 9),
				lasting(Extend, "lock:a", mine, time.Second), lasting(Fade, "lock:a", mine, time.Second),
				keep("lock:a", mine, time.Second),
				limited("lock:a", theirs, 2, 0), shared("lock:a", theirs, time.Second), likely("lock:a", mine, Shared),
				{Kind: TopUp, TokenAt: TokenAt{"lock:a", theirs}, TTL: time.Second, Terms: &Terms{Mode: Limited}},
				{Kind: TopUp, TokenAt: TokenAt{"lock:a", mine}, TTL: time.Second, Terms: &Terms{Mode: Limited, Slot: 1}},
			} {
				s.must("DEL", "lock:a")
				s.must(set...)
				if got := s.run(o, op(Check, "lock:b", mine)); !strings.HasSuffix(got, " 0") {
					t.Errorf("%v, %s: %s", members, o.operation().name, got)
				}
			}
		}
	})
}
