package fake

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/wire"
)

const crowded = "lock:crowded"

// crowd lets n clients hold a lock of several holders. mine is the first of them. Their ends are
// apart by a step. It returns the work of the last one that came.
func crowd(t *testing.T, m *Master, terms *wire.Terms, n int, step time.Duration) (last Work) {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	ops := make([]*wire.Op, 0, wire.MaxOps)
	for i := range n {
		secret := mine
		if i > 0 {
			secret = fmt.Sprintf("%016x%016x%08x", random.Uint64(), random.Uint64(), random.Uint32())
		}
		ops = append(ops, &wire.Op{Kind: wire.Acquire, TokenAt: at(crowded, secret), Terms: terms,
			TTL: time.Minute + time.Duration(i)*step})
		if len(ops) == cap(ops) || i >= n-2 { // the last one comes alone
			m.Work = Work{}
			for _, r := range askPacket(t, m, "", ops...).Results {
				if r.Kind != '$' {
					t.Fatalf("not granted: %v", r)
				}
			}
			last, ops = m.Work, ops[:0]
		}
	}
	return last
}

// An operation of one holder, and a refusal, cost a master the same beside one other holder and
// beside ten thousand, also if all end in the same millisecond.
func TestWorkDoesNotGrowWithHolders(t *testing.T) {
	readers, slots := &wire.Terms{Mode: wire.Shared}, &wire.Terms{Mode: wire.Limited, Limit: wire.MaxLimit}
	for _, kind := range []struct {
		name  string
		terms *wire.Terms
		many  int
		joins bool // one more may hold it
	}{{"readers", readers, 10000, true}, {"slots", slots, wire.MaxLimit, false}} {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				two := *kind.terms
				two.Limit = min(two.Limit, 2)
				for _, step := range []time.Duration{0, time.Millisecond} {
					few, many := New("run"), New("run")
					joined := [2]Work{crowd(t, few, &two, 2, step), crowd(t, many, kind.terms, kind.many, step)}
					if joined[0] != joined[1] && kind.joins {
						t.Errorf("%v apart: to join costs %v beside two, and %v beside %d", step, joined[0], joined[1], kind.many)
					}
					works := [2]map[string]Work{workOf(t, few, &two), workOf(t, many, kind.terms)}
					for name, work := range works[1] {
						if less := works[0][name]; work.Commands > less.Commands || work.Members > less.Members {
							t.Errorf("%v apart: %s costs %v with two, and %v with %d", step, name, less, work, kind.many)
						}
					}
				}
			})
		})
	}
}

// workOf returns the work of operations, each on the lock as it is now.
func workOf(t *testing.T, m *Master, terms *wire.Terms) map[string]Work {
	before, works := m.SaveLocked(), make(map[string]Work)
	alone := &wire.Terms{Waits: time.Second}
	both := &wire.Terms{More: []string{"lock:b"}, Counters: []uint16{1}}
	for name, op := range map[string]wire.Op{
		"UNLOCK":               {Kind: wire.Release, TokenAt: at(crowded, mine)},
		"UNLOCK, published":    {Kind: wire.Release, TokenAt: at(crowded, mine), Publish: true, Terms: terms},
		"KEEP":                 {Kind: wire.Release, TokenAt: at(crowded, mine), TTL: time.Second},
		"EXTEND":               {Kind: wire.Extend, TokenAt: at(crowded, mine), TTL: time.Hour},
		"a shorter EXTEND":     {Kind: wire.Extend, TokenAt: at(crowded, mine), TTL: time.Second},
		"a fade":               {Kind: wire.Fade, TokenAt: at(crowded, mine), TTL: time.Second},
		"a check":              {Kind: wire.Check, TokenAt: at(crowded, mine)},
		"a raise":              {Kind: wire.Raise, TokenAt: at(crowded, mine), Fence: 1 << 20},
		"another's UNLOCK":     {Kind: wire.Release, TokenAt: at(crowded, theirs)},
		"an exclusive LOCK":    {Kind: wire.Acquire, TokenAt: at(crowded, theirs), TTL: time.Second},
		"a LOCK that waits":    {Kind: wire.Acquire, TokenAt: at(crowded, theirs), TTL: time.Second, Terms: alone},
		"a LOCK of two keys":   {Kind: wire.Acquire, TokenAt: at(crowded, theirs), TTL: time.Second, Terms: both},
		"a LOCK of its kind":   {Kind: wire.Acquire, TokenAt: at(crowded, theirs), TTL: time.Second, Terms: terms},
		"a LOCK that is freed": {Kind: wire.Free, TokenAt: at(crowded, "")},
	} {
		m.LoadLocked(before)
		m.Work = Work{}
		askPacket(t, m, "", &op)
		if works[name] = m.Work; m.Work.Commands == 0 {
			t.Errorf("the work of %s is not counted", name)
		}
	}
	return works
}
