package master

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// If a master deletes a lock only after it has come back, the lane reports the masters that had
// answered the UNLOCK with "not ours", and no others.
func TestReleasedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		for i := range 4 {
			mustAsk(t, l, op(wire.Acquire, tokenAt(fmt.Sprint(i), i)), nil)
		}
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		for i := range 4 {
			_ = l.Release(unlock(tokenAt(fmt.Sprint(i), i)), time.Minute, true, nil)
		}
		l.NoteUnconfirmed(tokenAt("1", 1), 1<<2|1<<4)
		l.NoteUnconfirmed(tokenAt("2", 2), 1<<1)
		l.NoteUnconfirmed(tokenAt("9", 9), 1) // no such release
		m.Set(func() { m.Delete("lock:2") })
		m.Start()
		time.Sleep(time.Second)
		noKeys(t, m)
		if !slices.Equal(h.sofar().late, []uint64{1<<2 | 1<<4}) {
			t.Errorf("told %b, want only of the lock that stood", h.sofar().late)
		}
	})
}

// Many locks whose SET was never sent do not push out the releases of locks that the master holds.
func TestUnsentLocksLeaveRoom(t *testing.T) {
	const real, unsent = 500, 100_000
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		for i := range real {
			mustAsk(t, l, op(wire.Acquire, tokenAt(fmt.Sprint(i), i)), nil)
		}
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		lock := func(i int) wire.TokenAt { return topUpUnsent(t, l, real+i) }
		for i := range real {
			_ = l.Release(unlock(tokenAt(fmt.Sprint(i), i)), time.Minute, true, nil)
		}
		for i := range unsent {
			_ = l.Release(unlock(lock(i)), time.Minute, false, nil)
		}
		if s := l.Status(); s.Repairs != real || s.Dropped != 0 {
			t.Errorf("%d pending, want %d; %d dropped", s.Repairs, real, s.Dropped)
		}
		// All held at once do not fit. The dropped ones are counted; none of them is real.
		held := make([]wire.TokenAt, unsent)
		for i := range held {
			held[i] = lock(unsent + i)
		}
		if s := l.Status(); s.Repairs != maxRepairs || s.Dropped != real+unsent-maxRepairs {
			t.Errorf("%d pending, %d dropped", s.Repairs, s.Dropped)
		}
		for _, k := range held {
			_ = l.Release(unlock(k), time.Minute, false, nil)
		}
		m.Start()
		time.Sleep(10 * time.Second)
		noKeys(t, m)
		if s := l.Status(); s.Repairs != 0 || s.State != stat.StateVoting {
			t.Errorf("status %+v", s)
		}
	})
}

// topUpUnsent gives a lane that is down a lock that it has never sent.
func topUpUnsent(t *testing.T, l *Lane, i int) wire.TokenAt {
	t.Helper()
	k := tokenAt("job", i)
	if err := l.Ask(op(wire.Acquire, k), nil); err == nil {
		t.Fatal("it takes a SET")
	}
	up := topUp(k)
	up.Unsent = true
	l.TopUp(up)
	return k
}

// An unsent top-up does not cancel the release for a master that was sent the SET or held the
// lock.
func TestUnlockIsPendingWhereKeyMayBe(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		mustAsk(t, l, op(wire.Acquire, tokenAt("held", 1)), nil)
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		l.TopUp(topUp(tokenAt("held", 1))) // as after an EXTEND
		unsent := topUp(tokenAt("new", 2))
		unsent.Unsent = true
		l.TopUp(unsent)
		l.TopUp(topUp(tokenAt("new", 2))) // extended since
		another := topUp(tokenAt("unsent", 3))
		another.Unsent = true
		l.TopUp(another)
		l.TopUp(topUp(tokenAt("unsent", 3)))
		_ = l.Release(unlock(tokenAt("unsent", 3)), time.Minute, false, nil)
		if s := l.Status(); s.Repairs != 2 {
			t.Errorf("%d pending, want 2: EXTEND sends nothing that sets the key", s.Repairs)
		}
		m.Start()
		time.Sleep(time.Second)
		if n, _ := m.Holds("", ""); n != 2 {
			t.Fatalf("%d locks topped up, want 2", n)
		}
		m.Stop()
		synctest.Wait()
		l.TopUp(topUp(tokenAt("held", 1)))
		l.TopUp(topUp(tokenAt("new", 2)))
		for i, key := range []string{"held", "new"} {
			_ = l.Release(unlock(tokenAt(key, i+1)), time.Minute, true, nil)
		}
		if s := l.Status(); s.Repairs != 2 {
			t.Errorf("%d pending, want 2", s.Repairs)
		}
		m.Start()
		time.Sleep(time.Second)
		noKeys(t, m)
	})
}

// A release is pending for as long as the key can live: from now on if its SET has been answered,
// else from the next barrier on. A lane that was down for max-ttl carries no SET.
func TestReleaseIsPendingForLifeOfKey(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Stop()
		synctest.Wait()
		pending := func(want int, when string) {
			t.Helper()
			if s := l.Status(); s.Repairs != want {
				t.Errorf("%s: %d pending, want %d", when, s.Repairs, want)
			}
		}
		_ = l.Release(unlock(tokenAt("landed", 1)), 10*time.Second, true, nil)
		_ = l.Release(unlock(tokenAt("may land", 2)), 10*time.Second, false, nil)
		time.Sleep(11 * time.Second)
		pending(1, "after the ttl")
		time.Sleep(time.Minute)
		pending(1, "before the barrier")
		_ = l.Release(unlock(tokenAt("late", 3)), 10*time.Second, false, nil)
		time.Sleep(11 * time.Second)
		pending(1, "one that cannot have been sent")
		m.Start()
		time.Sleep(time.Second)
		pending(0, "after the replay")
	})
}

// asks is a Receiver that asks whether a release is on its way.
type asks struct {
	l         *Lane
	releasing []bool
}

func (a *asks) Answered(_ int, op *wire.Op, _ *Answer) {
	a.releasing = append(a.releasing, a.l.Releasing(op.TokenAt))
}

// The receiver of a late grant learns whether its release follows, even if one packet answered
// both.
func TestReleasingIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		a := &asks{l: l}
		for i, release := range []bool{true, false} {
			k := tokenAt(fmt.Sprint(i), i)
			if err := l.Ask(op(wire.Acquire, k), a); err != nil {
				t.Fatal(err)
			}
			if release {
				if err := l.Release(unlock(k), time.Minute, false, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.Flush()
		synctest.Wait()
		if !slices.Equal(a.releasing, []bool{true, false}) {
			t.Errorf("releasing: %v, want the first alone", a.releasing)
		}
	})
}

// The remains of a faded lock live on for a moment.
func TestFadedLockLivesOnForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		k := tokenAt("job", 1)
		mustAsk(t, l, op(wire.Acquire, k), nil)
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		fade := op(wire.Fade, k)
		fade.TTL = 2 * time.Second
		if err := l.Release(fade, time.Minute, true, nil); err == nil || l.Status().Repairs != 1 {
			t.Errorf("%v, %d pending", err, l.Status().Repairs)
		}
		m.Start()
		time.Sleep(time.Second)
		if _, ours := m.Holds("lock:job", secret(1)); !ours || l.Status().Repairs != 0 || l.Status().Strays != 1 {
			t.Errorf("held %v, status %+v", ours, l.Status())
		}
		time.Sleep(2 * time.Second)
		noKeys(t, m)
	})
}

// keep is the release of an UNLOCK that keeps the lock closed for 20 s.
func keep(t wire.TokenAt) wire.Op {
	o := unlock(t)
	o.TTL = 20 * time.Second
	return o
}

// A lock released with KEEP stays closed even if another release without KEEP follows before the
// master has carried out the first.
func TestKeptThoughReleasedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		k := tokenAt("job", 1)
		mustAsk(t, l, op(wire.Acquire, k), nil)
		synctest.Wait()
		m.Set(func() { m.Fault = func(fake.Call) string { return "OOM command not allowed" } })
		_ = l.Release(keep(k), time.Minute, true, nil)
		l.Flush()
		synctest.Wait()
		m.Set(func() { m.Fault = nil })
		_ = l.Release(unlock(k), time.Minute, true, nil)
		l.Flush()
		synctest.Wait()
		if n, ours := m.Holds("lock:job", secret(1)); n != 1 || ours {
			t.Errorf("%d keys on the master, with the token %v; want the closed one", n, ours)
		}
		time.Sleep(21 * time.Second)
		noKeys(t, m)
	})
}

// If a master closes a slot late, any slot, the lane reports the masters that had answered the
// UNLOCK with "not ours".
func TestKeptLate(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		for slot := range 2 {
			o := op(wire.Acquire, tokenAt("job", slot))
			o.Terms = &wire.Terms{Mode: wire.Limited, Limit: 2, Try: [2]int{slot, slot}}
			mustAsk(t, l, o, nil)
		}
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		for slot := range 2 {
			_ = l.Release(keep(tokenAt("job", slot)), time.Minute, true, nil)
			l.NoteUnconfirmed(tokenAt("job", slot), 1<<(1+slot))
		}
		m.Start()
		time.Sleep(time.Second)
		if got := h.sofar().late; !slices.Equal(got, []uint64{1 << 1, 1 << 2}) {
			t.Errorf("told %b of both", got)
		}
	})
}

// A full lane does not queue the UNLOCK of a lock that it did not take, so its queue stays short.
// The UNLOCKs of locks that it took go out.
func TestFullLaneTakesNoUnsentUnlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Pause()
		const room = 10
		l.SetRoom(room)
		for i := range 2 * room {
			k := tokenAt(fmt.Sprint(i), i)
			if l.Ask(op(wire.Acquire, k), nil) != nil {
				up := topUp(k)
				up.Unsent = true
				l.TopUp(up)
			}
		}
		for i := range 2 * room {
			err := l.Release(unlock(tokenAt(fmt.Sprint(i), i)), time.Minute, false, nil)
			if _, untouched := errors.AsType[*UntouchedError](err); untouched != (i >= room) {
				t.Errorf("UNLOCK %d: %v", i, err)
			}
		}
		if n, _ := l.Unanswered(); n != 2*room {
			t.Errorf("%d requests wait, want %d", n, 2*room)
		}
		m.Resume()
		l.Flush()
		time.Sleep(time.Second)
		noKeys(t, m)
		if n := m.Ran("release"); n != room {
			t.Errorf("%d releases carried out, want %d", n, room)
		}
	})
}
