package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/stat"
)

// A whole life on miniredis, over real sockets.
func TestOnMiniredis(t *testing.T) {
	var addrs []string
	for range 3 {
		addrs = append(addrs, startMini(t).Addr())
	}
	q := dialQuorum(t, addrs)
	for _, st := range q.Masters() {
		if st.State != stat.StateVoting {
			t.Fatalf("status %+v", st)
		}
	}
	lease := eventually(t, q, "job", 10*time.Second)
	if _, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second}); !errors.Is(err, ErrHeld) {
		t.Errorf("%v, want ErrHeld", err)
	}
	mustRelease(t, q, "job", lease.Token)
}

// place is something that only the holder of a lock may use.
type place struct {
	mu     sync.Mutex // never contended if the lock works
	holder string
	last   string
	grants int
}

// use fails if another client is there, or if the token is not greater than the last one.
func (p *place) use(t *testing.T, key string, token Token) {
	p.mu.Lock()
	if p.holder != "" {
		t.Errorf("%s is held twice", key)
	}
	if text := token.String(); text <= p.last {
		t.Errorf("%s: token %s after %s", key, text[:16], p.last[:16])
	}
	p.holder, p.last = token.Secret, token.String()
	p.grants++
	p.mu.Unlock()
	p.mu.Lock()
	p.holder = ""
	p.mu.Unlock()
}

// contend acquires key through one proxy and, if it gets it, uses p and releases through the
// other.
func contend(t *testing.T, acquires, releases *Quorum, key string, p *place) {
	lease, err := acquires.Acquire(t.Context(), Request{Key: key, TTL: 20 * time.Second})
	if err != nil {
		if !errors.Is(err, ErrHeld) && !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrFence) {
			t.Error(err)
		}
		return
	}
	p.use(t, key, lease.Token)
	if _, err := releases.Release(t.Context(), []string{key}, lease.Token, 0); err != nil &&
		!errors.Is(err, ErrNoQuorum) {
		t.Error(err)
	}
}

// wantNoneForever fails if a key on the server has no expiry, or does not expire.
func wantNoneForever(t *testing.T, s *redisServer) {
	t.Helper()
	for _, key := range s.Keys(t.Context(), "*").Val() {
		if key != testState && s.PTTL(t.Context(), key).Val() == -1 {
			t.Errorf("%s never expires", key)
		}
	}
	if !poll(30*time.Second, func() bool { return strays(t, s) == 0 }) {
		t.Errorf("%d strays", strays(t, s))
	}
}

// Many clients on a few keys: a key never has two holders, its tokens rise, and no key is left:
// B16.
func TestContendedKeyHasOneHolder(t *testing.T) {
	servers, addrs := startMasters(t, 5)
	proxies := []*Quorum{dialQuorum(t, addrs), dialQuorum(t, addrs)}
	places := make([]place, 4)
	var wg sync.WaitGroup
	grants := func() (all int) {
		for i := range places {
			places[i].mu.Lock()
			all += places[i].grants
			places[i].mu.Unlock()
		}
		return all
	}
	const enough = 100
	end, last := time.Now().Add(1500*time.Millisecond), time.Now().Add(aWhile)
	for g := range 16 {
		wg.Go(func() {
			for i := g; time.Now().Before(end) || grants() < enough && time.Now().Before(last); i++ {
				n := i % len(places)
				contend(t, proxies[i%2], proxies[(i+1)%2], fmt.Sprint("job", n), &places[n])
			}
		})
	}
	wg.Wait()
	if n := grants(); n < enough {
		t.Errorf("only %d grants in %v", n, aWhile)
	} else {
		t.Logf("%d grants", n)
	}
	for _, s := range servers {
		wantNoneForever(t, s)
	}
}

// The stray census: lock and unlock while a master is paused, and look when it has woken up. B1,
// B2.
func TestNoStraysAfterPause(t *testing.T) {
	for _, c := range []struct {
		name    string
		proxies int
		dead    bool // the pause lasts until the lane is given up
	}{
		{"one proxy", 1, false}, {"released through another proxy", 2, false},
		{"one proxy, lane dead", 1, true}, {"another proxy, lane dead", 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers, addrs := startMasters(t, 3)
			var proxies []*Quorum
			for range c.proxies {
				proxies = append(proxies, dialQuorum(t, addrs))
			}
			servers[2].server.Pause(t)
			const pairs = 25
			for i := range pairs {
				key := fmt.Sprint("job", i)
				lease := eventually(t, proxies[0], key, time.Minute)
				mustRelease(t, proxies[len(proxies)-1], key, lease.Token)
			}
			if c.dead && !poll(aWhile, func() bool {
				return proxies[0].Masters()[2].Reason == "gave no answer in 2s"
			}) {
				t.Errorf("status %+v", proxies[0].Masters()[2])
			}
			servers[2].server.Resume(t)
			waitDrained(t, proxies)
			for i, s := range servers {
				if !poll(30*time.Second, func() bool { return strays(t, s) == 0 }) {
					t.Errorf("%d of %d left on server %d", strays(t, s), pairs, i+1)
				}
			}
		})
	}
}

// As above with the lane cut: its bytes are held back, the connection is reset, and the master is
// reached anew.
func TestNoStraysAfterCut(t *testing.T) {
	for _, c := range []struct {
		name    string
		proxies int
	}{{"one proxy", 1}, {"released through another proxy", 2}} {
		t.Run(c.name, func(t *testing.T) {
			servers, addrs := startMasters(t, 3)
			relay := newRelay(t, addrs[2])
			proxies := []*Quorum{dialQuorum(t, []string{addrs[0], addrs[1], relay.addr})}
			if c.proxies == 2 {
				proxies = append(proxies, dialQuorum(t, addrs))
			}
			for round := range 3 {
				relay.freeze()
				for i := range 10 {
					key := fmt.Sprint("job", round, "-", i)
					lease := eventually(t, proxies[0], key, time.Minute)
					mustRelease(t, proxies[len(proxies)-1], key, lease.Token)
				}
				relay.cut(round == 1) // half of the bytes held back arrive late, in the second round
				waitDrained(t, proxies)
			}
			for i, s := range servers {
				if !poll(30*time.Second, func() bool { return strays(t, s) == 0 }) {
					t.Errorf("%d of 30 left on server %d", strays(t, s), i+1)
				}
			}
		})
	}
}

// A master is killed and started empty: no release is pending for it, and it votes again.
func TestMasterRestarted(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	lease := eventually(t, q, "job", time.Minute)
	servers[2].server.Kill()
	mustRelease(t, q, "job", lease.Token)
	mustRelease(t, q, "job", eventually(t, q, "job", time.Minute).Token)
	if !poll(aWhile, func() bool { return q.Masters()[2].Reason == "refused the connection" }) {
		t.Errorf("status %+v", q.Masters()[2])
	}
	servers[2].server.Restart(t)
	if !poll(aWhile, func() bool { return q.Masters()[2].State == stat.StateVoting && q.Masters()[2].Repairs == 0 }) {
		t.Errorf("status %+v", q.Masters()[2])
	}
}

// B13 on a real Redis: SCRIPT FLUSH all the time.
func TestScriptFlushMidTraffic(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, s := range servers {
				_ = s.ScriptFlush(ctx).Err()
			}
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Millisecond):
			}
		}
	})
	failed := 0
	for i := range 300 {
		key := fmt.Sprint("job", i%7)
		lease, err := q.Acquire(t.Context(), Request{Key: key, TTL: 20 * time.Second})
		if err != nil {
			failed++
			t.Logf("Acquire: %v", err)
			continue
		}
		mustRelease(t, q, key, lease.Token)
	}
	stop()
	wg.Wait()
	if failed > 0 {
		t.Errorf("%d of 300 LOCKs noticed SCRIPT FLUSH", failed)
	}
	for _, s := range servers {
		if !poll(30*time.Second, func() bool { return strays(t, s) == 0 }) {
			t.Errorf("%d strays", strays(t, s))
		}
	}
}

// Passwords, ACLs, replicas and the same server twice, in the words of a real Redis.
func TestRealRefusals(t *testing.T) {
	good, secured := startRedis(t), startRedis(t, "--requirepass", "geheim")
	replica := startRedis(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(port(t, good.addr)))
	q := dialQuorum(t, []string{good.addr, secured.addr, secured.addr, replica.addr, secured.addr}, func(o *Options) {
		o.Masters[2].Password = "falsch"
		o.Masters[4].Password = "geheim"
	})
	for i, want := range []string{"", "wants a password", "says wrong password", "is a replica", ""} {
		if st := q.Masters()[i]; st.Reason != want || (want == "") != (st.State == stat.StateVoting) || want != "" &&
			st.State != stat.StateRefused {
			t.Errorf("master %d is %s: %q, want %q", i+1, st.State, st.Reason, want)
		}
	}
	_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
	if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "2 of 5 masters can vote, 3 needed") ||
		strings.Contains(err.Error(), "geheim") {
		t.Errorf("%v", err)
	}
	twice := dialQuorum(t, []string{good.addr, good.addr, strings.Replace(good.addr, "127.0.0.1", "localhost", 1)})
	votes := 0
	for _, st := range twice.Masters() {
		if st.State == stat.StateVoting {
			votes++
		} else if !strings.HasPrefix(st.Reason, "is the same server as ") {
			t.Errorf("status %+v", st)
		}
	}
	if votes != 1 {
		t.Errorf("one server under three names has %d votes", votes)
	}
}

// A user with the rights that docs/reference/settings.md gives it.
func TestLeastRights(t *testing.T) {
	s := startRedis(t)
	page, err := os.ReadFile("../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ACL SETUSER lockproxy on >password (.*)$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("the page has no user")
	}
	rules := "on >pw " + string(line[1])
	if err := s.Do(t.Context(), append([]any{"ACL", "SETUSER", "locks"}, fields(rules)...)...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(t.Context(), append([]any{"ACL", "SETUSER", "fewer"},
		fields(strings.ReplaceAll(rules, "+script|load ", ""))...)...).Err(); err != nil {
		t.Fatal(err)
	}
	for name, user := range map[string]string{"all that is documented": "locks", "without SCRIPT LOAD": "fewer"} {
		t.Run(name, func(t *testing.T) {
			lockWithAll(t, s, user)
		})
	}
	if log := s.Do(t.Context(), "ACL", "LOG").Val(); len(log.([]any)) > 1 { // SCRIPT LOAD of the second
		t.Errorf("refused: %v", log)
	}
}

// lockWithAll uses every command of a proxy on a master. The password of user is pw.
func lockWithAll(t *testing.T, s *redisServer, user string) {
	t.Helper()
	q := dialQuorum(t, []string{s.addr}, func(o *Options) {
		o.Masters[0].User, o.Masters[0].Password = user, "pw"
	})
	lease := eventually(t, q, "job", time.Second)
	s.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	q.Abandon("job", lease.Token)
	if !poll(30*time.Second, func() bool { return strays(t, s) == 0 }) {
		t.Errorf("no release after a hand-over: %+v", q.Masters())
	}
	var h heard
	stop := q.Watch(t.Context(), "job", h.add)
	waitSubscribed(t, []string{s.addr}, "lock:job")
	lease = eventually(t, q, "job", time.Minute)
	if _, locks, err := q.Scan(t.Context(), 0, "", 10); err != nil || len(locks) != 1 {
		t.Errorf("Scan found %v, %v", locks, err)
	}
	if _, err := q.Extend(t.Context(), []string{"job"}, lease.Token, time.Minute, false); err != nil {
		t.Errorf("Extend: %v", err)
	}
	if kept := q.Remember(t.Context(), "upstream", "u", "none"); kept != 1 ||
		q.Recall(t.Context(), "upstream", "u")[0] != "none" {
		t.Error("the master remembers no value")
	}
	mustRelease(t, q, "job", lease.Token)
	if !poll(aWhile, func() bool { return h.count(ReleaseID(lease.Token.Secret)) == 1 }) {
		t.Errorf("heard of %v", h.ids)
	}
	stop()
	allKinds(t, q)
}

// allKinds does everything that can be done with locks that are not plain.
func allKinds(t *testing.T, q *Quorum) {
	t.Helper()
	changed := make(chan struct{}, 100)
	stop := q.Follow(t.Context(), "kinds", func() { changed <- struct{}{} })
	defer stop()
	shared, slots := Request{Key: "kinds", Mode: Shared, Waits: time.Minute},
		Request{Key: "kinds", Mode: Limited, Limit: 3, Waits: time.Minute}
	first := grantedOf(t, q, Request{Key: "kinds", Waits: time.Minute})
	<-changed
	if _, err := q.Extend(t.Context(), []string{"kinds"}, first.Token, time.Minute, true); err != nil {
		t.Errorf("share: %v", err)
	}
	second := grantedOf(t, q, shared)
	refusedOf(t, q, slots)
	for _, lease := range []Lease{first, second} {
		if _, err := q.Extend(t.Context(), []string{"kinds"}, lease.Token, time.Minute, false); err != nil {
			t.Errorf("extend a reader: %v", err)
		}
		givenBack(t, q, "kinds", lease)
	}
	for range 2 {
		lease := grantedOf(t, q, slots)
		if _, err := q.Extend(t.Context(), []string{"kinds"}, lease.Token, time.Minute, false); err != nil {
			t.Errorf("extend a slot: %v", err)
		}
		if kept, err := q.Release(t.Context(), []string{"kinds"}, lease.Token, time.Minute); !kept || err != nil {
			t.Errorf("keep: %v, %v", kept, err)
		}
	}
	if _, err := q.Inspect(t.Context(), "kinds"); err != nil {
		t.Error(err)
	}
	if freed, err := q.ReleaseKey(t.Context(), "kinds"); !freed || err != nil {
		t.Errorf("free: %v, %v", freed, err)
	}
	both := grantedOf(t, q, Request{Key: "kinds", Keys: []string{"more"}})
	if held, err := q.Release(t.Context(), []string{"kinds", "more"}, both.Token, 0); !held || err != nil {
		t.Errorf("release of both: %v, %v", held, err)
	}
}

func fields(s string) (out []any) {
	for f := range strings.FieldsSeq(s) {
		out = append(out, f)
	}
	return out
}
