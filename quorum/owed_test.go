package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

func TestOwed(t *testing.T) {
	now := time.Now()
	k := debtKey{"k", "s"}
	in := func(d time.Duration) time.Time { return now.Add(d) }

	t.Run("a release replaces a top-up, never the other way round", func(t *testing.T) {
		var o owed
		o.put(debt{debtKey: k, kind: owesTopUp, ttl: time.Second, until: in(time.Second), drop: in(time.Second)}, now)
		if o.active != 0 {
			t.Errorf("active %d, want 0", o.active)
		}
		d, _ := o.put(debt{debtKey: k, kind: owesRelease, ttl: time.Minute, drop: in(time.Minute)}, now)
		if d.kind != owesRelease || len(o.m) != 1 || o.active != 1 || !d.drop.Equal(in(time.Minute)) {
			t.Errorf("%+v, active %d", d, o.active)
		}
		d, _ = o.put(debt{debtKey: k, kind: owesTopUp, drop: in(time.Hour)}, now)
		if d.kind != owesRelease || !d.drop.Equal(in(time.Minute)) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("two of a kind are kept as long as the longer, and told if one is to be", func(t *testing.T) {
		var o owed
		o.put(debt{debtKey: k, kind: owesTopUp, until: in(time.Minute), drop: in(time.Minute)}, now)
		d, _ := o.put(debt{debtKey: k, kind: owesTopUp, until: in(time.Second), drop: in(time.Second)}, now)
		if !d.until.Equal(in(time.Minute)) || !d.drop.Equal(in(time.Minute)) {
			t.Errorf("until %v, drop %v", d.until, d.drop)
		}
		d, _ = o.put(debt{debtKey: k, kind: owesTopUp, until: in(time.Hour), drop: in(time.Hour)}, now)
		if !d.until.Equal(in(time.Hour)) || !d.drop.Equal(in(time.Hour)) {
			t.Errorf("until %v, drop %v", d.until, d.drop)
		}
		o.put(debt{debtKey: k, publish: true, drop: in(time.Hour)}, now)
		if d, _ = o.put(debt{debtKey: k, drop: in(time.Hour)}, now); !d.publish {
			t.Error("not to be told any more")
		}
	})
	t.Run("a SET that may still land keeps it", func(t *testing.T) {
		var o owed
		o.put(debt{debtKey: k, ttl: time.Second}, now)
		d, _ := o.put(debt{debtKey: k, ttl: time.Minute, drop: in(time.Minute)}, now)
		if !d.drop.IsZero() {
			t.Errorf("drop %v, want none", d.drop)
		}
		o.purge(in(time.Hour))
		if len(o.m) != 1 {
			t.Fatal("dropped before the hand-over")
		}
		o.handedOver(in(time.Hour))
		o.purge(in(time.Hour + time.Minute - 1))
		if len(o.m) != 1 {
			t.Error("dropped before its ttl was over")
		}
		o.purge(in(time.Hour + time.Minute))
		if len(o.m) != 0 || o.active != 0 {
			t.Error("not dropped after its ttl")
		}
	})
	t.Run("states", func(t *testing.T) {
		var o owed
		d, _ := o.put(debt{debtKey: k, ttl: time.Second}, now)
		o.mark(d, debtSent)
		o.handedOver(in(0))
		o.purge(in(time.Hour))
		if len(o.m) != 1 || o.active != 1 {
			t.Error("dropped while its answer is coming")
		}
		o.failed(d, in(0))
		if o.active != 0 || d.state != debtFailed {
			t.Errorf("active %d after an error", o.active)
		}
		o.mark(d, debtSent)
		o.laneBroke()
		if d.state != debtIdle || o.active != 1 {
			t.Errorf("state %d, active %d after a break", d.state, o.active)
		}
	})
	t.Run("top-ups at a hand-over", func(t *testing.T) {
		var o owed
		put := func(secret string, rest time.Duration, lost bool) {
			d := debt{debtKey: debtKey{"k", secret}, kind: owesTopUp, ttl: time.Minute, until: in(rest)}
			if !lost {
				d.drop = d.until
			}
			o.put(d, now)
		}
		put("alive", time.Second, false)
		put("over", 9*time.Millisecond, false)
		put("over but landed", -time.Second, true)
		landed := o.handedOver(now)
		alive := o.m[debtKey{"k", "alive"}]
		if alive == nil || alive.kind != owesTopUp || len(o.m) != 1 || o.active != 0 {
			t.Errorf("alive %+v, %d left, active %d", alive, len(o.m), o.active)
		}
		if len(landed) != 1 || landed[0] != (debtKey{"k", "over but landed"}) {
			t.Errorf("may have landed: %v", landed)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		var o owed
		for i := range maxOwed {
			o.put(debt{debtKey: debtKey{"k", fmt.Sprint(i)}, drop: in(time.Hour + time.Duration(i))}, now)
		}
		_, dropped := o.put(debt{debtKey: k, drop: in(time.Minute)}, now)
		if dropped != maxOwed/16 || len(o.m) != maxOwed-maxOwed/16+1 || o.active != len(o.m) {
			t.Errorf("dropped %d, %d left, active %d", dropped, len(o.m), o.active)
		}
		if o.m[debtKey{"k", "0"}] != nil || o.m[debtKey{"k", fmt.Sprint(maxOwed - 1)}] == nil || o.m[k] == nil {
			t.Error("not the soonest to expire were dropped")
		}
	})
}

// A lane that was broken while it carried the SET of a lock comes back when the ttl is over. The lock lives on, as another proxy has extended it, and
// set it on this master, too: it stays.
func TestTopUpOverButExtended(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		var closed atomic.Bool
		a := s.quorum(func(o *Options) {
			dial := o.Masters[2].Dial
			o.Masters[2].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if closed.Load() {
					return nil, errors.New("out of reach")
				}
				return dial(ctx, network, addr)
			}
		})
		b := s.quorum()
		s.masters[2].pause()
		lease := mustAcquire(t, a, "job", 2*time.Second)
		closed.Store(true)
		s.masters[2].cut()
		s.masters[2].resume()
		time.Sleep(time.Second)
		if _, err := b.Extend(t.Context(), "job", lease.Token, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		s.masters[0].empty()
		time.Sleep(2 * time.Second)
		closed.Store(false)
		time.Sleep(5 * time.Second)
		if _, err := b.Extend(t.Context(), "job", lease.Token, 30*time.Second); err != nil {
			t.Errorf("the lock was taken away: %v", err)
		}
	})
}
