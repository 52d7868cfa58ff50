package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// call runs a script on the state hash and returns its reply as text.
func (s *server) call(script *Script, args ...string) string {
	s.t.Helper()
	var r Reply
	s.send(script.Eval(testState, args...))
	s.receive(&r)
	return text(&r)
}

// probe checks what Probe says, but for the clock.
func (s *server) probe(what string, want ProbeReply) {
	s.t.Helper()
	var r Reply
	s.send(Probe.Eval(testState))
	s.receive(&r)
	p, ok := ParseProbe(&r)
	if !ok || p.Clock == 0 {
		s.t.Fatalf("%s: the probe says %s", what, text(&r))
	}
	if p.Clock = 0; p != want {
		s.t.Errorf("%s: %+v, want %+v", what, p, want)
	}
}

func TestAdmit(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.probe("nothing", ProbeReply{})
		s.want("another expected", s.call(&Admit, "A x", "", "A y", "-", "-", "-", "1", ""), "0")
		s.want("first", s.call(&Admit, "", "1", "N x", "-", "-", "-", "1", ""), "1")
		s.probe("first", ProbeReply{Fields: 1, Record: "N x"})
		s.want("none expected", s.call(&Admit, "", "", "N y", "-", "-", "-", "1", ""), "0")
		s.want("empty expected", s.call(&Admit, "N x", "1", "N y", "-", "-", "-", "1", ""), "0")
		s.probe("still", ProbeReply{Fields: 1, Record: "N x"})

		s.must("HSET", testState, "7", "3671294823219201", "8", "9")
		s.want("admitted", s.call(&Admit, "N x", "", "A y", "s=1", "f 1-0-x 0", "run", "100", ""), "1")
		s.probe("admitted", ProbeReply{Fields: 7, Record: "A y", Settings: "s=1", Known: "f 1-0-x 0", Durable: "run",
			Writes: 100})
		s.want("fields kept", s.call(&Admit, "A y", "", "A z", "-", "-", "-", "200", ""), "1")
		s.probe("fields kept", ProbeReply{Fields: 7, Record: "A z", Settings: "s=1", Known: "f 1-0-x 0", Durable: "run",
			Writes: 100})
		s.want("no longer durable", s.call(&Admit, "A z", "", "A v", "-", "", "", "300", ""), "1")
		s.probe("no longer durable", ProbeReply{Fields: 5, Record: "A v", Settings: "s=1", Writes: 100})
		s.want("durable again", s.call(&Admit, "A v", "", "A u", "-", "-", "run2", "400", ""), "1")
		s.probe("durable again", ProbeReply{Fields: 6, Record: "A u", Settings: "s=1", Durable: "run2", Writes: 100})

		s.want("floor", s.call(&Admit, "A u", "", "A w", "-", "f 1-0-x 2-0-y", "-", "1", "3671294823219200"), "1")
		s.probe("floor", ProbeReply{Fields: 4101, Record: "A w", Settings: "s=1", Known: "f 1-0-x 2-0-y", Durable: "run2",
			Writes: 100})
		for field, want := range map[string]string{
			"4095": "3671294823219200", "0": "3671294823219200", "7": "3671294823219201", "8": "3671294823219200",
		} {
			s.want("counter "+field, s.do("HGET", testState, field), want)
		}
		s.must("DEL", testState)
		s.must("SET", testState, "x")
		if got := s.call(&Admit, "", "", "A y", "-", "-", "-", "1", ""); got[0] != '!' {
			t.Errorf("no hash: %s", got)
		}
	})
}

// Known takes the later admission of each master, and of one admission the larger count of writes.
func TestKnown(t *testing.T) {
	for _, c := range []struct{ name, have, merge, want string }{
		{"nothing there", "", "f 1-0-a 0", "f 1-0-a 0"},
		{"nothing to merge", "f 1-0-a 0", "", "f 1-0-a 0"},
		{"higher", "f 1-0-a 5-0-b", "f 2-0-c 4-0-d", "f 2-0-c 5-0-b"},
		{"10 is more than 9", "f 9-0-a 10-0-b", "f 10-0-c 9-0-d", "f 10-0-c 10-0-b"},
		{"large", "f 9007199254740990-0-a", "f 9007199254740991-0-b", "f 9007199254740991-0-b"},
		{"equal", "f 3-7-a", "f 3-9-b", "f 3-7-a"},
		{"more writes", "f 3-7-a", "f 3-9-a", "f 3-9-a"},
		{"10 writes are more than 9", "f 3-9-a 3-10-b", "f 3-10-a 3-9-b", "f 3-10-a 3-10-b"},
		{"more writes of an earlier one", "f 3-7-a", "f 2-9-a", "f 3-7-a"},
		{"an older proxy's", "f 0 0123456789abcdef 1-0-b", "f 0123456789abcdef 1-0-a fedcba9876543210",
			"f 0123456789abcdef 1-0-a 1-0-b"},
		{"two of older proxies", "f 0123456789abcdef", "f 9999999999999999", "f 0123456789abcdef"},
		{"other settings", "f 9-0-a 9-0-b", "g 1-0-a 0", "g 1-0-a 0"},
		{"another number of masters", "f 9-0-a 9-0-b 9-0-c", "f 1-0-a 0", "f 1-0-a 0"},
		{"junk", "x", "f 1-0-a 0", "f 1-0-a 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachServer(t, func(s *server) {
				s.must("HSET", testState, "record", "A x")
				if c.have != "" {
					s.must("HSET", testState, "known", c.have)
				}
				s.want("reply", s.call(&Learn, c.merge, "A x", ""), "["+c.want+" nil]")
				s.want("known", s.do("HGET", testState, "known"), c.want)
				s.want("again", s.call(&Learn, c.merge, "A x", ""), "["+c.want+" nil]")
			})
		})
	}
}

// A master that has lost its record does not learn. A counter that no clock explains does not
// count.
func TestLearn(t *testing.T) {
	forEachServer(t, func(s *server) {
		other := "!" + CodeNotAdmitted + " the record of this master has changed"
		s.want("nothing there", s.call(&Learn, "f 1-0-a", "A x", "1"), other)
		s.want("no trace of it", s.do("EXISTS", testState), "0")
		s.must("HSET", testState, "record", "A x", "settings", "s=1", "7", "12", "8", "9", "12x", "99")
		s.want("top", s.call(&Learn, "f 1-0-a", "A x", "1"), "[f 1-0-a 12]")
		s.want("another record", s.call(&Learn, "f 2-0-b", "A y", "1"), other)
		s.want("known", s.do("HGET", testState, "known"), "f 1-0-a")
		s.must("HSET", testState, "9", "9007199254740990", "10", "junk")
		s.want("far ahead of the clock", s.call(&Learn, "f 1-0-a", "A x", "1"), "[f 1-0-a 12]")
		now := uint64(time.Now().UnixMilli()) << 11
		for i := range Counters {
			s.must("HSET", testState, i, now+uint64(i))
		}
		s.want("all", s.call(&Learn, "f 1-0-a", "A x", "1"), fmt.Sprintf("[f 1-0-a %d]", now+Counters-1))
	})
}

// A master that refuses writes still reports its largest counter.
func TestLearnOfFullMaster(t *testing.T) {
	s := startRedis(t)
	s.must("HSET", testState, "record", "A x", "7", "12", "known", "f 1-0-a")
	s.must("CONFIG", "SET", "maxmemory", "1")
	if got := s.call(&Learn, "f 2-0-a", "A x", "1"); !strings.HasPrefix(got, "[!OOM ") ||
		!strings.HasSuffix(got, " 12]") {
		t.Error(got)
	}
	s.want("nothing new", s.call(&Learn, "f 1-0-a", "A x", "1"), "[f 1-0-a 12]")
	if got := s.call(&Admit, "A x", "", "A y", "-", "f 2-0-a", "-", "1", ""); !strings.HasPrefix(got, "!OOM ") {
		t.Error(got)
	}
	s.want("record", s.do("HGET", testState, "record"), "A x")
}

// A durable master counts its packets, but not those of releases that come before it votes. One
// that cannot count does not grant.
func TestPacketsCounted(t *testing.T) {
	s := startRedis(t)
	s.must("HSET", testState, "record", "A x")
	if p := s.packet(fenced, "A x", acquire("lock:a", mine)); p.Writes != 0 {
		t.Errorf("not durable: %d writes", p.Writes)
	}
	s.must("HSET", testState, "writes", "1700000000000")
	for i, o := range []*Op{acquire("lock:b", mine), op(Release, "lock:b", mine), op(Check, "lock:b", mine)} {
		if p := s.packet(fenced, "A x", o); p.Writes != 1700000000001+uint64(i) || !p.Admitted {
			t.Errorf("packet %d: %d writes, admitted %v", i, p.Writes, p.Admitted)
		}
	}
	for _, record := range []string{"", "A other"} {
		if p := s.packet(fenced, record, op(Release, "lock:c", mine)); p.Writes != 0 || p.Admitted != (record == "") {
			t.Errorf("under %q: %d writes, admitted %v", record, p.Writes, p.Admitted)
		}
	}
	s.want("counted", s.do("HGET", testState, "writes"), "1700000000003")
	s.must("CONFIG", "SET", "maxmemory", "1")
	p := s.packet(fenced, "A x", lasting(Extend, "lock:a", mine, time.Minute), op(Release, "lock:a", mine))
	if p.Results[0].Code() != "OOM" || !p.Results[1].Is(1) {
		t.Errorf("full: %s, %s", text(&p.Results[0]), text(&p.Results[1]))
	}
}
