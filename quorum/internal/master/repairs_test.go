package master

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/quorum/internal/wire"
)

// The repairs of these tests are for this token, and their times count from now.
var (
	testNow   = time.Now()
	testToken = wire.TokenAt{Key: "k", Secret: "s"}
)

func in(d time.Duration) time.Time { return testNow.Add(d) }

// newRepair returns a repair that is dropped at drop.
func newRepair(kind wire.OpKind, t wire.TokenAt, drop time.Time) repair {
	return repair{op: wire.Op{Kind: kind, TokenAt: t}, lives: time.Minute, until: drop, drop: drop}
}

// A release beats a fade beats a top-up, never the other way round.
func TestReleaseBeatsFadeBeatsTopUp(t *testing.T) {
	var s repairs
	for i, c := range []struct {
		put    repair
		want   wire.OpKind
		active int
	}{
		{newRepair(wire.TopUp, testToken, in(time.Second)), wire.TopUp, 0},
		{newRepair(wire.Fade, testToken, in(time.Minute)), wire.Fade, 1},
		{newRepair(wire.TopUp, testToken, in(time.Hour)), wire.Fade, 1},
		{newRepair(wire.Release, testToken, in(time.Second)), wire.Release, 1},
		{newRepair(wire.Fade, testToken, in(time.Second)), wire.Release, 1},
		{newRepair(wire.TopUp, testToken, in(time.Hour)), wire.Release, 1},
	} {
		r, dropped := s.put(c.put)
		if r.op.Kind != c.want || s.active() != c.active || s.n != 1 || dropped || s.find(testToken) != r {
			t.Errorf("%d: kind %d, active %d of %d, dropped %v", i, r.op.Kind, s.active(), s.n, dropped)
		}
	}
	if r := s.find(testToken); !r.drop.Equal(in(time.Minute)) || r.op.TTL != 0 {
		t.Errorf("kept until %v, want as long as the longer", r.drop.Sub(testNow))
	}
	if s.topUps.oldest != nil || s.ending.oldest != s.find(testToken) || s.ending.newest != s.find(testToken) {
		t.Error("it is in the wrong list")
	}
}

// Two repairs of one kind live as long as the longer, and are published if one is.
func TestRepairsOfOneKindMerge(t *testing.T) {
	var s repairs
	s.put(newRepair(wire.TopUp, testToken, in(time.Minute)))
	for _, d := range []time.Duration{time.Second, time.Hour} {
		r, _ := s.put(newRepair(wire.TopUp, testToken, in(d)))
		if want := in(max(d, time.Minute)); !r.until.Equal(want) || !r.drop.Equal(want) {
			t.Errorf("until %v, drop %v", r.until, r.drop)
		}
	}
	first := newRepair(wire.Release, testToken, in(time.Hour))
	first.op.Publish, first.unconfirmed = true, 1
	s.put(first)
	second := newRepair(wire.Release, testToken, in(time.Hour))
	second.unconfirmed = 4
	if r, _ := s.put(second); !r.op.Publish || r.unconfirmed != 5 {
		t.Errorf("publish %v, but %b", r.op.Publish, r.unconfirmed)
	}
}

// A release stays until the barrier if the SET of its token may still land, then for its ttl.
func TestReleaseIsKeptWhileSetMayLand(t *testing.T) {
	var s repairs
	s.put(newRepair(wire.Release, testToken, time.Time{}))
	if r, _ := s.put(newRepair(wire.Release, testToken, in(time.Minute))); !r.drop.IsZero() {
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
	if s.n != 0 || s.active() != 0 || s.find(testToken) != nil {
		t.Error("not dropped after its ttl")
	}
}

// A repair is dropped only while no answer to it is coming; an error or a break ends its sending.
func TestRepairStates(t *testing.T) {
	var s repairs
	r, _ := s.put(newRepair(wire.Release, testToken, in(time.Second)))
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
}

// Two top-ups or releases of a token may be on the lane at once. The answer to the first leaves
// the repair pending: if the connection breaks before the second is answered, it goes out again.
func TestAnswerToEarlierSendingEndsNothing(t *testing.T) {
	for name, kind := range map[string]wire.OpKind{"top-up": wire.TopUp, "release": wire.Release, "fade": wire.Fade} {
		t.Run(name, func(t *testing.T) {
			var s repairs
			var first, second entry
			send := func(e *entry) {
				r, _ := s.put(newRepair(kind, testToken, in(time.Minute)))
				e.op = r.op
				s.sent(r, e)
			}
			send(&first)
			send(&second)
			done := wire.Reply{Kind: ':'}
			if was := s.answered(&first, &done, testNow); was.op.Key != "" || s.n != 1 {
				t.Errorf("the first answer ended %q, %d pending", was.op.Key, s.n)
			}
			s.connLost()
			if r := s.find(testToken); r == nil || r.state != repairIdle {
				t.Error("the repair is not due again after the break")
			}
			send(&second)
			if was := s.answered(&second, &done, testNow); was.op.Key != "k" || s.n != 0 {
				t.Errorf("the last answer ended %q, %d pending", was.op.Key, s.n)
			}
		})
	}
}

// A top-up changes while it is on the lane, and waits for room. The answer leaves it pending, but
// from there on it is dropped with its lock: nothing of it is on the lane any more.
func TestAnswerToChangedTopUp(t *testing.T) {
	var s repairs
	var st status
	var q queue
	r, _ := s.put(newRepair(wire.TopUp, testToken, in(time.Minute)))
	e := entry{op: r.op}
	s.sent(r, &e)
	r.drop = time.Time{}
	changed := newRepair(wire.TopUp, testToken, in(time.Minute))
	s.put(changed)
	if was := s.answered(&e, &wire.Reply{Kind: ':', Int: 1}, testNow); was.op.Key != "" || s.n != 1 {
		t.Errorf("the answer ended %q, %d pending", was.op.Key, s.n)
	}
	s.sendTopUp(&st, &q, s.find(testToken), in(time.Minute-minTopUp/2))
	if s.n != 0 {
		t.Error("the top-up stays although its lock has all but ended")
	}
}

// A barrier drops the top-ups of locks that have ended, and returns the ones that may have landed.
func TestTopUpsAtBarrier(t *testing.T) {
	var s repairs
	put := func(secret string, rest time.Duration, mayLand bool) {
		r := newRepair(wire.TopUp, wire.TokenAt{Key: "k", Secret: secret}, in(rest))
		r.lives = 2 * time.Second
		if mayLand {
			r.drop = time.Time{}
		}
		s.put(r)
	}
	put("alive", time.Second, false)
	put("over", 9*time.Millisecond, false)
	put("over but landed", -time.Second, true)
	landed := s.fenced(testNow)
	if s.n != 1 || s.topUps.oldest.op.Secret != "alive" || s.active() != 0 {
		t.Errorf("%d left, active %d", s.n, s.active())
	}
	if len(landed) != 1 || landed[0].Secret != "over but landed" {
		t.Errorf("may have landed: %v", landed)
	}
}

// If there are too many repairs, new ones are refused; a top-up makes room for a release.
func TestRepairsAreBounded(t *testing.T) {
	var s repairs
	at := func(i int) wire.TokenAt { return wire.TokenAt{Key: "k", Secret: fmt.Sprint(i)} }
	for i := range maxRepairs {
		kind := wire.Release
		if i >= maxRepairs-2 {
			kind = wire.TopUp
		}
		if _, dropped := s.put(newRepair(kind, at(i), in(time.Hour))); dropped {
			t.Fatalf("%d: dropped", i)
		}
	}
	if r, dropped := s.put(newRepair(wire.TopUp, testToken, in(time.Minute))); r != nil || !dropped {
		t.Error("a top-up more was taken")
	}
	for i := range 3 {
		r, dropped := s.put(newRepair(wire.Release, at(maxRepairs+i), in(time.Minute)))
		if !dropped || (r != nil) != (i < 2) || s.n != maxRepairs {
			t.Errorf("release %d: taken %v, dropped %v, %d in all", i, r != nil, dropped, s.n)
		}
	}
	if r, dropped := s.put(newRepair(wire.Fade, at(0), in(time.Minute))); r == nil || dropped {
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
