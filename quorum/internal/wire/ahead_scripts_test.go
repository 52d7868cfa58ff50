package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const aheadText = "!ERR a fencing counter is more than a day ahead of the clock"

// several is an operation on a key and two others, whose counters are 8 and 9.
func several(o *Op, keys ...string) *Op {
	o.Terms = &Terms{More: keys, Counters: []uint16{8, 9}}
	return o
}

// as is an operation on a reader, or on a slot.
func as(o *Op, mode Mode, slot int) *Op {
	o.Terms = &Terms{Mode: mode, Slot: slot}
	return o
}

func shareOf(key, secret string) *Op {
	o := lasting(Share, key, secret, time.Minute)
	o.Counter = 7
	return o
}

// A counter that is more than a day ahead of the clock is an error of each operation that uses it.
// The operation does not set its key.
func TestCounterAhead(t *testing.T) {
	forEachServer(t, func(s *server) {
		for _, bad := range []string{"9007199254740990", "9007199254740991",
			fmt.Sprint(FenceLimit(time.Now().Add(time.Hour)))} {
			s.must("FLUSHALL")
			s.run(acquire("lock:mine", mine), shared("lock:readers", mine, 50*time.Second), limited("lock:slots", mine, 3, 0))
			s.run(several(acquire("lock:x", mine), "lock:y", "lock:z"))
			s.must("HSET", testState, "7", bad)
			for name, o := range map[string]*Op{
				"acquire":            acquire("lock:a", mine),
				"acquire, waiting":   waiting(acquire("lock:a", mine)),
				"shared":             shared("lock:a", mine, time.Minute),
				"shared, joins":      shared("lock:readers", theirs, time.Minute),
				"slot":               limited("lock:a", mine, 3, 0),
				"slot, another":      limited("lock:slots", theirs, 3, 1),
				"several":            several(acquire("lock:a", mine), "lock:b", "lock:c"),
				"raise":              raise("lock:mine", mine, 100),
				"raise of a reader":  raise("lock:readers", mine, 100),
				"raise of a slot":    raise("lock:slots", mine, 100),
				"raise of several":   several(raise("lock:x", mine, 100), "lock:y", "lock:z"),
				"top up":             topUp("lock:a", mine, time.Minute, 100),
				"top up of a reader": as(topUp("lock:a", mine, time.Minute, 100), Shared, 0),
				"top up of a slot":   as(topUp("lock:a", mine, time.Minute, 100), Limited, 2),
				"share":              shareOf("lock:mine", mine),
			} {
				before := s.everything()
				s.want(name+" at "+bad, s.run(o), aheadText)
				if after := s.everything(); after != before {
					t.Errorf("%s at %s left\n%s\nof\n%s", name, bad, after, before)
				}
			}
			// The rest of the packet and operations without a counter succeed.
			other := acquire("lock:other", mine)
			other.Counter = 8
			s.want("another counter", s.run(acquire("lock:a", mine), other, acquire("lock:b", mine)), aheadText+" 5 "+aheadText)
			s.want("extend, check, release", s.run(lasting(Extend, "lock:mine", mine, time.Minute),
				op(Check, "lock:readers", mine),
				op(Release, "lock:mine", mine)), "0000000000000001 1 1")
			s.want("no fencing", s.runAs(&Encoder{StateKey: testState}, "", acquire("lock:n", mine)), "0")
			s.counter(bad)
		}
	})
}

// No operation raises a counter or a lock to a fence that is more than a day ahead of the clock.
func TestFenceAhead(t *testing.T) {
	forEachServer(t, func(s *server) {
		for _, bad := range []uint64{1<<53 - 1, FenceLimit(time.Now().Add(time.Hour))} {
			s.must("FLUSHALL")
			s.run(acquire("lock:mine", mine), shared("lock:readers", mine, 50*time.Second), limited("lock:slots", mine, 3, 0))
			s.run(several(acquire("lock:x", mine), "lock:y", "lock:z"))
			s.must("SET", "lock:bad", mine+fmt.Sprint(bad), "PX", "50000")
			for name, o := range map[string]*Op{
				"raise":              raise("lock:mine", mine, bad),
				"raise of a reader":  raise("lock:readers", mine, bad),
				"raise of a slot":    raise("lock:slots", mine, bad),
				"raise of several":   several(raise("lock:x", mine, bad), "lock:y", "lock:z"),
				"raise of none":      raise("lock:a", mine, bad),
				"top up":             topUp("lock:a", mine, time.Minute, bad),
				"top up of a reader": as(topUp("lock:a", mine, time.Minute, bad), Shared, 0),
				"top up of a slot":   as(topUp("lock:a", mine, time.Minute, bad), Limited, 2),
				"top up beside it":   as(topUp("lock:readers", theirs, time.Minute, bad), Shared, 0),
				"top up, shares":     as(topUp("lock:bad", mine, time.Minute, 100), Shared, 0),
				"share":              shareOf("lock:bad", mine),
			} {
				before := s.everything()
				s.want(fmt.Sprint(name, " to ", bad), s.run(o), aheadText)
				if after := s.everything(); after != before {
					t.Errorf("%s to %d left\n%s\nof\n%s", name, bad, after, before)
				}
			}
			s.want("the rest of the packet", s.run(raise("lock:mine", mine, bad),
				several(raise("lock:x", mine, bad), "lock:y", "lock:z"),
				raise("lock:mine", mine, 20)), aheadText+" "+aheadText+" 1")
		}
		fine := FenceLimit(time.Now().Add(-time.Minute))
		s.want("just under a day", s.run(raise("lock:mine", mine, fine), acquire("lock:a", mine)), fmt.Sprint("1 ", fine+1))
		s.want("just under a day, counted alone", s.run(acquire("lock:b", mine), shared("lock:c", mine, time.Minute)),
			fmt.Sprintf("%d S000%016d", fine+2, fine+3))
	})
}

// Each operation gets the error of its own counter.
func TestCounterErrors(t *testing.T) {
	forEachServer(t, func(s *server) {
		s.must("HSET", testState, "7", "9007199254740990", "8", "junk")
		junk, high := shared("lock:a", mine, time.Minute), shared("lock:b", mine, time.Minute)
		junk.Counter = 8
		const noNumber = "!ERR a fencing counter is no number under 2^53 - 1"
		s.want("both", s.run(junk, high, junk), noNumber+" "+aheadText+" "+noNumber)
		s.want("plain", s.run(&Op{Kind: Acquire, TokenAt: junk.TokenAt, Counter: 8, TTL: time.Minute},
			acquire("lock:b", mine)), noNumber+" "+aheadText)
	})
}

// Numbers stay under 2^53, also by a clock that shows a year after 2109.
func TestCounterAfter2109(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC))
	s := dialServer(t, m.Addr(), m)
	for _, c := range []struct {
		have string
		do   *Op
		want string
	}{
		{"9007199254740990", acquire("lock:a", mine), "9007199254740991"},
		{"9007199254740990", shared("lock:a", mine, time.Minute), "S0009007199254740991"},
		{"9007199254740991", acquire("lock:a", mine), aheadText},
		{"9007199254740991", shared("lock:a", mine, time.Minute), aheadText},
		{"5", topUp("lock:a", mine, time.Minute, 1<<53-1), "1"},
		{"5", topUp("lock:a", mine, time.Minute, 1<<53), aheadText},
	} {
		s.sub(fmt.Sprintf("%s at %s", c.do.operation().name, c.have), func() {
			s.must("FLUSHALL")
			s.must("HSET", testState, "7", c.have)
			s.send(fenced.AppendPacket(nil, batch(t, c.do), "", true))
			var r Reply
			s.receive(&r)
			p, ok := ParsePacket(&r, 1)
			if !ok {
				s.t.Fatal(text(&r))
			}
			s.want("result", text(&p.Results[0]), c.want)
		})
	}
}

// FenceLimit computes the limit that packet.lua describes.
func TestFenceLimit(t *testing.T) {
	for _, c := range []struct {
		now  time.Time
		want uint64
	}{
		{time.UnixMilli(1792612706650), (1792612706650 + 86400000) * 2048},
		{time.UnixMilli(1792612706650).Add(999 * time.Microsecond), (1792612706650 + 86400000) * 2048},
		{time.Unix(0, 0), 86400000 * 2048},
		{time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC), 0},
		{time.Date(2109, 1, 1, 0, 0, 0, 0, time.UTC), 8983609344000000},
		{time.Date(2110, 1, 1, 0, 0, 0, 0, time.UTC), 1<<53 - 1},
		{time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), 1<<53 - 1},
	} {
		t.Run(c.now.String(), func(t *testing.T) {
			if got := FenceLimit(c.now); got != c.want {
				t.Errorf("at %v: %d, want %d", c.now, got, c.want)
			}
		})
	}
}

// everything returns all keys of the server with their values, without times.
func (s *server) everything() string {
	s.t.Helper()
	keys := strings.Fields(strings.Trim(s.must("KEYS", "*"), "[]"))
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, "%s %s\n", key, s.holds(key))
	}
	return b.String()
}
