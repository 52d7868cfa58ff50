package adopt

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// run is one scenario of one library at one place. Its steps are noted, and compared with those of
// another place.
type run struct {
	library
	programs  *programs
	near, far string // addresses: of two proxies, or of one Redis
	password  string // or ""
	key       string
	inside    *atomic.Int32 // how many workers have the lock; nil: only those of this run

	mu     sync.Mutex
	steps  []string
	faults []string
}

// client connects a client to an address.
func (r *run) client(addr string) *client {
	c, err := r.programs.connect(r.library, addr, r.password)
	if err != nil {
		r.fault("%v", err)
		return &client{p: &program{name: r.name}} // answers that its program has ended
	}
	return c
}

func (r *run) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// report fails the test if the run has faults.
func (r *run) report(t *testing.T, where string) {
	t.Helper()
	for _, fault := range r.faults {
		t.Errorf("%s %s: %s", r.key, where, fault)
	}
}

// step notes an answer.
func (r *run) step(what string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, fmt.Sprintf("%s: %v", what, a))
}

// want is step for an answer that the scenario expects.
func (r *run) want(what string, a answer, yes bool) {
	r.step(what, a)
	if a.Yes != yes || a.Error != "" {
		r.fault("%s: got %v, want %v", what, a, answer{Yes: yes})
	}
}

// scenario is a row of the table that all libraries share. Its times are whole seconds, because
// some libraries count in seconds.
type scenario struct {
	name string
	// fits is nil if all libraries can do it.
	fits func(l library) bool
	run  func(r *run)
}

const long = 20 * time.Second // the ttl of a lock that does not expire in a test

var scenarios = []scenario{
	{name: "excludes", run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, long)
		r.want("b acquires a held lock", b.acquire(r.key, long, 0), false)
		r.want("a releases", a.release(), true)
		r.take("b acquires", b, long)
		r.step("a releases again", a.release())
		r.want("a acquires a held lock", a.acquire(r.key, long, 0), false)
		r.want("b releases", b.release(), true)
	}},

	{name: "waits", run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, long)
		waiting := b.later(request{Op: "acquire", Key: r.key, TTL: long.Milliseconds(), Wait: long.Milliseconds()})
		select {
		case got := <-waiting:
			r.want("b acquires a held lock", got, false)
		case <-time.After(200 * time.Millisecond):
		}
		r.want("a releases", a.release(), true)
		r.want("b acquires", <-waiting, true)
		r.want("b releases", b.release(), true)
	}},

	{name: "expires", fits: func(l library) bool { return !l.renews }, run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, 2*time.Second)
		r.want("b waits", b.acquire(r.key, long, long), true)
		if !r.noExtend {
			r.want("a extends too late", a.extend(long), false)
		}
		r.want("a releases too late", a.release(), r.mute)
		r.want("a acquires a held lock", a.acquire(r.key, long, 0), false)
		r.want("b releases", b.release(), true)
	}},

	{name: "does not revive", fits: func(l library) bool { return !l.renews && !l.noExtend }, run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, 2*time.Second)
		time.Sleep(3 * time.Second)
		r.want("a extends too late", a.extend(long), r.retakes)
		if r.retakes {
			r.want("b acquires a held lock", b.acquire(r.key, long, 0), false)
		} else {
			r.take("b acquires", b, long)
		}
	}},

	{name: "extends", fits: func(l library) bool { return !l.noExtend }, run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, 12*time.Second)
		time.Sleep(7 * time.Second)
		r.want("a extends", a.extend(long), true)
		time.Sleep(7 * time.Second) // redsync has extended by 12 s
		r.want("b acquires a held lock", b.acquire(r.key, long, 0), false)
		r.want("a releases", a.release(), true)
		r.take("b acquires", b, long)
	}},

	{name: "renews", fits: func(l library) bool { return l.renews }, run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, 4*time.Second)
		time.Sleep(5 * time.Second)
		r.want("b acquires a held lock", b.acquire(r.key, long, 0), false)
		r.want("a releases", a.release(), true)
		r.take("b acquires", b, long)
	}},

	// The client's connections end and lead to the other proxy, which has not granted the lock.
	{name: "moves", run: func(r *run) {
		both, err := startSwitch(r.near)
		if err != nil {
			r.fault("%v", err)
			return
		}
		defer both.close()
		a, b := r.client(both.addr), r.client(r.near)
		r.take("a acquires", a, long)
		both.turn(r.far)
		if !r.noExtend {
			r.soon("a extends", func() answer { return a.extend(2 * long) })
		}
		r.want("b acquires a held lock", b.acquire(r.key, long, 0), false)
		r.soon("a releases", a.release)
		r.take("b acquires", b, long)
		r.want("a releases again", a.release(), r.mute)
		r.want("a acquires a held lock", a.acquire(r.key, long, 0), false)
	}},

	{name: "reads", fits: func(l library) bool { return l.can("held") }, run: func(r *run) {
		a := r.client(r.near)
		r.take("a acquires", a, long)
		r.want("a holds", a.do(request{Op: "held"}), true)
		r.want("a releases", a.release(), true)
		r.want("a holds no longer", a.do(request{Op: "held"}), false)
	}},

	{name: "releases by force", fits: func(l library) bool { return l.can("force") }, run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, long)
		r.want("a forces", a.do(request{Op: "force"}), true)
		r.take("b acquires", b, long)
		r.want("a releases too late", a.release(), false)
	}},

	// redis-py's other ways to extend; the first shortens.
	{name: "reacquires", fits: func(l library) bool { return l.can("reacquire") }, run: func(r *run) {
		a, b := r.client(r.near), r.client(r.far)
		r.take("a acquires", a, long)
		r.want("a replaces the ttl", a.do(request{Op: "replace", TTL: 4000}), true)
		r.want("b waits", b.acquire(r.key, 9*time.Second, 10*time.Second), true)
		r.want("a reacquires too late", a.do(request{Op: "reacquire"}), false)
		time.Sleep(5 * time.Second)
		r.want("b reacquires", b.do(request{Op: "reacquire"}), true)
		time.Sleep(5 * time.Second)
		r.want("b still holds", b.do(request{Op: "held"}), true)
	}},

	// Eight workers read a number, add one and write it, over the connection that also has the lock.
	{name: "counts", run: func(r *run) { r.count(8, 5, func(int) {}) }},
}

// take acquires a free lock. On a busy machine a grant may come too late, which is "no" at the
// lock listener, or the error that the proxy itself was late; libraries ask again then.
func (r *run) take(what string, c *client, ttl time.Duration) {
	const tries = 3
	var got answer
	for range tries {
		if got = c.acquire(r.key, ttl, 0); got.Yes || got.Error != "" && !lab.Late(got.Error) {
			break
		}
	}
	r.want(what, got, true)
}

// soon asks again while the answer is an error, which must then be yes. An error is that of a
// connection that was cut: some libraries report it once.
func (r *run) soon(what string, ask func() answer) {
	var got answer
	lab.Poll(lab.Patience, func() bool { got = ask(); return got.Error == "" })
	r.want(what, got, true)
}

// count lets workers increment a number under the lock, rounds times each. It calls between with
// the lock held, with the number of increments.
func (r *run) count(workers, rounds int, between func(done int)) {
	var wg sync.WaitGroup
	var done atomic.Int32
	inside := r.inside
	if inside == nil {
		inside = new(atomic.Int32)
	}
	for i := range workers {
		c := r.client([]string{r.near, r.far}[i%2])
		round := func() (taken bool) {
			if got := c.acquire(r.key, long, 2*long); !got.Yes {
				r.fault("worker %d acquires: got %v, want yes", i, got)
				return false
			}
			if n := inside.Add(1); n != 1 {
				r.fault("worker %d: got %d inside, want 1", i, n)
			}
			if got := c.do(request{Op: "add", Key: counterOf(r.key)}); !got.Yes {
				r.fault("worker %d adds: got %v, want yes", i, got)
			}
			between(int(done.Add(1)))
			inside.Add(-1)
			if got := c.release(); !got.Yes {
				r.fault("worker %d releases: got %v, want yes", i, got)
			}
			return true
		}
		wg.Go(func() {
			for n := 0; n < rounds && round(); n++ {
			}
		})
	}
	wg.Wait()
	r.step(fmt.Sprintf("%d rounds", done.Load()), answer{Yes: true})
}

// keyOf returns a lock key of a library's scenario.
func keyOf(l library, scenario string) string {
	return "lock:" + strings.NewReplacer(" ", "-", ",", "").Replace(l.name+":"+scenario)
}

// counterOf returns the key of the number that is incremented under a lock. It is no lock key.
func counterOf(key string) string { return "counter:" + key }

// TestLibrariesSeeTheSameAsOnRedis runs each scenario on one Redis and on two proxies.
func TestLibrariesSeeTheSameAsOnRedis(t *testing.T) {
	t.Parallel()
	one := lab.StartRedis(t)
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	programs := newPrograms(t)
	t.Run("all", func(t *testing.T) {
		each(t, func(t *testing.T, l library) {
			var here, there []*run
			var wg sync.WaitGroup
			for _, s := range scenarios {
				if s.fits != nil && !s.fits(l) {
					continue
				}
				key := keyOf(l, s.name)
				a := &run{library: l, programs: programs, near: one.Addr, far: one.Addr, key: key}
				b := &run{library: l, programs: programs, near: d.near, far: d.far, key: key}
				wg.Go(func() { s.run(a) })
				wg.Go(func() { s.run(b) })
				here, there = append(here, a), append(there, b)
			}
			wg.Wait()
			for i, a := range here {
				b := there[i]
				a.report(t, "on Redis")
				b.report(t, "on lockproxy")
				if !slices.Equal(a.steps, b.steps) {
					t.Errorf("%s: got\n%s\non Redis:\n%s", b.key, strings.Join(b.steps, "\n"), strings.Join(a.steps, "\n"))
				}
			}
			wantCount(t, one, keyOf(l, "counts"), 8*5)
			wantCount(t, d.Upstream, keyOf(l, "counts"), 8*5)
		})
	})
	wantNoLocks(t, d.Upstream)
}

// wantCount fails if the number that count incremented is another.
func wantCount(t *testing.T, s *lab.Redis, key string, want int) {
	t.Helper()
	if got, want := s.Do(t, "GET", counterOf(key)), lab.Bulk(fmt.Sprint(want)); got != want {
		t.Errorf("%s: got %q, want %q", counterOf(key), got, want)
	}
}

// wantNoLocks fails if a lock is on the upstream.
func wantNoLocks(t *testing.T, upstream *lab.Redis) {
	t.Helper()
	for _, key := range lab.Fields(upstream.Do(t, "KEYS", "*lock:*")) {
		if !strings.HasPrefix(key, "counter:") {
			t.Errorf("keys on the upstream: got the lock %s, want none", key)
		}
	}
}
