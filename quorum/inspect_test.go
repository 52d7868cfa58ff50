package quorum

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestWinner(t *testing.T) {
	mine, other := standing{id: "a", fence: 7, owner: "me"}, standing{id: "b"}
	left := func(s standing, d time.Duration) standing { s.left = d; return s }
	for _, c := range []struct {
		name   string
		values []standing
		held   int
		most   int
		ttl    time.Duration
	}{
		{"nothing", make([]standing, 5), 0, 0, 0},
		{"all", []standing{left(mine, 5), left(mine, 4), left(mine, 3), left(mine, 2), left(mine, 1)}, 5, 5, 3},
		{"bare majority", []standing{left(mine, 5), {}, left(mine, 3), left(other, 9), left(mine, 1)}, 3, 3, 1},
		{"minority", []standing{mine, mine, other, other, {}}, 0, 2, 0},
		{"for ever", []standing{left(mine, forever), left(mine, forever), {}}, 2, 2, -time.Millisecond},
		{"one master", []standing{left(mine, 5)}, 1, 1, 5},
		{"half of four", []standing{mine, mine, {}, {}}, 0, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			info, most := winner(c.values)
			if info.Held != c.held || most != c.most || info.TTL != c.ttl || info.Masters != len(c.values) {
				t.Errorf("%+v, %d at most", info, most)
			}
			if c.held > 0 && (info.Fence != 7 || info.Owner != "me") || c.held == 0 && info.Fence != 0 {
				t.Errorf("%+v", info)
			}
		})
	}
}

func TestParseStanding(t *testing.T) {
	ours := mine + "0000000000000042label"
	for _, c := range []struct {
		a    answer
		want standing
		err  bool
	}{
		{answer{kind: '$', null: true}, standing{}, false},
		{answer{kind: '+', text: "OTHER"}, standing{}, false},
		{answer{kind: '$', text: "1500 " + ours}, standing{mine, 1500 * time.Millisecond, 42, "label"}, false},
		{answer{kind: '$', text: "-1 " + ours}, standing{mine, forever, 42, "label"}, false},
		{answer{kind: '$', text: "9223372036854775807 x"}, standing{"x", forever.Truncate(time.Millisecond), 0, ""}, false},
		{answer{kind: '$', text: "10 YTdlMzRk=="}, standing{"YTdlMzRk==", 10 * time.Millisecond, 0, ""}, false},
		{answer{kind: '$', text: "10 "}, standing{"\x00", 10 * time.Millisecond, 0, ""}, false},
		{answer{kind: '$', text: "10 " + mine + "00000000000000x2"}, standing{mine + "00000000000000x2", 10 * time.Millisecond, 0, ""}, false},
		{answer{kind: '$', text: "10 " + mine}, standing{mine, 10 * time.Millisecond, 0, ""}, false},
		{answer{kind: '$', text: "x y"}, standing{}, true},
		{answer{kind: ':'}, standing{}, true},
	} {
		got, err := parseStanding(c.a)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("%+v: %+v, %v, want %+v", c.a, got, err, c.want)
		}
	}
}

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *sim)
		held int
		ttl  time.Duration
		err  error
		took time.Duration
	}{
		{"held by all", func(*sim) {}, 5, 9 * time.Second, nil, 0},
		{"two down", func(s *sim) { s.each(3, 5, (*fakeMaster).stop) }, 3, 9 * time.Second, nil, 0},
		{"two hang", func(s *sim) { s.each(3, 5, (*fakeMaster).pause) }, 3, 9 * time.Second, nil, 50 * time.Millisecond},
		{"three down", func(s *sim) { s.each(2, 5, (*fakeMaster).stop) }, 0, 0, ErrNoQuorum, 0},
		{"lost on three", func(s *sim) { s.each(0, 3, (*fakeMaster).empty) }, 0, 0, nil, 0},
		{"lost on two", func(s *sim) { s.each(0, 2, (*fakeMaster).empty) }, 3, 9 * time.Second, nil, 0},
		{"the silent ones may make a majority", func(s *sim) { s.each(0, 2, (*fakeMaster).empty); s.each(4, 5, (*fakeMaster).stop) }, 0, 0, ErrNoQuorum, 0},
		{"the silent ones make no difference", func(s *sim) { s.each(0, 3, (*fakeMaster).empty); s.each(4, 5, (*fakeMaster).stop) }, 0, 0, nil, 0},
		{"errors", func(s *sim) { s.each(2, 5, func(m *fakeMaster) { m.answering("info", "-LOADING no\r\n") }) }, 0, 0, ErrNoQuorum, 0},
		{"nonsense", func(s *sim) { s.each(2, 5, func(m *fakeMaster) { m.answering("info", "$1\r\nx\r\n") }) }, 0, 0, ErrNoQuorum, 0},
		{"shorter on two", func(s *sim) {
			s.each(0, 2, func(m *fakeMaster) {
				v, _ := m.at("lock:job")
				v.end = v.end.Add(-5 * time.Second)
				m.set(func() { m.store["lock:job"] = v })
			})
		}, 5, 9 * time.Second, nil, 0},
		{"shorter on three", func(s *sim) {
			s.each(0, 3, func(m *fakeMaster) {
				v, _ := m.at("lock:job")
				v.end = v.end.Add(-5 * time.Second)
				m.set(func() { m.store["lock:job"] = v })
			})
		}, 5, 4 * time.Second, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				lease, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second, Owner: "me 1"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				c.fail(s)
				synctest.Wait()
				start := time.Now()
				info, err := q.Inspect(t.Context(), "job")
				want := Info{}
				if c.err == nil {
					want = Info{Key: "job", Held: c.held, Masters: 5, TTL: c.ttl}
				}
				if c.held > 0 {
					want.Fence, want.Owner = lease.Token.Fence, "me 1"
				}
				if took := time.Since(start); info != want || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("%+v, %v after %v, want %+v, %v after %v", info, err, took, want, c.err, c.took)
				}
			})
		})
	}
}

// Two of four are no majority to say that nobody holds it.
func TestInspectHalf(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, s *sim) {
		q := s.quorum()
		s.each(2, 4, (*fakeMaster).stop)
		synctest.Wait()
		if info, err := q.Inspect(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("%+v, %v, want ErrNoQuorum", info, err)
		}
	})
}

// ErrHeld says how soon a majority could grant: B19, the timer beside the subscription.
func TestHeldErrorFree(t *testing.T) {
	for _, c := range []struct {
		name  string
		lefts []time.Duration // of the keys in the way; 0: none
		want  time.Duration
	}{
		{"all alike", []time.Duration{9, 9, 9, 9, 9}, 9},
		{"the majority-th", []time.Duration{4, 9, 2, 7, 3}, 4},
		{"granting ones at once", []time.Duration{0, 0, 7, 8, 9}, 7},
		{"a majority later", []time.Duration{0, 5, 7, 8, 9}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) {
				q := s.quorum()
				for i, left := range c.lefts {
					if m := s.masters[i]; left > 0 {
						m.set(func() { m.store["lock:job"] = fakeValue{secret: "x", end: time.Now().Add(left * time.Second)} })
					}
				}
				a := q.newAttempt(Request{Key: "lock:job", TTL: time.Second})
				a.ask()
				synctest.Wait()
				a.mu.Lock()
				if got := a.freeInLocked(); got != c.want*time.Second {
					t.Errorf("free in %v, want %ds", got, c.want)
				}
				a.mu.Unlock()
				a.fail()
				a.leave()
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
				held, ok := errors.AsType[*HeldError](err)
				if !ok || !errors.Is(err, ErrHeld) || held.Free < 0 {
					t.Errorf("%v, %+v", err, held)
				}
			})
		})
	}
	t.Run("never", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			q := s.quorum()
			s.each(0, 3, func(m *fakeMaster) { m.answering("acquire", "*4\r\n:0\r\n:-1\r\n:0\r\n:0\r\n") })
			_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: time.Second})
			if held, ok := errors.AsType[*HeldError](err); !ok || held.Free >= 0 {
				t.Errorf("%v, %+v, want never", err, held)
			}
		})
	})
}

func TestReleaseKey(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, s *sim) {
		q := s.quorum()
		lease := mustAcquire(t, q, "job", 10*time.Second)
		synctest.Wait()
		s.each(3, 5, (*fakeMaster).stop)
		synctest.Wait()
		if ok, err := q.ReleaseKey(t.Context(), "job"); !ok || err != nil {
			t.Errorf("ReleaseKey = %v, %v, want true", ok, err)
		}
		if _, err := q.Extend(t.Context(), "job", lease.Token, 10*time.Second); !errors.Is(err, ErrLost) {
			t.Errorf("Extend: %v, want ErrLost", err)
		}
		if ok, err := q.ReleaseKey(t.Context(), "job"); ok || err != nil {
			t.Errorf("again: %v, %v, want false", ok, err)
		}
		s.each(2, 3, (*fakeMaster).stop)
		synctest.Wait()
		if ok, err := q.ReleaseKey(t.Context(), "job"); ok || !errors.Is(err, ErrNoQuorum) {
			t.Errorf("without a majority: %v, %v, want ErrNoQuorum", ok, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.ReleaseKey(ctx, "job"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the cause", err)
		}
	})
}

// Inspect, Scan and ReleaseKey on servers: locks of ours and of another library, and what is no lock.
func TestScan(t *testing.T) {
	for kind, start := range startThree {
		for _, prefix := range []string{"lock:", "", "a*[b]?\\c"} {
			t.Run(fmt.Sprintf("%s/%q", kind, prefix), func(t *testing.T) {
				addrs := start(t)
				q := dialQuorum(t, addrs, patient, func(o *Options) { o.KeyPrefix = prefix })
				masters := make([]bench, 0, 3)
				for i := range addrs {
					c, _ := q.opts.Masters[i].onceClient()
					defer func() { _ = c.Close() }()
					masters = append(masters, bench{t, c})
				}
				want := map[string]Info{}
				for i := range 40 {
					key := fmt.Sprint("job", i)
					lease, err := q.Acquire(t.Context(), Request{Key: key, TTL: time.Minute, Owner: "me"})
					if err != nil {
						t.Fatal(err)
					}
					want[key] = Info{Key: key, Held: 3, Masters: 3, Fence: lease.Token.Fence, Owner: "me"}
				}
				waitDrained(t, []*Quorum{q})
				ctx := t.Context()
				for i, m := range masters {
					m.RPush(ctx, prefix+"list", "x")
					m.Set(ctx, "zzz:elsewhere", "x", time.Minute)
					if prefix == "" {
						m.Del(ctx, "zzz:elsewhere")
					}
					m.Set(ctx, prefix+"redsync", "kQ==", time.Minute)
					m.Set(ctx, prefix+"differs", fmt.Sprint(i), time.Minute)
				}
				want["redsync"] = Info{Key: "redsync", Held: 3, Masters: 3}
				masters[1].Set(ctx, prefix+"minority", "x", time.Minute)
				masters[0].Del(ctx, prefix+"job7") // on two is enough
				two := want["job7"]
				two.Held = 2
				want["job7"] = two

				for _, count := range []int{0, 7, 1000} {
					got := map[string]Info{}
					cursor, pages := uint64(0), 0
					for {
						next, locks, err := q.Scan(ctx, cursor, "", count)
						if err != nil {
							t.Fatal(err)
						}
						for _, info := range locks {
							if _, twice := got[info.Key]; twice {
								t.Errorf("%s twice", info.Key)
							}
							if info.TTL <= 50*time.Second || info.TTL > time.Minute {
								t.Errorf("%s: ttl %v", info.Key, info.TTL)
							}
							info.TTL = 0
							got[info.Key] = info
						}
						pages++
						if cursor = next; cursor == 0 {
							break
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("count %d: got %v\nwant %v", count, got, want)
					}
					if pages < 3 || count == 7 && pages < 6 && kind == "redis" {
						t.Errorf("count %d: %d pages", count, pages)
					}
				}
				// The pattern is for the key without the prefix.
				found := 0
				for cursor, more := uint64(0), true; more; more = cursor != 0 {
					next, locks, err := q.Scan(ctx, cursor, "job1?", 100)
					if err != nil {
						t.Fatal(err)
					}
					found, cursor = found+len(locks), next
				}
				if found != 10 {
					t.Errorf("%d keys match job1?, want 10", found)
				}
				if info, err := q.Inspect(ctx, "redsync"); err != nil || info.Held != 3 || info.Fence != 0 || info.Owner != "" {
					t.Errorf("%+v, %v", info, err)
				}
				for key, want := range map[string]bool{"redsync": true, "list": false, "minority": true, "job3": true, "none": false} {
					if ok, err := q.ReleaseKey(ctx, key); ok != want || err != nil {
						t.Errorf("ReleaseKey(%q) = %v, %v", key, ok, err)
					}
				}
				if info, err := q.Inspect(ctx, "job3"); err != nil || info.Held != 0 {
					t.Errorf("%+v, %v after ReleaseKey", info, err)
				}
			})
		}
	}
}

// A master that is down is skipped, and without a majority there is no page.
func TestScanWithoutMasters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs, patient)
	lease := eventually(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	scan := func() (keys []string, err error) {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			next, locks, err := q.Scan(t.Context(), cursor, "*", 10)
			if err != nil {
				return keys, err
			}
			for _, info := range locks {
				keys = append(keys, info.Key)
			}
			cursor = next
		}
		return keys, nil
	}
	down := func(s *redisServer, i int) {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		if !poll(5*time.Second, func() bool { return q.Masters()[i].State != StateVoting }) {
			t.Fatal("not noticed")
		}
	}
	down(servers[0], 0)
	if keys, err := scan(); err != nil || fmt.Sprint(keys) != "[job]" {
		t.Errorf("%v, %v with the first down", keys, err)
	}
	down(servers[2], 2)
	if keys, err := scan(); !errors.Is(err, ErrNoQuorum) {
		t.Errorf("%v, %v with two down, want ErrNoQuorum", keys, err)
	}
	if _, err := q.Release(t.Context(), "job", lease.Token); !errors.Is(err, ErrNoQuorum) {
		t.Error(err)
	}
}

// A release by an operator wakes those who wait.
func TestReleaseKeyIsTold(t *testing.T) {
	_, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs, patient)
	var h heard
	defer q.Watch(t.Context(), "job", h.add)()
	if !poll(5*time.Second, func() bool { return q.ears.heardBy("job") == 3 }) {
		t.Fatal("not subscribed")
	}
	lease := eventually(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	if ok, err := q.ReleaseKey(t.Context(), "job"); !ok || err != nil {
		t.Errorf("ReleaseKey = %v, %v", ok, err)
	}
	if id := ReleaseID(lease.Token.Secret); !poll(5*time.Second, func() bool { return h.count(id) == 3 }) {
		t.Errorf("told %v, want %s by all", h.ids, id)
	}
}
