package master

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum/internal/wire"
)

func TestRepairs(t *testing.T) {
	now := time.Now()
	k := wire.TokenAt{Key: "k", Secret: "s"}
	in := func(d time.Duration) time.Time { return now.Add(d) }
	make := func(kind wire.Kind, t wire.TokenAt, drop time.Time) repair {
		return repair{op: wire.Op{Kind: kind, TokenAt: t}, lives: time.Minute, until: drop, drop: drop}
	}

	t.Run("a release beats a fade beats a top-up, never the other way round", func(t *testing.T) {
		var s repairs
		for i, c := range []struct {
			put    repair
			want   wire.Kind
			active int
		}{
			{make(wire.TopUp, k, in(time.Second)), wire.TopUp, 0},
			{make(wire.Fade, k, in(time.Minute)), wire.Fade, 1},
			{make(wire.TopUp, k, in(time.Hour)), wire.Fade, 1},
			{make(wire.Release, k, in(time.Second)), wire.Release, 1},
			{make(wire.Fade, k, in(time.Second)), wire.Release, 1},
			{make(wire.TopUp, k, in(time.Hour)), wire.Release, 1},
		} {
			r, dropped := s.put(c.put)
			if r.op.Kind != c.want || s.active() != c.active || s.n != 1 || dropped || s.find(k) != r {
				t.Errorf("%d: kind %d, active %d of %d, dropped %v", i, r.op.Kind, s.active(), s.n, dropped)
			}
		}
		if r := s.find(k); !r.drop.Equal(in(time.Minute)) || r.op.TTL != 0 {
			t.Errorf("kept until %v, want as long as the longer", r.drop.Sub(now))
		}
		if s.topUps.oldest != nil || s.ending.oldest != s.find(k) || s.ending.newest != s.find(k) {
			t.Error("it is in the wrong list")
		}
	})
	t.Run("two of a kind are kept as long as the longer, and published if one is", func(t *testing.T) {
		var s repairs
		s.put(make(wire.TopUp, k, in(time.Minute)))
		for _, d := range []time.Duration{time.Second, time.Hour} {
			r, _ := s.put(make(wire.TopUp, k, in(d)))
			if want := in(max(d, time.Minute)); !r.until.Equal(want) || !r.drop.Equal(want) {
				t.Errorf("until %v, drop %v", r.until, r.drop)
			}
		}
		first := make(wire.Release, k, in(time.Hour))
		first.op.Publish, first.but = true, 1
		s.put(first)
		second := make(wire.Release, k, in(time.Hour))
		second.but = 4
		if r, _ := s.put(second); !r.op.Publish || r.but != 5 {
			t.Errorf("publish %v, but %b", r.op.Publish, r.but)
		}
	})
	t.Run("a SET that may still land keeps it", func(t *testing.T) {
		var s repairs
		s.put(make(wire.Release, k, time.Time{}))
		if r, _ := s.put(make(wire.Release, k, in(time.Minute))); !r.drop.IsZero() {
			t.Errorf("drop %v, want none", r.drop)
		}
		s.purge(in(time.Hour))
		if s.n != 1 {
			t.Fatal("dropped before the barrier")
		}
		s.fenced(in(time.Hour))
		s.purge(in(time.Hour + time.Minute - 1))
		if s.n != 1 {
			t.Error("dropped before its ttl was over")
		}
		s.purge(in(time.Hour + time.Minute))
		if s.n != 0 || s.active() != 0 || s.find(k) != nil {
			t.Error("not dropped after its ttl")
		}
	})
	t.Run("states", func(t *testing.T) {
		var s repairs
		r, _ := s.put(make(wire.Release, k, in(time.Second)))
		r.state = repairSent
		s.purge(in(time.Hour))
		if s.n != 1 || s.active() != 1 {
			t.Error("dropped while its answer is coming")
		}
		s.failed(r, in(0))
		if s.active() != 0 || r.state != repairFailed {
			t.Errorf("active %d after an error", s.active())
		}
		r.state = repairSent
		s.connLost()
		if r.state != repairIdle || s.active() != 1 {
			t.Errorf("state %d, active %d after a break", r.state, s.active())
		}
	})
	t.Run("top-ups at a barrier", func(t *testing.T) {
		var s repairs
		put := func(secret string, rest time.Duration, mayLand bool) {
			r := make(wire.TopUp, wire.TokenAt{Key: "k", Secret: secret}, in(rest))
			if mayLand {
				r.drop = time.Time{}
			}
			s.put(r)
		}
		put("alive", time.Second, false)
		put("over", 9*time.Millisecond, false)
		put("over but landed", -time.Second, true)
		landed := s.fenced(now)
		if s.n != 1 || s.topUps.oldest.op.Secret != "alive" || s.active() != 0 {
			t.Errorf("%d left, active %d", s.n, s.active())
		}
		if len(landed) != 1 || landed[0].Secret != "over but landed" {
			t.Errorf("may have landed: %v", landed)
		}
	})
	t.Run("bounded: new ones are refused, a top-up makes room for a release", func(t *testing.T) {
		var s repairs
		at := func(i int) wire.TokenAt { return wire.TokenAt{Key: "k", Secret: fmt.Sprint(i)} }
		for i := range maxRepairs {
			kind := wire.Release
			if i >= maxRepairs-2 {
				kind = wire.TopUp
			}
			if _, dropped := s.put(make(kind, at(i), in(time.Hour))); dropped {
				t.Fatalf("%d: dropped", i)
			}
		}
		if r, dropped := s.put(make(wire.TopUp, k, in(time.Minute))); r != nil || !dropped {
			t.Error("a top-up more was taken")
		}
		for i := range 3 {
			r, dropped := s.put(make(wire.Release, at(maxRepairs+i), in(time.Minute)))
			if !dropped || (r != nil) != (i < 2) || s.n != maxRepairs {
				t.Errorf("release %d: taken %v, dropped %v, %d in all", i, r != nil, dropped, s.n)
			}
		}
		if r, dropped := s.put(make(wire.Fade, at(0), in(time.Minute))); r == nil || dropped {
			t.Error("one more of a token that is there was refused")
		}
		for i := range maxRepairs - 2 {
			if s.find(at(i)) == nil {
				t.Fatalf("release %d is gone", i)
			}
		}
		n := 0
		for r := range s.all {
			s.remove(r)
			n++
		}
		if n != maxRepairs || s.n != 0 || s.active() != 0 || s.ending.oldest != nil || s.topUps.newest != nil {
			t.Errorf("%d removed, %d left", n, s.n)
		}
	})
}

// TestOneSecretAtManyKeys: clients name the secret of an UNLOCK. One that names the same at many
// keys must not make the table slow.
func TestOneSecretAtManyKeys(t *testing.T) {
	var s repairs
	const n = 4 * maxBuckets
	for i := range n {
		s.put(repair{op: wire.Op{Kind: wire.Release, TokenAt: wire.TokenAt{Key: fmt.Sprint("k", i), Secret: "s"}}})
	}
	longest := 0
	for _, r := range s.buckets {
		length := 0
		for ; r != nil; r = r.next {
			length++
		}
		longest = max(longest, length)
	}
	if longest > 64 {
		t.Errorf("%d of %d repairs are in one bucket of %d", longest, n, len(s.buckets))
	}
}
