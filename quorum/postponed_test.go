package quorum

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is postponed costs the same however much of it there is: a client may ask for lost locks as fast as it can. All are called, each when its
// time has come.
func TestPostponedMany(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		q := s.quorum()
		synctest.Wait()
		const calls, apart = 10_000, 10 * time.Microsecond
		var called, late atomic.Int64
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			due := time.Now().Add(q.releaseTime())
			q.afterReleases(func() {
				if called.Add(1); time.Since(due) > apart {
					late.Add(1)
				}
			})
			time.Sleep(apart)
		}
		runtime.ReadMemStats(&after)
		time.Sleep(q.releaseTime())
		synctest.Wait()
		if called.Load() != calls || late.Load() > 0 || q.calls.Load() != 0 || len(q.postponed.calls) != 0 {
			t.Errorf("%d called, %d of them late, %d calls run, %d wait", called.Load(), late.Load(), q.calls.Load(), len(q.postponed.calls))
		}
		if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > 10_000 {
			t.Errorf("%d bytes for each", each)
		}
	})
}

// A release that a call makes last of all is seen by Close, however the two meet.
func TestCloseSeesLastRelease(t *testing.T) {
	first, second := &lane{conn: &laneConn{}}, &lane{conn: &laneConn{}}
	q := &Quorum{lanes: []*lane{first, second}, quiet: make(chan struct{}, 1)}
	q.closing.Store(true)
	q.enter()
	second.mu.Lock() // holds Close up behind the first lane
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan int)
	go func() { left <- q.waitSettled(ctx) }()
	there := poll(10*time.Second, func() bool {
		all := make([]byte, 1<<20)
		for g := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(g, "(*Quorum).waitSettled") && strings.Contains(g, "Mutex") {
				return true
			}
		}
		return false
	})
	if !there {
		t.Fatal("Close never looked at the second lane")
	}
	first.mu.Lock()
	first.owed.put(debt{debtKey: debtKey{"lock:job", "secret"}}, time.Now())
	first.mu.Unlock()
	q.leave()
	cancel()
	second.mu.Unlock()
	if n := <-left; n != 1 {
		t.Errorf("%d releases left, want 1", n)
	}
}
