package wire

import (
	"fmt"
	"strings"
	"testing"
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
		s.want("another expected", s.call(&Admit, "A x", "", "A y", "-", "-", "-", "", ""), "0")
		s.want("first", s.call(&Admit, "", "1", "N x", "-", "-", "-", "", ""), "1")
		s.probe("first", ProbeReply{Fields: 1, Record: "N x"})
		s.want("none expected", s.call(&Admit, "", "", "N y", "-", "-", "-", "", ""), "0")
		s.want("empty expected", s.call(&Admit, "N x", "1", "N y", "-", "-", "-", "", ""), "0")
		s.probe("still", ProbeReply{Fields: 1, Record: "N x"})

		s.must("HSET", testState, "7", "9007199254740991", "8", "9", "9", "5")
		s.want("counters", s.call(&Admit, "N x", "", "A y", "s=1", "f 1-0-x 0", "run", "", "8 10 9 4 10 1"), "1")
		s.probe("admitted", ProbeReply{Fields: 8, Record: "A y", Settings: "s=1", Known: "f 1-0-x 0", Durable: "run"})
		for field, want := range map[string]string{"7": "9007199254740991", "8": "10", "9": "5", "10": "1"} {
			s.want("counter "+field, s.do("HGET", testState, field), want)
		}
		s.want("fields kept", s.call(&Admit, "A y", "", "A z", "-", "-", "-", "", ""), "1")
		s.probe("fields kept", ProbeReply{Fields: 8, Record: "A z", Settings: "s=1", Known: "f 1-0-x 0", Durable: "run"})
		s.want("fields deleted", s.call(&Admit, "A z", "", "A v", "", "", "", "", ""), "1")
		s.probe("fields deleted", ProbeReply{Fields: 6, Record: "A v", Known: "f 1-0-x 0"})

		s.want("floor", s.call(&Admit, "A v", "", "A w", "-", "f 1-0-x 2-0-y", "-", "3671294823219200", "3 3671294823219300"), "1")
		s.probe("floor", ProbeReply{Fields: 4098, Record: "A w", Known: "f 1-0-x 2-0-y"})
		for field, want := range map[string]string{
			"4095": "3671294823219200", "0": "3671294823219200", "7": "9007199254740991", "8": "3671294823219200", "3": "3671294823219300",
		} {
			s.want("counter "+field, s.do("HGET", testState, field), want)
		}
		s.must("DEL", testState)
		s.must("SET", testState, "x")
		if got := s.call(&Admit, "", "", "A y", "-", "-", "-", "", ""); got[0] != '!' {
			t.Errorf("no hash: %s", got)
		}
	})
}

// Known takes the higher admission of each master. One that is not known has none.
func TestKnown(t *testing.T) {
	for _, c := range []struct{ name, have, merge, want string }{
		{"nothing there", "", "f 1-0-a 0", "f 1-0-a 0"},
		{"nothing to merge", "f 1-0-a 0", "", "f 1-0-a 0"},
		{"higher", "f 1-0-a 5-0-b", "f 2-0-c 4-0-d", "f 2-0-c 5-0-b"},
		{"10 is more than 9", "f 9-0-a 10-0-b", "f 10-0-c 9-0-d", "f 10-0-c 10-0-b"},
		{"large", "f 9007199254740990-0-a", "f 9007199254740991-0-b", "f 9007199254740991-0-b"},
		{"equal", "f 3-7-a", "f 3-9-b", "f 3-7-a"},
		{"an older proxy's", "f 0 0123456789abcdef 1-0-b", "f 0123456789abcdef 1-0-a fedcba9876543210", "f 0123456789abcdef 1-0-a 1-0-b"},
		{"two of older proxies", "f 0123456789abcdef", "f 9999999999999999", "f 0123456789abcdef"},
		{"other settings", "f 9-0-a 9-0-b", "g 1-0-a 0", "g 1-0-a 0"},
		{"another number of masters", "f 9-0-a 9-0-b 9-0-c", "f 1-0-a 0", "f 1-0-a 0"},
		{"junk", "x", "f 1-0-a 0", "f 1-0-a 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachServer(t, func(s *server) {
				if c.have != "" {
					s.must("HSET", testState, "known", c.have)
				}
				s.want("reply", s.call(&Counters, c.merge, ""), "["+c.want+" nil]")
				s.want("known", s.do("HGET", testState, "known"), c.want)
				s.want("again", s.call(&Counters, c.merge, ""), "["+c.want+" nil]")
			})
		})
	}
}

func TestCounters(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.want("nothing", s.call(&Counters, "", ""), "[ nil]")
		s.want("no trace of it", s.do("EXISTS", testState), "0")
		s.must("HSET", testState, "record", "A x", "settings", "s=1", "7", "12", "12x", "1")
		s.want("counters", s.call(&Counters, "f 1-0-a", "A x"), "[f 1-0-a 7 12]")
		s.want("another record", s.call(&Counters, "f 2-0-b", "A y"), "[f 2-0-b !"+CodeNotAdmitted+" the record of this master has changed]")
		s.want("none", s.call(&Counters, "-", ""), "[f 2-0-b nil]")

		all := map[string]string{}
		for i := range Slots {
			all[fmt.Sprint(i)] = fmt.Sprint(3671294823219200 + i)
			s.must("HSET", testState, i, 3671294823219200+i)
		}
		var r Reply
		s.send(Counters.Eval(testState, "", "A x"))
		s.receive(&r)
		if len(r.Elems) != 2 || r.Elems[0].IsError() || r.Elems[1].IsError() || r.Elems[1].Null {
			t.Fatal(text(&r))
		}
		words := strings.Fields(r.Elems[1].Text)
		if len(words) != 2*Slots {
			t.Fatalf("%d words", len(words))
		}
		for i := 0; i < len(words); i += 2 {
			if all[words[i]] != words[i+1] {
				t.Fatalf("counter %s is %s", words[i], words[i+1])
			}
		}
		s.want("copied", s.call(&Admit, "A x", "", "A y", "-", "-", "-", "", r.Elems[1].Text), "1")
	})
}

// A master that cannot be written still tells its counters.
func TestCountersOfFullMaster(t *testing.T) {
	s := startRedis(t)
	s.must("HSET", testState, "record", "A x", "7", "12", "known", "f 1-0-a")
	s.must("CONFIG", "SET", "maxmemory", "1")
	if got := s.call(&Counters, "f 2-0-a", "A x"); !strings.HasPrefix(got, "[!OOM ") || !strings.HasSuffix(got, " 7 12]") {
		t.Error(got)
	}
	s.want("nothing new", s.call(&Counters, "f 1-0-a", "A x"), "[f 1-0-a 7 12]")
	if got := s.call(&Admit, "A x", "", "A y", "-", "f 2-0-a", "-", "", ""); !strings.HasPrefix(got, "!OOM ") {
		t.Error(got)
	}
	s.want("record", s.do("HGET", testState, "record"), "A x")
}
