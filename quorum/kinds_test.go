package quorum

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Readers hold a key together, and a writer has it alone, with rising numbers.
func TestSharedLocks(t *testing.T) {
	onServers(t, func(t *testing.T, q *Quorum) {
		writer, reader := Request{Key: "job"}, Request{Key: "job", Mode: Shared, Owner: "me"}
		first := grantedOf(t, q, writer)
		refusedOf(t, q, reader)
		givenBack(t, q, "job", first)
		one, two := grantedOf(t, q, reader), grantedOf(t, q, reader)
		if one.Token.Fence <= first.Token.Fence || two.Token.Fence < one.Token.Fence {
			t.Errorf("fences %d, then %d and %d", first.Token.Fence, one.Token.Fence, two.Token.Fence)
		}
		refusedOf(t, q, writer)
		refusedOf(t, q, Request{Key: "job", Mode: Limited, Limit: 3})
		info, err := q.Inspect(t.Context(), "job")
		if err != nil || info.Mode != Shared || info.Holders != 2 || info.Held < 2 || info.Owner != "me" ||
			info.Fence != two.Token.Fence {
			t.Errorf("%+v, %v", info, err)
		}
		if left, err := q.Extend(t.Context(), []string{"job"}, one.Token, time.Minute, false); left <= 0 ||
			err != nil {
			t.Errorf("extended %v, %v", left, err)
		}
		givenBack(t, q, "job", one)
		givenBack(t, q, "job", two)
		last := grantedOf(t, q, writer)
		if last.Token.Fence <= two.Token.Fence {
			t.Errorf("fence %d after readers with %d", last.Token.Fence, two.Token.Fence)
		}
	})
}

// At most so many hold a key, each in a slot of its own.
func TestLimitedLocks(t *testing.T) {
	onServers(t, func(t *testing.T, q *Quorum) {
		want := Request{Key: "pool", Mode: Limited, Limit: 5}
		slots, leases := map[int]bool{}, []Lease{}
		for range want.Limit {
			lease := grantedOf(t, q, want)
			if slots[lease.Slot] || lease.Slot < 0 || lease.Slot >= want.Limit {
				t.Errorf("slot %d, of those taken: %v", lease.Slot, slots)
			}
			slots[lease.Slot] = true
			leases = append(leases, lease)
		}
		refusedOf(t, q, want)
		refusedOf(t, q, Request{Key: "pool"})
		info, err := q.Inspect(t.Context(), "pool")
		if err != nil || info.Mode != Limited || info.Holders != 5 || len(info.Slots) != 5 || info.Slots[3].Slot != 3 {
			t.Errorf("%+v, %v", info, err)
		}
		givenBack(t, q, "pool", leases[2])
		if lease := grantedOf(t, q, want); lease.Slot != leases[2].Slot || lease.Token.Fence <= leases[2].Token.Fence {
			t.Errorf("%+v in the place of %+v", lease, leases[2])
		}
		if _, err := q.Extend(t.Context(), []string{"pool"}, leases[1].Token, time.Minute,
			true); !errors.Is(err, ErrWrongMode) {
			t.Errorf("shared: %v", err)
		}
	})
}

// Masters disagree about which slots are taken, and one slot is free on all: a client gets it,
// though the masters do not grant it unless they are asked for it.
func TestLimitedLockFindsTheCommonSlot(t *testing.T) {
	var addrs []string
	for _, free := range []int{6, 6, 2, 2, 3} { // beside slot 6 of 7
		m := startMini(t)
		addrs = append(addrs, m.Addr())
		end := time.Now().Add(time.Minute)
		for slot := range 6 {
			if slot == free {
				continue
			}
			secret := fmt.Sprintf("%040x", slot)
			for member, score := range map[string]float64{
				"lockproxy-limit": 7,
				"=" + secret:      float64(end.UnixMilli()*1000 + int64(slot)),
				secret + fmt.Sprintf("L%03d%016d", slot, 1): float64(-1000 - slot),
			} {
				if _, err := m.ZAdd("lock:pool", score, member); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.SetTTL("lock:pool", time.Until(end))
	}
	q := dialQuorum(t, addrs)
	for range 30 {
		lease := grantedOf(t, q, Request{Key: "pool", Mode: Limited, Limit: 7})
		if lease.Slot != 6 {
			t.Errorf("slot %d", lease.Slot)
		}
		givenBack(t, q, "pool", lease)
	}
}

// Many fight for few slots, and never more of them win.
func TestLimitedLocksFoughtOver(t *testing.T) {
	onServers(t, func(t *testing.T, q *Quorum) {
		var pool pool
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 8 {
					pool.contend(t, q)
				}
			})
		}
		wg.Wait()
		waitDrained(t, []*Quorum{q})
		if info, err := q.Inspect(t.Context(), "pool"); info.Held != 0 || err != nil || pool.granted < 20 {
			t.Errorf("left %+v, %v; %d granted", info, err, pool.granted)
		}
	})
}

// pool counts who is in which slot of a lock.
type pool struct {
	mu      sync.Mutex
	holds   [4]int // by slot
	granted int
}

// contend acquires a slot and, if it gets one, fails if another client is there, and releases it.
func (p *pool) contend(t *testing.T, q *Quorum) {
	lease, err := q.Acquire(t.Context(), Request{Key: "pool", Mode: Limited, Limit: len(p.holds), TTL: time.Minute})
	if err != nil {
		return
	}
	p.mu.Lock()
	p.granted++
	p.holds[lease.Slot]++
	if p.holds[lease.Slot] > 1 {
		t.Errorf("slot %d is held twice", lease.Slot)
	}
	p.mu.Unlock()
	p.mu.Lock()
	p.holds[lease.Slot]--
	p.mu.Unlock()
	held, err := q.Release(t.Context(), []string{"pool"}, lease.Token, 0)
	unknown := false // a release without a quorum may have been carried out, like an UNLOCK that is repeated
	for ; errors.Is(err, ErrNoQuorum) && t.Context().Err() == nil; unknown = true {
		held, err = q.Release(t.Context(), []string{"pool"}, lease.Token, 0)
	}
	if err != nil || !held && !unknown {
		t.Errorf("release: %v, %v", held, err)
	}
}

// Several keys are held all or none.
func TestSeveralKeys(t *testing.T) {
	onServers(t, func(t *testing.T, q *Quorum) {
		alone := grantedOf(t, q, Request{Key: "c"})
		all := Request{Key: "a", Keys: []string{"b", "c"}}
		refusedOf(t, q, all)
		for _, key := range []string{"a", "b"} {
			givenBack(t, q, key, grantedOf(t, q, Request{Key: key}))
		}
		givenBack(t, q, "c", alone)
		lease := grantedOf(t, q, all)
		if lease.Token.Fence <= alone.Token.Fence {
			t.Errorf("fence %d after %d", lease.Token.Fence, alone.Token.Fence)
		}
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			refusedOf(t, q, Request{Key: key})
		}
		if left, err := q.Extend(t.Context(), keys, lease.Token, time.Minute, false); left <= 0 || err != nil {
			t.Errorf("extended %v, %v", left, err)
		}
		if held, err := q.Release(t.Context(), []string{"b"}, lease.Token, 0); !held || err != nil {
			t.Errorf("released b: %v, %v", held, err)
		}
		givenBack(t, q, "b", grantedOf(t, q, Request{Key: "b"}))
		refusedOf(t, q, Request{Key: "a"})
		if _, err := q.Extend(t.Context(), keys, lease.Token, time.Minute, false); !errors.Is(err, ErrLost) {
			t.Errorf("extended without b: %v", err)
		}
		again := grantedOf(t, q, Request{Key: "x", Keys: []string{"y"}})
		if held, err := q.Release(t.Context(), []string{"x", "y"}, again.Token, 0); !held || err != nil {
			t.Errorf("released: %v, %v", held, err)
		}
		if held, err := q.Release(t.Context(), []string{"x", "y"}, again.Token, 0); held || err != nil {
			t.Errorf("released twice: %v, %v", held, err)
		}
	})
}

// A key stays closed for a while after its release, for everybody.
func TestKeptLocks(t *testing.T) {
	onServers(t, func(t *testing.T, q *Quorum) {
		lease := grantedOf(t, q, Request{Key: "job"})
		if held, err := q.Release(t.Context(), []string{"job"}, lease.Token, time.Minute); !held || err != nil {
			t.Fatalf("%v, %v", held, err)
		}
		refusedOf(t, q, Request{Key: "job"})
		refusedOf(t, q, Request{Key: "job", Mode: Shared})
		if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, time.Minute,
			false); !errors.Is(err, ErrLost) {
			t.Errorf("extended: %v", err)
		}
		info, err := q.Inspect(t.Context(), "job")
		if err != nil || info.Mode != Kept || info.Holders != 0 || info.Held < 2 || info.Fence != lease.Token.Fence ||
			info.TTL < 50*time.Second {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// A reader and the holder of a slot leave their places closed: they hold them no longer, and the
// key is closed when the others have gone.
func TestKeepOfOnePlace(t *testing.T) {
	for _, want := range []Request{{Key: "job", Mode: Shared}, {Key: "job", Mode: Limited, Limit: 2}} {
		t.Run(want.Mode.String(), func(t *testing.T) {
			onServers(t, func(t *testing.T, q *Quorum) {
				other, leaves := grantedOf(t, q, want), grantedOf(t, q, want)
				if held, err := q.Release(t.Context(), []string{"job"}, leaves.Token, time.Minute); !held ||
					err != nil {
					t.Fatalf("%v, %v", held, err)
				}
				info, err := q.Inspect(t.Context(), "job")
				if err != nil || info.Mode != want.Mode || info.Holders != 1 || info.Fence != other.Token.Fence ||
					len(info.Slots) != want.Limit {
					t.Errorf("beside another %+v, %v", info, err)
				}
				givenBack(t, q, "job", other)
				info, err = q.Inspect(t.Context(), "job")
				if err != nil || info.Mode != Kept || info.Holders != 0 || info.Held < 2 ||
					info.Fence != leaves.Token.Fence || info.TTL < 50*time.Second {
					t.Errorf("alone %+v, %v", info, err)
				}
			})
		})
	}
}

// An exclusive lock becomes a shared one. Who joins has a greater fence.
func TestExclusiveLockBecomesShared(t *testing.T) {
	onServers(t, func(t *testing.T, q *Quorum) {
		lease := grantedOf(t, q, Request{Key: "job"})
		for range 2 {
			if left, err := q.Extend(t.Context(), []string{"job"}, lease.Token, time.Minute, true); left <= 0 ||
				err != nil {
				t.Fatalf("%v, %v", left, err)
			}
		}
		waitDrained(t, []*Quorum{q})
		reader := grantedOf(t, q, Request{Key: "job", Mode: Shared})
		if reader.Token.Fence <= lease.Token.Fence {
			t.Errorf("fences %d, then %d", lease.Token.Fence, reader.Token.Fence)
		}
		refusedOf(t, q, Request{Key: "job"})
		givenBack(t, q, "job", lease)
		givenBack(t, q, "job", reader)
		grantedOf(t, q, Request{Key: "job"})
	})
}
