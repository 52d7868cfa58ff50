package netpoll

import (
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// span is some time in which the workers use so much of a core each, in percent.
type span struct {
	millis  int
	percent []int // of worker 0 and so on; workers that are missing give no sample
	want    int   // workers at the end of it
}

// plenty is a processor time that is always enough.
func plenty() func() time.Duration {
	var cpu time.Duration
	return func() time.Duration { cpu += time.Hour; return cpu }
}

func TestWorkersFollowTheLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		most  int
		spans []span
	}{
		{"idle", 4, []span{{5000, []int{5}, 1}}},
		{"clocks that run backwards", 4, []span{{5000, []int{-50}, 1}}},
		{"busy for less than 100 ms", 4, []span{{90, []int{100}, 1}}},
		{"not quite busy", 4, []span{{5000, []int{79}, 1}}},
		{"busy for 100 ms", 4, []span{{100, []int{85}, 2}}},
		{"short bursts", 4, []span{{50, []int{100}, 1}, {50, []int{30}, 1}, {50, []int{100}, 1}, {50, []int{30}, 1}}},
		{"one processor", 1, []span{{5000, []int{100}, 1}}},
		{"only one of two is busy", 4, []span{{100, []int{100}, 2}, {1000, []int{100, 60}, 2}}},
		{"the second is parked", 4, []span{{100, []int{100}, 2}, {400, []int{100}, 2}}},
		{"was busy long ago", 4, []span{{100, []int{100}, 2}, {200, []int{60, 100}, 2}, {100, []int{100}, 2}}},
		{"all get busy", 3, []span{{100, []int{100}, 2}, {100, []int{100, 100}, 3}, {2000, []int{100, 100, 100}, 3}}},
		{"the load falls", 3, []span{{100, []int{100}, 2}, {490, []int{20, 20}, 2}, {20, []int{20, 20}, 1},
			{2000, []int{40}, 1}}},
		{"the load falls a little", 3, []span{{100, []int{100}, 2}, {3000, []int{30, 30}, 2}}},
		{"three of which one is enough", 3, []span{{100, []int{100}, 2}, {100, []int{100, 100}, 3},
			{510, []int{10, 10, 10}, 2}, {510, []int{15, 15}, 1}}},
		{"a worker that is about to rest", 3, []span{{100, []int{100}, 2}, {510, []int{10, 10}, 1},
			{50, []int{10, 100}, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			l := newLoad(c.most, now, plenty())
			for i, s := range c.spans {
				for range s.millis / 10 {
					now = now.Add(10 * time.Millisecond)
					for w, percent := range s.percent {
						l.add(w, now, time.Duration(percent)*100*time.Microsecond)
					}
				}
				if l.active != s.want {
					t.Fatalf("after span %d: %d workers, want %d", i+1, l.active, s.want)
				}
			}
		})
	}
}

// A worker that was parked for long gives one sample for all that time.
func TestLoadAfterPause(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLoad(2, now, plenty())
	now = now.Add(150 * time.Millisecond)
	l.add(0, now, 140*time.Millisecond)
	if l.active != 2 {
		t.Fatal("no second worker")
	}
	if l.add(0, now.Add(time.Hour), time.Millisecond); l.active != 1 {
		t.Error("the second worker does not rest")
	}
}

// Workers that run only because other processes have the processors are not busy.
func TestLoadWithoutProcessor(t *testing.T) {
	now, cpu := time.Unix(1000, 0), time.Duration(0)
	l := newLoad(3, now, func() time.Duration { return cpu })
	for _, c := range []struct {
		percent int // of a core, that the process got
		want    int // workers
	}{{79, 1}, {81, 2}, {159, 2}, {161, 3}} {
		now = now.Add(busyTime)
		cpu += busyTime * time.Duration(c.percent) / 100
		for i := range l.active {
			l.ran[i] = busyTime
		}
		if l.add(0, now, 0); l.active != c.want {
			t.Errorf("%d%%: %d workers, want %d", c.percent, l.active, c.want)
		}
	}
}

// threadTime is the processor time that the calling thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// Workers start and rest as the load decides, and serve all the while.
func TestWorkersStartAndRest(t *testing.T) {
	ls := NewPollers()
	defer ls.Close()
	c, other := adopted(t, ls, "tcp")
	ls.mu.Lock()
	ls.workers, ls.load.ran = append(ls.workers[:1], nil), make([]time.Duration, 2)
	ls.load.since, ls.load.cpuTime = time.Now().Add(time.Hour), plenty() // none rests by itself
	ls.mu.Unlock()
	var buf Buffer
	c.Watch(&buf, func() bool {
		c.TryWrite(buf.Bytes())
		buf.Skip(len(buf.Bytes()))
		return false
	}, func(error) {})
	running := func() (n int) {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, w := range ls.workers {
			if w != nil {
				n++
			}
		}
		return n
	}
	for range 30 {
		if n := running(); n != 1 {
			t.Fatalf("%d workers at first", n)
		}
		judge := func(past, used time.Duration) {
			ls.mu.Lock()
			defer ls.mu.Unlock()
			now := time.Now()
			ls.load.since = now.Add(-past)
			clear(ls.load.ran)
			ls.load.add(0, now, used)
			_ = ls.startLocked()
			ls.load.since = now.Add(time.Hour)
		}
		judge(busyTime, busyTime)
		if n := running(); n != 2 {
			t.Fatalf("%d workers under load", n)
		}
		roundTrips(t, []net.Conn{other}, 100)
		judge(restTime, 0)
		eventually(t, "the second worker rests", func() bool {
			roundTrips(t, []net.Conn{other}, 1)
			return running() == 1
		})
	}
	c.Close()
}

// Real load starts a second worker.
func TestLoadStartsWorker(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor")
	}
	ls := NewPollers()
	defer ls.Close()
	for range 4 {
		c, other := adopted(t, ls, "tcp")
		collect(c, func() bool {
			for begun := threadTime(); threadTime()-begun < 200*time.Microsecond; {
			}
			other.Write([]byte("x"))
			return false
		})
		other.Write([]byte("x"))
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		ls.mu.Lock()
		active := ls.load.active
		ls.mu.Unlock()
		if active > 1 {
			return
		}
		if time.Since(start) > 30*time.Second {
			break
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, begun := time.Now(), threadTime()
	for time.Since(start) < 300*time.Millisecond {
	}
	if used := threadTime() - begun; used < 270*time.Millisecond {
		t.Skipf("the machine is busy: %v in 300ms", used)
	}
	t.Error("one worker after 30s of load")
}
