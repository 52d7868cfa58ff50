package wire

import (
	"strings"
	"testing"
	"time"
)

const tooLate = "!TOOLATE the request came when its ttl was almost over"

// aged is an operation that was asked for so long ago.
func aged(o *Op, age time.Duration) *Op {
	o.Begun, o.TTL, o.Within = time.Duration(time.Now().Add(-age).UnixNano()), 100*time.Second, 50*time.Second
	return o
}

// An operation that sets keys has no effect after 99 % of its ttl; a top-up after the time that it
// names. Until then its age makes no difference.
func TestTooLate(t *testing.T) {
	withTerms := func(o *Op, t Terms) *Op {
		o.Terms = &t
		return o
	}
	acquireAs := func(t Terms) func() *Op { return func() *Op { return withTerms(acquire("lock:a", mine), t) } }
	topUpAs := func(t Terms) func() *Op {
		return func() *Op { return withTerms(topUp("lock:a", mine, time.Minute, 70), t) }
	}
	for name, c := range map[string]struct {
		op   func() *Op
		most time.Duration
		done string
	}{
		"exclusive":         {acquireAs(Terms{}), 99 * time.Second, "42"},
		"of one that waits": {acquireAs(Terms{Waits: time.Second}), 99 * time.Second, "42"},
		"shared":            {acquireAs(Terms{Mode: Shared}), 99 * time.Second, "S0000000000000000042"},
		"slot": {acquireAs(Terms{Mode: Limited, Limit: 3, Try: [2]int{1, 2}}), 99 * time.Second,
			"L0010000000000000042"},
		"keys":               {acquireAs(Terms{More: []string{"lock:b"}, Counters: []uint16{7}}), 99 * time.Second, "42"},
		"top-up":             {topUpAs(Terms{}), 50 * time.Second, "1"},
		"top-up of a reader": {topUpAs(Terms{Mode: Shared}), 50 * time.Second, "1"},
		"top-up of a slot":   {topUpAs(Terms{Mode: Limited, Slot: 2}), 50 * time.Second, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachServer(t, func(s *server) {
				for age, want := range map[time.Duration]string{
					-time.Hour: c.done, 0: c.done, c.most - 10*time.Second: c.done,
					c.most + time.Millisecond: tooLate, 1000 * time.Hour: tooLate,
				} {
					s.must("FLUSHALL")
					s.must("HSET", testState, 7, 41)
					s.want("age "+age.String(), s.run(aged(c.op(), age)), want)
					if keys := s.must("KEYS", "lock:*"); (keys == "[]") != (want == tooLate) {
						t.Errorf("age %v: keys %s", age, keys)
					}
					if want == tooLate {
						s.counter(41)
					}
				}
			})
		})
	}
}

// The others of a packet are judged by its oldest operation, and only if one of them is too late.
// Operations that set no key are carried out at any age.
func TestTooLateInPacket(t *testing.T) {
	forEachServer(t, func(s *server) {
		old := func() *Op { return aged(acquire("lock:old", mine), 60*time.Second) }
		short := func() *Op {
			o := aged(acquire("lock:short", mine), 0)
			o.TTL = 50 * time.Second
			return o
		}
		s.must("HSET", testState, 7, 10)
		s.want("none is too late", s.run(old(), short(), aged(topUp("lock:c", mine, time.Minute, 5), 0)), "11 12 1")
		s.must("DEL", "lock:old", "lock:short", "lock:c")
		late := aged(topUp("lock:c", mine, time.Minute, 5), 51*time.Second)
		s.want("the top-up is", s.run(old(), short(), late), strings.Join([]string{"13", tooLate, tooLate}, " "))
		s.want("what sets no key", s.run(op(Release, "lock:short", theirs), op(Release, "lock:old", theirs),
			aged(acquire("lock:old", theirs), time.Hour), lasting(Extend, "lock:old", mine, time.Hour),
			op(Check, "lock:old", mine), op(Release, "lock:old", mine)),
			"0 0 "+tooLate+" 0000000000000013 1 1")
	})
}
