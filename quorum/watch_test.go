package quorum

import (
	"context"
	"crypto/sha1"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// heard keeps what a Watch is told.
type heard struct {
	mu  sync.Mutex
	ids []string
}

func (h *heard) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// count is how often id was told.
func (h *heard) count(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, got := range h.ids {
		if got == id {
			n++
		}
	}
	return n
}

func (h *heard) total() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ids)
}

// patient is for the masters of a busy machine.
func patient(o *Options) { o.MasterTimeout = time.Second }

// startThree starts three masters of a kind.
var startThree = map[string]func(t *testing.T) []string{
	"miniredis": func(t *testing.T) []string {
		return []string{startMini(t).Addr(), startMini(t).Addr(), startMini(t).Addr()}
	},
	"redis": func(t *testing.T) []string { _, addrs := startMasters(t, 3); return addrs },
}

func TestReleaseID(t *testing.T) {
	if got, want := ReleaseID(mine), fmt.Sprintf("%x", sha1.Sum([]byte(mine)))[:16]; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// B19: whoever watches is told of a release through any proxy, once by each master.
func TestWatch(t *testing.T) {
	for kind, start := range startThree {
		t.Run(kind, func(t *testing.T) {
			addrs := start(t)
			q, other := dialQuorum(t, addrs, patient), dialQuorum(t, addrs, patient)
			var job, jobs heard
			begin := time.Now()
			defer q.Watch(t.Context(), "job", job.add)()
			defer q.Watch(t.Context(), "jobs", jobs.add)()
			if took := time.Since(begin); took > 900*time.Millisecond {
				t.Errorf("took %v, want as long as a majority needs", took)
			}
			if !poll(5*time.Second, func() bool { return q.ears.heardBy("job") == 3 }) {
				t.Fatalf("heard by %d masters", q.ears.heardBy("job"))
			}
			for i, via := range []*Quorum{other, q, other} {
				lease := mustAcquire(t, other, "job", 20*time.Second)
				waitDrained(t, []*Quorum{other}) // the third grant, which another proxy's release may overtake
				id := ReleaseID(lease.Token.Secret)
				if i == 2 {
					via.Abandon("job", lease.Token)
				} else {
					mustRelease(t, via, "job", lease.Token)
				}
				if !poll(5*time.Second, func() bool { return job.count(id) == 3 }) {
					t.Errorf("release %d was told %d times, want by 3 masters", i, job.count(id))
				}
			}
			if job.total() != 9 || jobs.total() != 0 {
				t.Errorf("told %v and %v", job.ids, jobs.ids)
			}
		})
	}
}

// B20: of several that watch a key, one that stops takes nothing from the others, and when all have, no
// channel is left.
func TestWatchOverlaps(t *testing.T) {
	for kind, start := range startThree {
		t.Run(kind, func(t *testing.T) {
			addrs := start(t)
			q := dialQuorum(t, addrs, patient)
			release := func() string {
				lease := mustAcquire(t, q, "job", 20*time.Second)
				mustRelease(t, q, "job", lease.Token)
				return ReleaseID(lease.Token.Secret)
			}
			stop := q.Watch(t.Context(), "job", new(heard).add)
			for range 20 {
				old, next, again := new(heard), new(heard), new(heard)
				before := stop
				stop = q.Watch(t.Context(), "job", old.add)
				before()
				id := release()
				if !poll(5*time.Second, func() bool { return old.count(id) >= 2 }) {
					t.Fatalf("told %v, want %s by a majority although another stopped", old.ids, id)
				}
				nextStop := q.Watch(t.Context(), "job", next.add)
				stop()
				stop()
				id = release()
				if !poll(5*time.Second, func() bool { return next.count(id) >= 2 }) {
					t.Fatalf("told %v, want %s by a majority", next.ids, id)
				}
				if old.count(id) != 0 {
					t.Error("told after stop")
				}
				// Let go and taken up again, faster than a master confirms.
				nextStop()
				stop = q.Watch(t.Context(), "job", again.add)
				id = release()
				if !poll(5*time.Second, func() bool { return again.count(id) >= 2 }) {
					t.Fatalf("taken up again: told %v, want %s", again.ids, id)
				}
			}
			stop()
			if kind == "redis" {
				for _, addr := range addrs {
					c := (&MasterOptions{Addr: addr})
					client, _ := c.onceClient()
					left := poll(5*time.Second, func() bool { return len(client.PubSubChannels(t.Context(), "*").Val()) == 0 })
					if !left {
						t.Errorf("%v still subscribed", client.PubSubChannels(t.Context(), "*").Val())
					}
					_ = client.Close()
				}
			}
			if n := len(q.ears.watched); n != 0 {
				t.Errorf("%d channels kept", n)
			}
		})
	}
}

// B21: nothing is published when nobody waits, and nothing but an UNLOCK or the end of a session publishes at all. No keys are
// kept for it.
func TestPublishOnlyToWaiters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs, patient)
	published := func() (n int) {
		for _, s := range servers {
			for line := range strings.Lines(s.Info(t.Context(), "commandstats").Val()) {
				var calls int
				if _, err := fmt.Sscanf(line, "cmdstat_publish:calls=%d", &calls); err == nil {
					n += calls
				}
			}
		}
		return n
	}
	pair := func() {
		lease := mustAcquire(t, q, "job", 20*time.Second)
		mustRelease(t, q, "job", lease.Token)
		waitDrained(t, []*Quorum{q})
	}
	pair()
	if n := published(); n != 0 {
		t.Errorf("%d PUBLISH, nobody watches", n)
	}
	var h heard
	stop := q.Watch(t.Context(), "job", h.add)
	defer stop()
	elsewhere := q.Watch(t.Context(), "other", h.add)
	defer elsewhere()
	lease := mustAcquire(t, q, "job", 20*time.Second)
	waitDrained(t, []*Quorum{q})
	// A failed attempt is undone silently: the first two masters grant it and it is released there.
	for _, s := range servers[1:] {
		s.Set(t.Context(), "lock:other", "foreign", time.Minute)
	}
	if _, err := q.Acquire(t.Context(), Request{Key: "other", TTL: time.Second}); err == nil {
		t.Error("granted over a foreign key")
	}
	// So is what is left of a lost lock.
	for _, s := range servers[1:] {
		s.Del(t.Context(), "lock:job")
	}
	if _, err := q.Extend(t.Context(), "job", lease.Token, 20*time.Second); err == nil {
		t.Error("extended a lost lock")
	}
	waitDrained(t, []*Quorum{q})
	if n := published(); n != 0 || h.total() != 0 || strays(t, servers[0]) != 0 {
		t.Errorf("%d PUBLISH, told %v, %d keys left", n, h.ids, strays(t, servers[0]))
	}
	pair()
	if n := published(); n != 3 || !poll(5*time.Second, func() bool { return h.total() == 3 }) {
		t.Errorf("%d PUBLISH, told %v, want three", n, h.ids)
	}
	stop()
	if !poll(5*time.Second, func() bool { pair(); n := published(); pair(); return published() == n }) {
		t.Error("still published after stop")
	}
	for i, s := range servers {
		for _, key := range s.Keys(t.Context(), "lockproxy:*").Val() {
			if key != testState {
				t.Errorf("server %d keeps %s", i+1, key)
			}
		}
	}
}

// A release that goes out only after a hand-over is told as well.
func TestOwedReleaseIsTold(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	relay := newRelay(t, addrs[2])
	q := dialQuorum(t, []string{addrs[0], addrs[1], relay.addr}, patient)
	watcher := dialQuorum(t, addrs, patient)
	var h heard
	defer watcher.Watch(t.Context(), "job", h.add)()
	lease := mustAcquire(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	relay.freeze()
	mustRelease(t, q, "job", lease.Token)
	relay.cut(false)
	if id := ReleaseID(lease.Token.Secret); !poll(5*time.Second, func() bool { return h.count(id) == 3 }) {
		t.Errorf("told %v, want by all three", h.ids)
	}
	for _, s := range servers {
		if n := strays(t, s); n != 0 {
			t.Errorf("%d keys left", n)
		}
	}
}

// A master that hangs or is down costs a Watch no more than the master timeout, in which the others tell; one that comes back
// is subscribed to anew, and whoever watches is woken, as something may have been missed.
func TestWatchThroughFaults(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs, patient)
	var h heard
	stop := q.Watch(t.Context(), "job", h.add)
	defer stop()
	if !poll(5*time.Second, func() bool { return q.ears.heardBy("job") == 3 }) {
		t.Fatalf("heard by %d masters", q.ears.heardBy("job"))
	}
	servers[2].signal(t, syscall.SIGKILL)
	_ = servers[2].cmd.Wait()
	if !poll(5*time.Second, func() bool { return q.ears.heardBy("job") == 2 }) {
		t.Fatal("the loss was not noticed")
	}
	lease := eventually(t, q, "job", 20*time.Second)
	mustRelease(t, q, "job", lease.Token)
	if !poll(5*time.Second, func() bool { return h.count(ReleaseID(lease.Token.Secret)) == 2 }) {
		t.Errorf("told %v", h.ids)
	}
	if h.count("") != 0 {
		t.Errorf("woken %d times before it is back", h.count(""))
	}
	servers[2] = servers[2].restart(t)
	if !poll(10*time.Second, func() bool { return h.count("") == 1 }) {
		t.Errorf("woken %d times after the subscription was made anew, want once", h.count(""))
	}
	lease = eventually(t, q, "job", 20*time.Second)
	waitDrained(t, []*Quorum{q})
	mustRelease(t, q, "job", lease.Token)
	if id := ReleaseID(lease.Token.Secret); !poll(5*time.Second, func() bool { return h.count(id) == 3 }) {
		t.Errorf("told %d times by the three", h.count(id))
	}

	servers[1].signal(t, syscall.SIGSTOP)
	begin := time.Now()
	q.Watch(t.Context(), "other", h.add)()
	if took := time.Since(begin); took > 500*time.Millisecond {
		t.Errorf("took %v with one of three hung", took)
	}
	servers[0].signal(t, syscall.SIGSTOP)
	begin = time.Now()
	var late heard
	defer q.Watch(t.Context(), "another", late.add)()
	if took := time.Since(begin); took < time.Second || took > 1500*time.Millisecond {
		t.Errorf("took %v with two of three hung, want the master timeout", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin = time.Now()
	q.Watch(ctx, "third", h.add)()
	if took := time.Since(begin); took > 500*time.Millisecond {
		t.Errorf("took %v for a caller who is gone", took)
	}
	// Silence is noticed on the connections of their own, too.
	if !poll(10*time.Second, func() bool { return q.ears.heardBy("job") == 1 }) {
		t.Errorf("%d masters still count as heard", q.ears.heardBy("job"))
	}
	// The Watch that returned without a majority is woken by those that confirm later.
	if n := late.count(""); n != 0 {
		t.Errorf("woken %d times by masters that hang", n)
	}
	servers[0].signal(t, syscall.SIGCONT)
	servers[1].signal(t, syscall.SIGCONT)
	if !poll(10*time.Second, func() bool { return late.count("") > 0 }) {
		t.Error("not woken by a confirmation that came late")
	}
}

// heardBy is how many masters have confirmed the subscription to a key.
func (e *ears) heardBy(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.watched[releasedPrefix+"lock:"+key]; w != nil {
		return w.count
	}
	return 0
}

// Many watched keys share one connection to each master and need no goroutine each; after the last is let go the connections
// close.
func TestWatchIsBounded(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs, patient)
	const keys = 2000
	stops := make([]func(), keys)
	var h heard
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := g; i < keys; i += 20 {
				stops[i] = q.Watch(t.Context(), fmt.Sprint("job", i), h.add)
			}
		})
	}
	wg.Wait()
	clients := func(s *redisServer) int {
		return strings.Count(s.ClientList(t.Context()).Val(), "\n")
	}
	for i, s := range servers {
		if !poll(5*time.Second, func() bool { return len(s.PubSubChannels(t.Context(), "lockproxy:released:*").Val()) == keys }) {
			t.Errorf("server %d: %d channels", i+1, len(s.PubSubChannels(t.Context(), "*").Val()))
		}
		if n := clients(s); n != 3 { // the lane, the ear, this test
			t.Errorf("server %d: %d connections, want 3", i+1, n)
		}
	}
	for _, stop := range stops {
		stop()
	}
	for i, s := range servers {
		if !poll(5*time.Second, func() bool { return len(s.PubSubChannels(t.Context(), "*").Val()) == 0 }) {
			t.Errorf("server %d: channels left", i+1)
		}
	}
	q.ears.mu.Lock()
	if q.ears.idle.IsZero() {
		t.Error("not idle")
	}
	q.ears.idle = q.ears.idle.Add(-keepEars) // as if that long had passed
	q.ears.mu.Unlock()
	for i, s := range servers {
		if !poll(5*time.Second, func() bool { return clients(s) == 2 }) {
			t.Errorf("server %d: %d connections, want 2", i+1, clients(s))
		}
	}
	// And again.
	defer q.Watch(t.Context(), "job", h.add)()
	if q.ears.heardBy("job") < 2 {
		t.Error("not heard after the connections were closed")
	}
}

// Watch after Close returns, and Close ends what is watched.
func TestWatchAndClose(t *testing.T) {
	_, addrs := startMasters(t, 1)
	q := dialQuorum(t, addrs, patient)
	var h heard
	stop := q.Watch(t.Context(), "job", h.add)
	if err := q.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	q.Watch(t.Context(), "job", h.add)()
}
