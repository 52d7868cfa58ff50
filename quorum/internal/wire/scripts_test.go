package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	testState = "lockproxy:state:lock:"
	mine      = "0123456789abcdef0123456789abcdef01234567"
	theirs    = "fedcba9876543210fedcba9876543210fedcba98"
	zeros     = "0000000000000000"
)

var fenced = &Encoder{StateKey: testState, Fencing: true}

func acquire(key, secret string) *Op {
	return &Op{Kind: Acquire, TokenAt: TokenAt{key, secret}, Counter: 7, TTL: 50 * time.Second}
}

func op(kind OpKind, key, secret string) *Op { return &Op{Kind: kind, TokenAt: TokenAt{key, secret}} }

func topUp(key, secret string, ttl time.Duration, fence uint64) *Op {
	return &Op{Kind: TopUp, TokenAt: TokenAt{key, secret}, Counter: 7, TTL: ttl, Fence: fence}
}

func raise(key, secret string, fence uint64) *Op {
	return &Op{Kind: Raise, TokenAt: TokenAt{key, secret}, Counter: 7, Fence: fence}
}

func lasting(kind OpKind, key, secret string, ttl time.Duration) *Op {
	return &Op{Kind: kind, TokenAt: TokenAt{key, secret}, TTL: ttl}
}

// run is packet under any record, with the results as text.
func (s *server) run(ops ...*Op) string {
	s.t.Helper()
	return s.runAs(fenced, "", ops...)
}

func (s *server) runAs(e *Encoder, record string, ops ...*Op) string {
	s.t.Helper()
	p := s.packet(e, record, ops...)
	if !p.Admitted && record == "" {
		s.t.Error("not admitted under any record")
	}
	all := make([]string, len(p.Results))
	for i := range p.Results {
		all[i] = text(&p.Results[i])
	}
	return strings.Join(all, " ")
}

func (s *server) want(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// value and counter check the keys of the server.
func (s *server) value(key, want string) {
	s.t.Helper()
	s.want("value of "+key, s.do("GET", key), want)
}

func (s *server) counter(want any) {
	s.t.Helper()
	s.want("counter", s.do("HGET", testState, "7"), fmt.Sprint(want))
}

// expires checks that a key runs out within limit, and does run out.
func (s *server) expires(key string, limit time.Duration) {
	s.t.Helper()
	left, _ := strconv.ParseInt(s.do("PTTL", key), 10, 64)
	if left <= limit.Milliseconds()/2 || left > limit.Milliseconds() {
		s.t.Errorf("%s lives for %d ms, want just under %v", key, left, limit)
	}
}

func TestAcquire(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("free", s.run(acquire("lock:a", mine)), "1")
		s.value("lock:a", mine+"0000000000000001")
		s.expires("lock:a", 50*time.Second)
		s.counter(1)

		r := s.packet(fenced, "", acquire("lock:a", theirs)).Results[0]
		if left, ok := Refused(&r); !ok || left <= 40*time.Second || left > 50*time.Second {
			t.Errorf("held: %v", text(&r))
		}
		if s.mini != nil { // whose clock does not move
			s.want("held", text(&r), "-50002")
		}
		s.counter(1)
		s.value("lock:a", mine+"0000000000000001")

		owned := acquire("lock:o", mine)
		owned.Owner = "me"
		s.want("owner", s.run(owned), "2")
		s.value("lock:o", mine+"0000000000000002me")

		s.want("no fencing", s.runAs(&Encoder{StateKey: testState}, "", acquire("lock:n", mine)), "0")
		s.value("lock:n", mine+zeros)
		s.counter(2)
	})
}

// A key of any type refuses and does not change.
func TestAcquireRefused(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.must("SET", "lock:string", "x")
		s.must("SET", "lock:empty", "")
		s.must("RPUSH", "lock:list", "x")
		s.must("HSET", "lock:hash", "x", "x")
		s.must("SADD", "lock:set", "x")
		s.must("ZADD", "lock:zset", 1, "x")
		for _, key := range []string{"lock:string", "lock:empty", "lock:list", "lock:hash", "lock:set", "lock:zset"} {
			dump := ""
			if s.mini == nil {
				dump = s.must("DUMP", key)
			}
			s.want(key, s.run(acquire(key, mine)), "-1")
			s.want(key+" with an expiry", s.must("PEXPIRE", key, 100000), "1")
			r := s.packet(fenced, "", acquire(key, mine)).Results[0]
			if left, ok := Refused(&r); !ok || left < 50*time.Second || left > 100*time.Second {
				t.Errorf("%s with an expiry: %s", key, text(&r))
			}
			if s.mini == nil {
				s.want(key+" stays", s.do("DUMP", key), dump)
			}
		}
		s.counter("nil")
	})
}

func TestAcquireCounters(t *testing.T) {
	forEachServer(t, func(s *server) {
		for _, c := range []struct{ have, grants, leaves string }{
			{"9", "10", "10"}, // more than 9, though not as text
			{"999999999999998", "999999999999999", "999999999999999"},
			{"999999999999999", "1000000000000000", "1000000000000000"},
			{"3671294823219200", "3671294823219201", "3671294823219201"},
			{"9007199254740991", "!ERR", "9007199254740991"}, // see TestCounterAheadDoesNotSpread
			{"9223372036854775807", "!ERR", "9223372036854775807"},
			{"-5", "!ERR", "-5"},
			{"1.5", "!ERR", "1.5"},
			{"nan", "!ERR", "nan"},
			{"junk", "!ERR", "junk"},
			{"", "!ERR", ""},
		} {
			s.sub(strconv.Quote(c.have), func() {
				s.must("DEL", "lock:a")
				s.must("HSET", testState, "7", c.have)
				got := s.run(acquire("lock:a", mine))
				if c.grants == "!ERR" {
					if !strings.HasPrefix(got, "!ERR ") {
						s.t.Errorf("%s, want an error", got)
					}
					s.value("lock:a", "nil")
				} else {
					s.want("granted", got, c.grants)
					s.value("lock:a", mine+fmt.Sprintf("%016s", c.grants))
				}
				s.counter(c.leaves)
			})
		}
		// A counter of six others: the fences of larger packets are written another way.
		s.must("HSET", testState, "7", "3671294823219200")
		var ops []*Op
		for i := range 8 {
			a := acquire(fmt.Sprint("lock:many", i), mine)
			a.Counter = uint16(7 + i%7)
			ops = append(ops, a)
		}
		s.want("many", s.run(ops...), "3671294823219201 1 1 1 1 1 1 3671294823219202")
		s.value("lock:many7", mine+"3671294823219202")
		s.value("lock:many1", mine+"0000000000000001")
		s.counter("3671294823219202")
		s.want("small counter", s.do("HGET", testState, "8"), "1")
		s.want("is taken on by older proxies", s.do("HINCRBY", testState, "8", 1), "2")
	})
}

func TestRaise(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.must("HSET", testState, "7", "8")
		owned := acquire("lock:a", mine)
		owned.Owner = "me"
		s.want("held", s.run(owned), "9")
		s.want("not ours", s.run(raise("lock:a", theirs, 100)), "0")
		s.want("missing", s.run(raise("lock:none", mine, 100)), "0")
		s.counter(9)
		s.want("ours", s.run(raise("lock:a", mine, 10)), "1")
		s.counter(10)
		s.value("lock:a", mine+"0000000000000010me")
		s.expires("lock:a", 50*time.Second)
		s.want("lower", s.run(raise("lock:a", mine, 3)), "1")
		s.counter(10)
		s.value("lock:a", mine+"0000000000000003me")
		s.want("large", s.run(raise("lock:a", mine, 3671294823219201)), "1")
		s.counter("3671294823219201")
		s.must("RPUSH", "lock:list", mine)
		s.want("a list", s.run(raise("lock:list", mine, 100)), "0")
		s.want("counts on", s.run(op(Release, "lock:a", mine), acquire("lock:a", theirs)), "1 3671294823219202")
		s.must("HSET", testState, "7", "junk")
		if got := s.run(raise("lock:a", theirs, 100)); !strings.HasPrefix(got, "!ERR ") {
			t.Errorf("broken counter: %s", got)
		}
		s.counter("junk")
	})
}

func TestRelease(t *testing.T) {
	forEachServer(t, func(s *server) {
		for _, publish := range []bool{false, true} {
			release := func(key, secret string) *Op {
				o := op(Release, key, secret)
				o.Publish = publish
				return o
			}
			s.want("held", fmt.Sprint(strings.HasPrefix(s.run(acquire("lock:a", mine)), "!")), "false")
			s.want("not ours", s.run(release("lock:a", theirs)), "0")
			s.want("still there", s.do("EXISTS", "lock:a"), "1")
			s.want("ours", s.run(release("lock:a", mine)), "1")
			s.want("gone", s.do("EXISTS", "lock:a"), "0")
			s.want("twice", s.run(release("lock:a", mine)), "0")
			s.must("DEL", "lock:list", "lock:short")
			s.must("RPUSH", "lock:list", mine)
			s.must("SET", "lock:short", mine[:39])
			s.want("no locks", s.run(release("lock:list", mine), release("lock:short", mine)), "0 0")
			s.want("still there", s.do("EXISTS", "lock:list", "lock:short"), "2")
		}
	})
}

func TestFade(t *testing.T) {
	forEachServer(t, func(s *server) {
		fade := func(secret string) *Op { return lasting(Fade, "lock:a", secret, 20*time.Second) }
		s.want("missing", s.run(fade(mine)), "0")
		s.run(acquire("lock:a", mine))
		s.want("not ours", s.run(fade(theirs)), "0")
		s.expires("lock:a", 50*time.Second)
		s.want("ours", s.run(fade(mine)), "1")
		s.expires("lock:a", 20*time.Second)
		s.must("PEXPIRE", "lock:a", 10000)
		s.want("lives less", s.run(fade(mine)), "1")
		s.expires("lock:a", 10*time.Second)
		s.must("PERSIST", "lock:a")
		s.want("lived for ever", s.run(fade(mine)), "1")
		s.expires("lock:a", 20*time.Second)
	})
}

func TestTopUp(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("absent", s.run(topUp("lock:a", mine, 30*time.Second, 10)), "1")
		s.value("lock:a", mine+"0000000000000010")
		s.counter(10)
		s.expires("lock:a", 30*time.Second)
		s.want("again", s.run(topUp("lock:a", mine, 10*time.Minute, 10)), "2")
		s.expires("lock:a", 10*time.Minute)
		s.want("again, less", s.run(topUp("lock:a", mine, 30*time.Second, 10)), "2")
		s.expires("lock:a", 10*time.Minute)
		s.want("another's", s.run(topUp("lock:a", theirs, 30*time.Second, 50)), "0")
		s.counter(10)
		s.want("lower", s.run(topUp("lock:b", mine, 30*time.Second, 9)), "1")
		s.counter(10)
		s.must("RPUSH", "lock:list", mine)
		s.must("SET", "lock:empty", "")
		s.want("a list", s.run(topUp("lock:list", mine, 30*time.Second, 50)), "0")
		s.want("an empty string", s.run(topUp("lock:empty", mine, 30*time.Second, 50)), "0")
		s.counter(10)
		s.want("counts on", s.run(acquire("lock:c", mine)), "11")
		owned := topUp("lock:n", mine, 30*time.Second, 0)
		owned.Owner = "me"
		s.want("no fencing", s.runAs(&Encoder{StateKey: testState}, "", owned), "1")
		s.value("lock:n", mine+zeros+"me")
		s.must("HSET", testState, "7", "junk")
		if got := s.run(topUp("lock:d", mine, 30*time.Second, 100)); !strings.HasPrefix(got, "!ERR ") {
			t.Errorf("broken counter: %s", got)
		}
		s.value("lock:d", "nil")
	})
}

func TestCheck(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.run(acquire("lock:a", mine))
		s.want("ours", s.run(op(Check, "lock:a", mine)), "1")
		s.want("another's", s.run(op(Check, "lock:a", theirs)), "0")
		s.want("missing", s.run(op(Check, "lock:none", mine)), "0")
		s.must("RPUSH", "lock:list", mine)
		s.want("a list", s.run(op(Check, "lock:list", mine)), "0")
	})
}

func TestExtend(t *testing.T) {
	forEachServer(t, func(s *server) {
		extend := func(key, secret string, ttl time.Duration) string {
			return s.run(lasting(Extend, key, secret, ttl))
		}
		owned := acquire("lock:a", mine)
		owned.Owner = OwnerOf(strings.Repeat("\x00\xff\r\n", 128))
		s.run(owned)
		tail := "0000000000000001" + owned.Owner
		s.want("not ours", extend("lock:a", theirs, 10*time.Minute), "0")
		s.expires("lock:a", 50*time.Second)
		s.want("ours", extend("lock:a", mine, 10*time.Minute), tail)
		s.expires("lock:a", 10*time.Minute)
		s.want("less", extend("lock:a", mine, 50*time.Second), tail)
		s.expires("lock:a", 10*time.Minute)
		s.value("lock:a", mine+"0000000000000001"+owned.Owner)
		s.counter(1)
		s.want("missing", extend("lock:none", mine, 50*time.Second), "0")
		s.want("still missing", s.do("EXISTS", "lock:none"), "0")
		s.must("RPUSH", "lock:list", mine)
		s.want("a list", extend("lock:list", mine, 50*time.Second), "0")
		s.must("PERSIST", "lock:a")
		s.want("lived for ever", extend("lock:a", mine, 50*time.Second), tail)
		s.expires("lock:a", 50*time.Second)
	})
}

func TestInspect(t *testing.T) {
	forEachServer(t, func(s *server) {
		inspect := func(key string) Inspected {
			t.Helper()
			p := s.packet(fenced, "", op(Inspect, key, ""))
			found, ok := ParseInspect(&p.Results[0])
			if !ok {
				t.Fatalf("%s: %s", key, text(&p.Results[0]))
			}
			return found
		}
		if got := inspect("lock:none"); !reflect.DeepEqual(got, Inspected{}) {
			t.Errorf("missing: %+v", got)
		}
		s.run(acquire("lock:a", mine))
		got := inspect("lock:a")
		if left := got.Holders[0].Left; left <= 40*time.Second || left > 50*time.Second {
			t.Errorf("lives for %v", left)
		}
		got.Holders[0].Left = 0
		if want := (Inspected{Count: 1, Holders: []Entry{{ID: mine, Fence: 1}}}); !reflect.DeepEqual(got, want) {
			t.Errorf("held: %+v", got)
		}
		s.must("SET", "lock:long", strings.Repeat("x y", 300))
		if got := inspect("lock:long"); !reflect.DeepEqual(got, Inspected{Count: 1,
			Holders: []Entry{{ID: strings.Repeat("x y", 300)[:640], Left: Forever}}}) {
			t.Errorf("long, for ever: %+v", got)
		}
		s.must("RPUSH", "lock:list", mine)
		if got := inspect("lock:list"); !reflect.DeepEqual(got, Inspected{Mode: Foreign}) {
			t.Errorf("a list: %+v", got)
		}
	})
}

// A refresh raises an end. It lowers only the end that it names, and counts its changes.
func TestRefreshLowersOnlyTheNamedEnd(t *testing.T) {
	s := startRedis(t)
	end := func() (ms int64) {
		ms, _ = strconv.ParseInt(s.do("PEXPIRETIME", "lock:a"), 10, 64)
		return ms
	}
	refresh := func(secret string, ttl time.Duration, named int64) string {
		t.Helper()
		had, o := end(), lasting(Refresh, "lock:a", secret, ttl)
		o.End = named
		p := s.packet(fenced, "", o)
		longer, h, ok := Refreshed(&p.Results[0])
		till := p.Clock.Milliseconds() + ttl.Milliseconds()
		switch {
		case !ok && end() != had:
			t.Errorf("refused, and the end is %d after %d", end(), had)
		case !ok:
			return text(&p.Results[0])
		case h.Fence != 1 || h.Owner != OwnerOf("v"):
			t.Errorf("of %+v", h)
		case longer != 0 && (longer != had || end() != had):
			t.Errorf("says that %d is later, had %d, has %d", longer, had, end())
		case longer != 0:
			return "longer"
		case end() != nextEnd(till, had):
			t.Errorf("ends %d after %d, want %d", end(), had, nextEnd(till, had))
		}
		return "changed"
	}
	adopted := acquire("lock:a", mine)
	adopted.Owner = OwnerOf("v")
	s.want("missing", refresh(mine, time.Minute, 0), "0")
	s.run(adopted)
	s.want("of another", refresh(theirs, time.Hour, 0), "0")
	s.want("longer", refresh(mine, time.Hour, 0), "changed")
	s.want("shorter without an end", refresh(mine, time.Minute, 0), "longer")
	s.want("shorter than another end", refresh(mine, time.Minute, end()-1), "longer")
	s.want("shorter for ever", refresh(mine, time.Minute, -1), "longer")
	had := end()
	s.want("shorter", refresh(mine, time.Minute, had), "changed")
	s.want("once more", refresh(mine, time.Second, had), "longer")
	s.want("longer with an end", refresh(mine, time.Hour, 5), "changed")
	s.must("PERSIST", "lock:a")
	s.want("not for ever", refresh(mine, time.Hour, 0), "longer")
	s.want("no longer for ever", refresh(mine, time.Hour, -1), "changed")
	s.want("not admitted", s.runAs(fenced, "B other", lasting(Refresh, "lock:a", mine, 2*time.Hour)),
		"!NOTADMITTED the record of this master has changed")

	same := lasting(Refresh, "lock:a", mine, 2*time.Hour)
	had = end()
	p := s.packet(fenced, "", same, same)
	till := p.Clock.Milliseconds() + 7200_000
	first := nextEnd(till, had)
	if got, want := end(), max(first, nextEnd(till, first)); got != want { // a second end that is earlier is not named
		t.Errorf("twice at a time: ends %d, want %d", got, want)
	}
}

// TestRefreshOfOthers: only the holder of an exclusive lock can be refreshed.
func TestRefreshOfOthers(t *testing.T) {
	s := startRedis(t)
	s.run(&Op{Kind: Acquire, TokenAt: TokenAt{"lock:s", mine}, TTL: time.Minute, Terms: &Terms{Mode: Shared}})
	s.want("a reader", s.run(lasting(Refresh, "lock:s", mine, time.Hour)), "0")
	s.must("RPUSH", "lock:list", mine)
	s.want("a list", s.run(lasting(Refresh, "lock:list", mine, time.Minute)), "0")
}

func TestFree(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("missing", s.run(op(Free, "lock:a", "")), "0")
		s.run(acquire("lock:a", mine))
		s.must("SET", "lock:foreign", "x")
		s.must("SET", "lock:empty", "")
		s.want("strings", s.run(op(Free, "lock:a", ""), op(Free, "lock:foreign", ""), op(Free, "lock:empty", "")), "1 1 1")
		s.want("gone", s.do("EXISTS", "lock:a", "lock:foreign", "lock:empty"), "0")
		s.must("RPUSH", "lock:list", mine)
		s.want("a list", s.run(op(Free, "lock:list", "")), "0")
		s.want("still there", s.do("EXISTS", "lock:list"), "1")
	})
}
