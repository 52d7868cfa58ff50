package quorum

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlinesExpireAsInAPlainList sets, moves and cancels deadlines at random and compares what
// expires with a plain list.
func TestDeadlinesExpireAsInAPlainList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, flushed := time.Now(), 0
		var mu sync.Mutex // the timer runs on goroutines of its own
		q := &deadlines{after: func() { mu.Lock(); flushed++; mu.Unlock() }}
		want := make(map[int]time.Duration)
		all := make([]deadline, 200)
		var got []time.Duration
		for i := range all {
			all[i].expire = func() { mu.Lock(); got = append(got, time.Since(start)); mu.Unlock() }
		}
		setAtRandom(q, all, start, want)
		time.Sleep(2 * time.Second)
		mu.Lock()
		var times []time.Duration
		for _, at := range want {
			times = append(times, at)
		}
		slices.Sort(times)
		if !slices.Equal(got, times) {
			t.Errorf("expired after %v, want %v", got, times)
		}
		if flushed == 0 || flushed > len(times) {
			t.Errorf("flushed %d times after %d deadlines", flushed, len(times))
		}
		mu.Unlock()
		q.set(&all[0], time.Now().Add(time.Second))
		q.close()
		mu.Lock()
		defer mu.Unlock()
		if len(got) != len(times)+1 {
			t.Error("close left a deadline")
		}
		mu.Unlock()
		q.set(&all[0], time.Now().Add(time.Second))
		time.Sleep(2 * time.Second)
		mu.Lock()
		if len(got) != len(times)+1 {
			t.Error("a deadline expired after close")
		}
	})
}

// setAtRandom sets deadlines, changes and cancels some, and notes when they expire.
func setAtRandom(q *deadlines, all []deadline, start time.Time, want map[int]time.Duration) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range all {
		at := time.Duration(1+random.IntN(1000)) * time.Millisecond
		q.set(&all[i], start.Add(at))
		want[i] = at
		if other := random.IntN(i + 1); random.IntN(3) == 0 {
			q.cancel(&all[other])
			delete(want, other)
		}
		if other := random.IntN(i + 1); random.IntN(3) == 0 {
			q.set(&all[other], start.Add(at/2))
			want[other] = at / 2
		}
	}
}

// TestDeadlinesLate: if this process was late, answers that have arrived meanwhile can be read
// before a deadline expires. That happens once.
func TestDeadlinesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deadlines{after: func() {}}
		var mu sync.Mutex
		expired := 0
		d := &deadline{expire: func() { mu.Lock(); expired++; mu.Unlock() }}
		check := func(want int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if expired != want {
				t.Fatalf("expired %d times, want %d", expired, want)
			}
		}
		runLate := func(by time.Duration) { // as if the timer had
			q.timer.Stop()
			time.Sleep(by)
			q.run()
		}
		q.set(d, time.Now().Add(time.Second))
		runLate(time.Second + overdue)
		check(0)
		time.Sleep(catchUp - 1)
		check(0)
		time.Sleep(time.Nanosecond)
		check(1)

		q.set(d, time.Now().Add(time.Second))
		runLate(time.Second + overdue)
		runLate(catchUp + overdue)
		check(2)

		q.set(d, time.Now().Add(time.Second))
		runLate(time.Second + overdue - 1)
		check(3)
	})
}

// TestDeadlinesLateHold: a deadline that is set while the others wait does not make them expire
// sooner.
func TestDeadlinesLateHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var expired []time.Duration
		late0 := time.Time{}
		note := func() { mu.Lock(); expired = append(expired, time.Since(late0)); mu.Unlock() }
		q := &deadlines{after: func() {}}
		d, soon := &deadline{expire: note}, &deadline{expire: note}
		q.set(d, time.Now().Add(time.Second))
		q.timer.Stop()
		time.Sleep(time.Second + overdue)
		late0 = time.Now()
		q.run()
		q.set(soon, time.Now().Add(time.Millisecond))
		q.run() // as if the timer had been set twice
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(expired, []time.Duration{catchUp, catchUp}) {
			t.Errorf("expired after %v, want %v", expired, catchUp)
		}
	})
}

// TestDeadlineTimer: cancelled deadlines do not move the timer, so it runs about once in the time
// of one.
func TestDeadlineTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deadlines{after: func() {}}
		runs := 0
		last := time.Time{}
		for range 1000 {
			d := &deadline{expire: func() { t.Error("expired although cancelled") }}
			q.set(d, time.Now().Add(50*time.Millisecond))
			q.mu.Lock()
			wake := q.wake
			q.mu.Unlock()
			if wake != last {
				last, runs = wake, runs+1
			}
			time.Sleep(time.Millisecond)
			q.cancel(d)
		}
		if runs > 25 {
			t.Errorf("the timer was set %d times in a second, want about 20", runs)
		}
	})
}
