package quorum

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// heard keeps the ids that a Watch reports.
type heard struct {
	mu  sync.Mutex
	ids []string
}

func (h *heard) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// count returns how often a Watch reported id.
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

// A Watch reports a release through any proxy, once by each master.
func TestWatchReportsEachReleaseOnce(t *testing.T) {
	for kind, start := range startThree {
		t.Run(kind, func(t *testing.T) {
			addrs := start(t)
			q, other := dialQuorum(t, addrs), dialQuorum(t, addrs)
			var job, jobs heard
			defer q.Watch(t.Context(), "job", job.add)()
			defer q.Watch(t.Context(), "jobs", jobs.add)()
			waitSubscribed(t, addrs, "lock:job")
			for i, via := range []*Quorum{other, q, other} {
				lease := mustAcquire(t, other, "job", 20*time.Second)
				waitDrained(t, []*Quorum{other}) // the third grant, which another proxy's release may overtake
				id := ReleaseID(lease.Token.Secret)
				if i == 2 {
					via.Abandon("job", lease.Token)
				} else {
					mustRelease(t, via, "job", lease.Token)
				}
				if !poll(aWhile, func() bool { return job.count(id) == 3 }) {
					t.Errorf("release %d was told %d times, want by 3 masters", i, job.count(id))
				}
			}
			if job.total() != 9 || jobs.total() != 0 {
				t.Errorf("told %v and %v", job.ids, jobs.ids)
			}
		})
	}
}

// publishes returns how many PUBLISH the servers have carried out.
func publishes(t *testing.T, servers []*redisServer) (n int) {
	t.Helper()
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

// Masters publish only if a client waits, and only for an UNLOCK or the end of a session. No keys
// are kept for it.
func TestPublishOnlyToWaiters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	for _, s := range servers { // the trial of rights has published, too
		s.ConfigResetStat(t.Context())
	}
	published := func() int { return publishes(t, servers) }
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
	waitSubscribed(t, addrs, "lock:job")
	waitSubscribed(t, addrs, "lock:other")
	lease := mustAcquire(t, q, "job", 20*time.Second)
	waitDrained(t, []*Quorum{q})
	// A failed attempt is undone silently: the first two masters grant it and it is released
	// there.
	for _, s := range servers[1:] {
		s.Set(t.Context(), "lock:other", "foreign", time.Minute)
	}
	if _, err := q.Acquire(t.Context(), Request{Key: "other", TTL: time.Second}); err == nil {
		t.Error("granted over a foreign key")
	}
	// The rest of a lost lock fades silently.
	for _, s := range servers[1:] {
		s.Del(t.Context(), "lock:job")
	}
	if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, 20*time.Second, false); err == nil {
		t.Error("extended a lost lock")
	}
	if !poll(aWhile, func() bool { return strays(t, servers[0]) == 0 }) {
		t.Errorf("%d keys left", strays(t, servers[0]))
	}
	if n := published(); n != 0 || h.total() != 0 {
		t.Errorf("%d PUBLISH, told %v", n, h.ids)
	}
	pair()
	if n := published(); n != 3 || !poll(aWhile, func() bool { return h.total() == 3 }) {
		t.Errorf("%d PUBLISH, told %v, want three", n, h.ids)
	}
	stop()
	if !poll(aWhile, func() bool { pair(); n := published(); pair(); return published() == n }) {
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

// A release that goes out only after a hand-over is reported as well.
func TestOwedReleaseIsTold(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	relay := newRelay(t, addrs[2])
	q := dialQuorum(t, []string{addrs[0], addrs[1], relay.addr})
	watcher := dialQuorum(t, addrs)
	var h heard
	defer watcher.Watch(t.Context(), "job", h.add)()
	waitSubscribed(t, addrs, "lock:job")
	lease := mustAcquire(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	relay.freeze()
	mustRelease(t, q, "job", lease.Token)
	relay.cut(false)
	if id := ReleaseID(lease.Token.Secret); !poll(aWhile, func() bool { return h.count(id) == 3 }) {
		t.Errorf("told %v, want by all three", h.ids)
	}
	for _, s := range servers {
		if n := strays(t, s); n != 0 {
			t.Errorf("%d keys left", n)
		}
	}
}

// A Watch does not wait for a master that is down. One that comes back is subscribed to anew, and
// the watcher is woken: it may have missed a release.
func TestWatchThroughFaults(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	var h heard
	stop := q.Watch(t.Context(), "job", h.add)
	defer stop()
	waitSubscribed(t, addrs, "lock:job")
	servers[2].server.Kill()
	lease := eventually(t, q, "job", 20*time.Second)
	if !poll(aWhile, func() bool { return q.Masters()[0].Grants+q.Masters()[1].Grants >= 2 }) {
		t.Fatal("a grant is missing")
	}
	mustRelease(t, q, "job", lease.Token)
	if !poll(aWhile, func() bool { return h.count(ReleaseID(lease.Token.Secret)) == 2 }) {
		t.Errorf("told %v", h.ids)
	}
	q.Watch(t.Context(), "other", h.add)()
	if h.count("") != 0 {
		t.Errorf("woken %d times before it is back", h.count(""))
	}
	servers[2].server.Restart(t)
	if !poll(aWhile, func() bool { return h.count("") == 1 }) {
		t.Errorf("woken %d times after the subscription was made anew, want once", h.count(""))
	}
	lease = eventually(t, q, "job", 20*time.Second)
	waitDrained(t, []*Quorum{q})
	mustRelease(t, q, "job", lease.Token)
	if id := ReleaseID(lease.Token.Secret); !poll(aWhile, func() bool { return h.count(id) == 3 }) {
		t.Errorf("reported %d times by the three", h.count(id))
	}
}

// Close ends every Watch, and a later Watch returns.
func TestWatchAndClose(t *testing.T) {
	_, addrs := startMasters(t, 1)
	q := dialQuorum(t, addrs)
	var h heard
	stop := q.Watch(t.Context(), "job", h.add)
	if err := q.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	q.Watch(t.Context(), "job", h.add)()
}
