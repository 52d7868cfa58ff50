package adopt

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"lockproxy/integration/lab"
)

// installed returns the installed libraries that fit, and logs which ones are missing.
func installed(t *testing.T, fits func(l library) bool) (list []library) {
	t.Helper()
	for _, l := range libraries {
		if _, err := l.language.command(); err != nil {
			t.Logf("without %s: %v", l.name, err)
		} else if fits == nil || fits(l) {
			list = append(list, l)
		}
	}
	return list
}

// A master is killed while a client of each library holds a lock and others wait for it: no two
// have it at a time, and none sees an error.
func TestOneMasterMayDie(t *testing.T) {
	t.Parallel()
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	programs := newPrograms(t)
	const workers, rounds = 3, 4
	var half, all sync.WaitGroup // half of the rounds, all rounds
	killed := make(chan struct{})
	var runs []*run
	for _, l := range installed(t, nil) {
		r := &run{library: l, programs: programs, near: d.near, far: d.far, key: keyOf(l, "dies")}
		runs = append(runs, r)
		half.Add(1)
		all.Go(func() {
			var once sync.Once
			defer once.Do(half.Done) // if it fails before
			r.count(workers, rounds, func(done int) {
				if done == workers*rounds/2 {
					once.Do(half.Done)
					<-killed
				}
			})
		})
	}
	half.Wait()
	d.Masters[0].Kill()
	close(killed)
	all.Wait()
	for _, r := range runs {
		r.report(t, "with a master killed")
		wantCount(t, d.Upstream, r.key, workers*rounds)
	}
	wantNoLocks(t, d.Upstream)
}

// Two of three masters restart empty while a client of each library holds a lock. No second client
// gets it before its ttl ends, and one gets it then. A single Redis that restarts empty gives it
// away at once: there the ttl is an hour, which the test does not wait for.
func TestMastersMayRestartEmpty(t *testing.T) {
	t.Parallel()
	const ttl, maxTTL, ttlOnOne = 3 * time.Second, "4s", time.Hour
	one := lab.StartRedis(t)
	d := startAdopted(t, lab.Config{Flags: []string{"--max-ttl", maxTTL}})
	programs := newPrograms(t)
	var runs []*run
	for _, l := range installed(t, func(l library) bool { return !l.renews }) {
		runs = append(runs, &run{library: l, programs: programs, near: d.near, far: d.far, key: keyOf(l, "empty")})
	}
	ends := make(map[*run]time.Time) // of the first clients' ttls
	var mu sync.Mutex
	every(runs, func(r *run) {
		first, firstOnOne := r.client(r.near), r.client(one.Addr)
		r.take("acquires on Redis", firstOnOne, ttlOnOne)
		r.take("acquires", first, ttl)
		mu.Lock()
		defer mu.Unlock()
		ends[r] = time.Now().Add(ttl)
	})
	var restarts sync.WaitGroup
	for _, s := range append([]*lab.Redis{one}, d.Masters[:2]...) {
		restarts.Go(func() { s.RestartEmpty(t) })
	}
	restarts.Wait()
	every(runs, func(r *run) {
		second := r.client(one.Addr)
		r.soon("a second client acquires on Redis", func() answer { return second.acquire(r.key, ttl, 0) })
	})
	every(runs, func(r *run) {
		second := r.client(r.far)
		granted := lab.Poll(lab.Patience, func() bool { return second.acquire(r.key, ttl, 0).Yes })
		if early := time.Until(ends[r]); early > 0 {
			r.fault("second client: got the lock %v before its end", early)
		}
		if !granted {
			r.fault("second client: got no lock in %v", lab.Patience)
		}
	})
	for _, r := range runs {
		r.report(t, "with two masters empty")
	}
}

// every calls do for all runs at the same time.
func every(runs []*run, do func(r *run)) {
	var all sync.WaitGroup
	for _, r := range runs {
		all.Go(func() { do(r) })
	}
	all.Wait()
}

// The upstream stops: new clients lock and unlock, and clients that were connected go on. When it
// is back, so are all other commands.
func TestUpstreamMayStop(t *testing.T) {
	t.Parallel()
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	programs := newPrograms(t)
	var runs []*run
	for _, l := range installed(t, nil) {
		runs = append(runs, &run{library: l, programs: programs, near: d.near, far: d.far, key: keyOf(l, "away")})
	}
	old := make(map[*run]*client)
	for _, r := range runs {
		old[r] = r.client(r.near)
	}
	every(runs, func(r *run) { r.take("acquires", old[r], long) })
	d.Upstream.Kill()
	every(runs, func(r *run) {
		fresh := r.client(r.far)
		r.want("a new client acquires a held lock", fresh.acquire(r.key, long, 0), false)
		r.soon("the old client releases", old[r].release)
		r.take("a new client acquires", fresh, long)
		r.want("a new client releases", fresh.release(), true)
		r.soon("the old client acquires", func() answer { return old[r].acquire(r.key, long, 0) })
		r.want("the old client releases", old[r].release(), true)
	})
	d.Upstream.RestartEmpty(t)
	every(runs, func(r *run) {
		r.soon("the old client adds", func() answer { return old[r].do(request{Op: "add", Key: counterOf(r.key)}) })
		r.take("the old client acquires", old[r], long)
		r.want("the old client releases", old[r].release(), true)
	})
	for _, r := range runs {
		r.report(t, "with the upstream away")
	}
}

// With adopt-keys "*" and with an upstream that needs a password, all that libraries send when
// they connect still passes.
func TestEveryKeyMayBeALock(t *testing.T) {
	t.Parallel()
	for name, password := range map[string]string{"open": "", "with a password": "secret"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--adopt-listen", lab.FreeAddr(t), "--adopt-keys", "*"}
			var upstream *lab.Redis
			if password == "" {
				upstream = lab.StartCluster(t, 3, flags...).Upstream
			} else {
				upstream = lab.StartProtected(t, flags...).Upstream
			}
			var runs []*run
			programs := newPrograms(t)
			for _, l := range installed(t, nil) {
				runs = append(runs, &run{library: l, programs: programs, near: flags[1], far: flags[1], password: password,
					key: keyOf(l, "all")})
			}
			every(runs, (*run).lockAnyKey)
			for _, r := range runs {
				r.report(t, "with adopt-keys *")
			}
			if password == "" {
				wantNoLocks(t, upstream)
			} else if got := lab.AskAs(t, upstream, password, "DBSIZE"); got != ":0\r\n" {
				t.Errorf("keys on the upstream: got %q, want none", got)
			}
		})
	}
}

// lockAnyKey takes, extends and releases a lock where every key is a lock key.
func (r *run) lockAnyKey() {
	a, b := r.client(r.near), r.client(r.far)
	r.take("a acquires", a, long)
	r.want("b acquires a held lock", b.acquire(r.key, long, 0), false)
	if !r.noExtend {
		r.want("a extends", a.extend(2*long), true)
	}
	r.want("a releases", a.release(), true)
	if got := a.do(request{Op: "add", Key: r.key}); got.Yes && !r.silent {
		r.fault("a adds to a lock: got %v, want an error", got)
	}
}

// Clients of all libraries want one lock, and a master dies meanwhile.
func TestLibrariesExcludeEachOther(t *testing.T) {
	t.Parallel()
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	programs := newPrograms(t)
	const key, workers, rounds = "mutex:lock:shared", 2, 3
	var inside atomic.Int32
	var runs []*run
	for _, l := range installed(t, nil) {
		runs = append(runs, &run{library: l, programs: programs, near: d.near, far: d.far, inside: &inside,
			key: strings.TrimPrefix(key, l.prefix)})
	}
	var kill sync.Once
	every(runs, func(r *run) {
		r.count(workers, rounds, func(done int) {
			if done == workers*rounds/2 {
				kill.Do(d.Masters[0].Kill)
			}
		})
	})
	for _, r := range runs {
		r.report(t, "beside other libraries")
	}
}

// A lock of LOCK, of a Redlock library on the masters and of a library at the lock listener
// exclude each other.
func TestAdoptedLocksExcludeOthers(t *testing.T) {
	t.Parallel()
	d := startAdopted(t, lab.Config{Flags: []string{"--restart-guard", "off"}})
	programs := newPrograms(t)
	var pools []redis.Pool
	for _, m := range d.Masters {
		rdb := goredislib.NewClient(&goredislib.Options{Addr: m.Addr})
		t.Cleanup(func() { rdb.Close() })
		pools = append(pools, goredis.NewPool(rdb))
	}
	t.Run("all", func(t *testing.T) {
		each(t, func(t *testing.T, l library) {
			r := &run{library: l, programs: programs, near: d.near, far: d.far, key: keyOf(l, "others")}
			key := l.prefix + r.key
			theirs := redsync.New(pools...).NewMutex("lock:"+key, redsync.WithTries(1), redsync.WithExpiry(long))
			a, host := r.client(r.near), lab.Dial(t, d.Proxies[1].Addr)

			r.take("acquires", a, long)
			host.WantDo(lab.Null2, "LOCK", key, "20s")
			if err := theirs.Lock(); err == nil {
				t.Error("redsync: got an adopted lock, want it taken")
			}
			r.want("releases", a.release(), true)

			token := host.Lock(key, "20s")
			r.want("acquires a LOCK", a.acquire(r.key, long, 0), false)
			if l.can("force") {
				r.want("forces a LOCK", a.do(request{Op: "force"}), true)
			}
			host.Unlock(key, token)

			if err := theirs.Lock(); err != nil {
				t.Errorf("redsync: got %v, want the lock", err)
			}
			r.want("acquires redsync's", a.acquire(r.key, long, 0), false)
			if ok, err := theirs.Unlock(); !ok {
				t.Errorf("redsync: got %v, want its lock held", err)
			}
			r.take("acquires", a, long)
			owner := lab.MapOf(host.Do("LOCKINFO", key))["owner"]
			if !strings.HasPrefix(owner, "adopted ") {
				t.Errorf("owner of an adopted lock: got %q, want adopted and a hash", owner)
			}
			r.want("releases", a.release(), true)
			r.report(t, "beside LOCK")
		})
	})
}
