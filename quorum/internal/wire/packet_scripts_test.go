package wire

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Operations are carried out in the order of the packet.
func TestPacketOrder(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("each sees the one before it", s.run(
			acquire("lock:a", mine), op(Check, "lock:a", mine), op(Release, "lock:a", mine),
			acquire("lock:a", theirs), op(Check, "lock:a", mine), raise("lock:a", theirs, 9), acquire("lock:b", mine),
			topUp("lock:c", mine, 10*time.Second, 20), acquire("lock:d", theirs),
			op(Free, "lock:a", ""), op(Inspect, "lock:a", ""), acquire("lock:a", mine),
		), "1 1 1 2 0 1 10 1 21 1 nil 22")
		s.value("lock:a", mine+"0000000000000022")
		s.value("lock:b", mine+"0000000000000010")
		s.counter(22)
		s.want("nothing", s.run(), "")

		var ops []*Op
		want := ""
		for i := range MaxOps {
			a := acquire(fmt.Sprint("lock:many", i), mine)
			a.Counter = uint16(100 + i)
			ops, want = append(ops, a), want+" 1"
		}
		s.want("as many as fit", s.run(ops...), want[1:])
		if left := s.do("PTTL", "lock:many63"); left == "-1" || left == "-2" {
			t.Errorf("the last lives for %s", left)
		}
	})
}

// A packet does what its operations do one by one.
func TestPacketIsItsOperations(t *testing.T) {
	forEachServer(t, func(s *server) {
		dice := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
		for round := range 15 {
			s.wantPacketIsItsOperations(t, dice, round%5 > 0)
		}
	})
}

// wantPacketIsItsOperations runs random operations as a packet and one by one, and compares.
func (s *server) wantPacketIsItsOperations(t *testing.T, dice *rand.Rand, fencing bool) {
	t.Helper()
	s.must("FLUSHALL")
	one := &Encoder{StateKey: "one", Fencing: fencing}
	all := &Encoder{StateKey: "all", Fencing: one.Fencing}
	for _, prefix := range []string{"one", "all"} {
		s.must("HSET", prefix, "record", "A right", "1", "999999999999990", "2", "junk")
		s.must("RPUSH", prefix+":list", "x")
		s.must("SET", prefix+":other", "x")
	}
	record := []string{"", "A right", "A right", "A wrong"}[dice.IntN(4)]
	var packet Batch
	asked := map[TokenAt]bool{}
	for range 1 + dice.IntN(MaxOps) {
		o := randomOp(dice)
		if o.Kind == Acquire && asked[o.TokenAt] {
			o.Kind = Check // a token is asked for once
		}
		if !packet.Add(o) {
			break
		}
		asked[o.TokenAt] = true
	}
	var want []string
	ops := packet.arrange()
	for i, o := range ops[:packet.n] {
		want = append(want, plainTimes(s.runAs(one, record, o.under("one"))))
		ops[i] = o.under("all")
	}
	for i := range packet.n {
		packet.ops[i] = ops[packet.Place(i)]
	}
	for i, r := range s.onePacket(all, record, &packet).Results {
		if got := plainTimes(text(&r)); got != want[i] {
			t.Errorf("%+v under record %q: %s, alone %s", *ops[i], record, got, want[i])
		}
	}
	if a, b := s.dump("all"), s.dump("one"); a != b {
		t.Fatalf("the packet left\n%s\nits operations\n%s", a, b)
	}
}

// randomOp is any operation on few keys, with few secrets and counters.
func randomOp(dice *rand.Rand) *Op {
	o := &Op{
		Kind: OpKind(dice.IntN(int(Free) + 1)),
		TokenAt: TokenAt{[]string{":a", ":b", ":c", ":d", ":list", ":other"}[dice.IntN(6)],
			[]string{mine, theirs}[dice.IntN(2)]},
		Counter: uint16(dice.IntN(8)),
		Fence:   uint64(dice.IntN(40)),
		TTL:     time.Duration(1+dice.IntN(5)) * time.Minute,
		Owner:   []string{"", "me"}[dice.IntN(2)],
		Publish: dice.IntN(2) == 0,
	}
	if o.Kind == Release && dice.IntN(3) > 0 {
		o.TTL = 0
	}
	if t := randomTerms(dice); dice.IntN(2) == 0 && (t.More == nil || o.Kind == Acquire || o.Kind == Raise) {
		o.Terms = t
	}
	return o
}

// randomTerms are any for a lock that is not plain.
func randomTerms(dice *rand.Rand) *Terms {
	t := &Terms{Mode: Mode(dice.IntN(3)), Limit: 1 + dice.IntN(3), Slot: dice.IntN(3),
		Waits: time.Duration(dice.IntN(2)) * time.Minute}
	t.Try = [2]int{dice.IntN(t.Limit), dice.IntN(t.Limit)}
	if t.Mode == Exclusive && dice.IntN(2) == 0 {
		t.More, t.Counters = []string{":d", ":e"}, []uint16{uint16(dice.IntN(8)), uint16(dice.IntN(8))}
	}
	return t
}

// under is the operation with a prefix in front of its keys.
func (o *Op) under(prefix string) *Op {
	p := *o
	p.Key = prefix + o.Key
	if o.Terms != nil {
		t := *o.Terms
		t.More = nil
		for _, key := range o.Terms.More {
			t.More = append(t.More, prefix+key)
		}
		p.Terms = &t
	}
	return &p
}

// plainTimes is a result without the times in it, which pass.
func plainTimes(result string) string {
	result = regexp.MustCompile(`-\d\d+`).ReplaceAllString(result, "-time")
	result = regexp.MustCompile(` \d\d\d\d+\b`).ReplaceAllString(result, " time")
	if strings.HasPrefix(result, "[shared") { // who ends at one time comes in any order
		words := strings.Fields(result)
		slices.Sort(words)
		return strings.Join(words, " ")
	}
	return regexp.MustCompile(`^\d+ `).ReplaceAllString(result, "time ")
}

// dump returns all keys with a prefix and their values, times in minutes.
func (s *server) dump(prefix string) string {
	s.t.Helper()
	var b strings.Builder
	for _, key := range []string{":a", ":b", ":c", ":d", ":e", ":other"} {
		left := s.do("PTTL", prefix+key)
		var ms float64
		fmt.Sscan(left, &ms)
		fmt.Fprintf(&b, "%s %s %.0f\n", key, s.holds(prefix+key), ms/60000)
	}
	for i := range 8 {
		fmt.Fprintf(&b, "%d %s\n", i, s.do("HGET", prefix, i))
	}
	return b.String()
}

// holds returns the value of a key, without ends of ttls.
func (s *server) holds(key string) string {
	all := ""
	switch s.do("TYPE", key) {
	case "zset":
		all = s.do("ZRANGE", key, 0, -1)
	case "hash":
		all = s.do("HGETALL", key)
	default:
		return s.do("GET", key)
	}
	words := strings.Fields(strings.Trim(regexp.MustCompile(`\b\d{13}\b`).ReplaceAllString(all, ""), "[]"))
	slices.Sort(words)
	return strings.Join(words, " ")
}

// Under another record only operations that undo something are carried out.
func TestRecordDiffers(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.must("HSET", testState, "record", "A right", "7", "5")
		held := acquire("lock:a", mine)
		s.want("under the record", s.runAs(fenced, "A right", held), "6")
		for _, wrong := range []string{"A wrong", "A righ", "A right ", "a right"} {
			got := s.runAs(fenced, wrong, acquire("lock:b", mine), raise("lock:a", mine, 100),
				topUp("lock:c", mine, 10*time.Minute, 100),
				lasting(Extend, "lock:a", mine, time.Hour), op(Check, "lock:a", mine), op(Inspect, "lock:a", ""))
			if want := strings.Repeat(" !"+CodeNotAdmitted+" the record of this master has changed", 6)[1:]; got != want {
				t.Errorf("under %q: %s", wrong, got)
			}
			p := s.packet(fenced, wrong, lasting(Fade, "lock:a", theirs, 10*time.Second))
			if p.Admitted {
				t.Errorf("admitted under %q", wrong)
			}
			s.value("lock:a", mine+"0000000000000006")
			s.expires("lock:a", 50*time.Second)
			s.want("nothing else", s.do("EXISTS", "lock:b", "lock:c"), "0")
			s.counter(6)
		}
		publish := op(Release, "lock:d", mine)
		publish.Publish = true
		s.run(acquire("lock:c", mine), acquire("lock:d", mine), acquire("lock:e", mine))
		s.want("what undoes", s.runAs(fenced, "A wrong", lasting(Fade, "lock:a", mine, 10*time.Second),
			op(Release, "lock:c", mine), publish, op(Free, "lock:e", "")), "1 1 1 1")
		s.expires("lock:a", 10*time.Second)
		s.must("HDEL", testState, "record")
		if p := s.packet(fenced, "A right", acquire("lock:f", mine)); p.Admitted || p.Results[0].Code() != CodeNotAdmitted {
			t.Errorf("without a record: %s", text(&p.Results[0]))
		}
	})
}

// If the state key is no hash, the master does not vote, but operations that undo something work.
func TestStateIsNoHash(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.run(acquire("lock:a", mine), acquire("lock:b", mine))
		s.must("SET", testState, "x")
		if p := s.packet(fenced, "A right", acquire("lock:c", mine), op(Release, "lock:a", mine)); p.Admitted ||
			p.Results[0].Code() != CodeNotAdmitted || !p.Results[1].Is(1) {
			t.Errorf("%v %s %s", p.Admitted, text(&p.Results[0]), text(&p.Results[1]))
		}
		p := s.packet(fenced, "", acquire("lock:c", mine), topUp("lock:c", mine, 10*time.Second, 9),
			raise("lock:b", mine, 9),
			op(Release, "lock:b", mine), op(Check, "lock:b", mine))
		for i, want := range []string{"WRONGTYPE", "WRONGTYPE", "WRONGTYPE", "", ""} {
			if got := p.Results[i].Code(); got != want {
				t.Errorf("operation %d: %q, want %q", i, got, want)
			}
		}
		s.want("no key", s.do("EXISTS", "lock:c"), "0")
	})
}

// A master that refuses writes says so for each operation, and carries out the others.
func TestWritesRefused(t *testing.T) {
	full := func(s *server) { s.must("CONFIG", "SET", "maxmemory", "1") }
	for name, c := range map[string]struct {
		code   string
		args   []string
		refuse func(s *server)
		writes bool // it still deletes
	}{
		"full":     {"OOM", nil, full, true},
		"replica":  {"READONLY", nil, func(s *server) { s.must("REPLICAOF", "127.0.0.1", "1") }, false},
		"replicas": {"NOREPLICAS", nil, func(s *server) { s.must("CONFIG", "SET", "min-replicas-to-write", "1") }, false},
		"disk":     {"MISCONF", []string{"--save", "3600 1"}, breakDisk, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := startRedis(t, c.args...)
			s.want("before", s.run(acquire("lock:a", mine), acquire("lock:b", mine)), "1 2")
			c.refuse(s)
			// Reads, and writes that are refused, in one packet: no write before it that would
			// lift OOM.
			p := s.packet(fenced, "", acquire("lock:c", mine), op(Check, "lock:a", mine),
				topUp("lock:c", mine, 10*time.Minute, 50),
				acquire("lock:a", theirs), raise("lock:a", mine, 60), op(Check, "lock:a", theirs), op(Inspect, "lock:c", ""))
			for i, want := range []string{c.code, "", c.code, "", c.code, "", ""} {
				if got := p.Results[i].Code(); got != want {
					t.Errorf("operation %d: %s, want code %q", i, text(&p.Results[i]), want)
				}
			}
			if left, ok := Refused(&p.Results[3]); !ok || left <= 0 {
				t.Errorf("held: %s", text(&p.Results[3]))
			}
			p = s.packet(fenced, "", lasting(Extend, "lock:a", mine, 10*time.Minute),
				lasting(Fade, "lock:b", mine, 10*time.Second),
				op(Release, "lock:b", mine))
			for i := range p.Results {
				if failed := p.Results[i].Code() == c.code; failed == c.writes {
					t.Errorf("operation %d: %s", i, text(&p.Results[i]))
				}
			}
			s.counter(2)
			s.want("no key", s.do("EXISTS", "lock:c"), "0")
		})
	}
}

// breakDisk makes a snapshot fail, after which Redis takes no writes.
func breakDisk(s *server) {
	s.t.Helper()
	dir := strings.Fields(strings.Trim(s.must("CONFIG", "GET", "dir"), "[]"))[1]
	if err := os.RemoveAll(dir); err != nil {
		s.t.Fatal(err)
	}
	s.must("BGSAVE")
	for range 1000 {
		if strings.Contains(s.must("INFO", "persistence"), "rdb_last_bgsave_status:err") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatal("the snapshot does not fail")
}

// A user without one of the rights: the error says so, for any command.
func TestRightsMissing(t *testing.T) {
	s := startRedis(t)
	for _, c := range []struct {
		command string
		ops     []*Op
		want    string // codes
	}{
		{"set", []*Op{acquire("lock:c", mine), topUp("lock:c", mine, 10*time.Minute, 9), op(Check, "lock:a", mine)},
			"! ! 1"},
		{"pttl", []*Op{acquire("lock:a", theirs), lasting(Extend, "lock:a", mine, 10*time.Minute),
			lasting(Fade, "lock:a", mine, 10*time.Second),
			topUp("lock:a", mine, 10*time.Minute, 9), op(Inspect, "lock:a", ""), lasting(Share, "lock:a", mine, time.Minute),
			op(Check, "lock:a", mine)}, "! ! ! ! ! ! 1"},
		{"getrange", []*Op{op(Check, "lock:a", theirs), op(Release, "lock:none", mine), raise("lock:a", mine, 1),
			lasting(Extend, "lock:a", mine, 10*time.Minute),
			lasting(Fade, "lock:a", theirs, 10*time.Second), topUp("lock:a", mine, 10*time.Minute, 9),
			op(Inspect, "lock:a", ""), op(Free, "lock:a", ""),
			acquire("lock:c", mine), likely("lock:a", mine, Shared), likely("lock:a", mine, Limited)}, "! 0 ! ! ! ! ! ! 2 ! !"},
		{"zadd", []*Op{shared("lock:c", mine, time.Minute), limited("lock:c", mine, 2, 0), acquire("lock:c", mine)},
			"! ! 2"},
		{"type", []*Op{shared("lock:a", theirs, time.Minute), limited("lock:a", theirs, 2, 0), acquire("lock:c", mine)},
			"! ! 2"},
		{"pexpireat", []*Op{shared("lock:c", mine, time.Minute), limited("lock:c", mine, 2, 0), acquire("lock:c", mine)},
			"! ! 2"},
		{"hmget", []*Op{acquire("lock:c", mine), raise("lock:a", mine, 9), topUp("lock:c", mine, 10*time.Minute, 9),
			op(Check, "lock:a", mine)},
			"! ! ! 1"},
		{"hset", []*Op{acquire("lock:c", mine), op(Check, "lock:a", mine), raise("lock:a", mine, 9),
			topUp("lock:d", mine, 10*time.Minute, 9),
			acquire("lock:a", theirs), acquire("lock:e", mine)}, "! 1 ! ! - !"},
		{"setrange", []*Op{raise("lock:a", mine, 9)}, "!"},
		{"pexpire", []*Op{lasting(Extend, "lock:a", mine, time.Hour), lasting(Fade, "lock:a", mine, 10*time.Second)}, "! !"},
		{"del", []*Op{op(Release, "lock:a", mine), op(Free, "lock:a", ""), op(Check, "lock:a", mine)}, "! ! 1"},
		{"pubsub|numsub", []*Op{op(Free, "lock:a", ""), acquire("lock:a", mine)}, "1 2"},
		{"publish", []*Op{op(Free, "lock:a", ""), acquire("lock:a", mine)}, "1 2"},
	} {
		t.Run(c.command, func(t *testing.T) {
			s.must("FLUSHALL")
			s.want("held", s.run(acquire("lock:a", mine)), "1")
			s.must("ACL", "SETUSER", "less", "reset", "on", ">pw", "+@all", "~*", "-"+c.command)
			less := s.another()
			less.t = t
			less.must("AUTH", "less", "pw")
			var got []string
			for _, r := range less.packet(fenced, "", c.ops...).Results {
				switch {
				case r.IsError():
					got = append(got, "!")
				case r.Int < 0:
					got = append(got, "-")
				default:
					got = append(got, text(&r))
				}
			}
			s.want("results", strings.Join(got, " "), c.want)
		})
	}
}

// A release with any token does not make a master read the whole value.
func TestReleaseReadsLittle(t *testing.T) {
	s := startRedis(t)
	s.must("SET", "lock:big", strings.Repeat("x", 1<<20))
	s.must("CONFIG", "RESETSTAT")
	for _, release := range []*Op{op(Release, "lock:big", mine), likely("lock:big", mine, Exclusive),
		likely("lock:big", mine, Shared),
		likely("lock:big", mine, Limited), keep("lock:big", mine, time.Second)} {
		s.want("release", s.run(release), "0")
	}
	for _, reads := range []string{"cmdstat_mget:", "cmdstat_get:"} {
		if strings.Contains(s.must("INFO", "commandstats"), reads) {
			t.Errorf("all was read: %s", reads)
		}
	}
}

// Without the script no operation runs.
func TestNoScript(t *testing.T) {
	forEachServer(t, func(s *server) {
		ops := []*Op{acquire("lock:a", mine), op(Check, "lock:a", mine)}
		ask := func(body bool) *Reply {
			var r Reply
			s.send(fenced.AppendPacket(nil, batch(t, ops...), "", body))
			s.receive(&r)
			return &r
		}
		r := ask(false)
		if _, ok := ParsePacket(r, len(ops)); ok || r.Code() != "NOSCRIPT" {
			t.Errorf("without the script: %s", text(r))
		}
		s.value("lock:a", "nil")
		if _, ok := ParsePacket(ask(true), len(ops)); !ok {
			t.Error("with the body: no packet")
		}
		if _, ok := ParsePacket(ask(false), len(ops)); !ok {
			t.Error("with the script loaded: no packet")
		}
	})
}

// A packet that is refused leaves an empty master empty: only a blank one is a new one.
func TestRefusedPacketLeavesNoState(t *testing.T) {
	forEachServer(t, func(s *server) {
		p := s.packet(fenced, "A right", acquire("lock:a", mine), shared("lock:b", mine, time.Minute),
			raise("lock:c", mine, 9))
		if p.Admitted {
			t.Error("admitted")
		}
		s.want("keys", s.do("EXISTS", testState, "lock:a", "lock:b"), "0")
	})
}
