package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
)

// minorityCase is how masters fail after an Acquire, and the View of the rest.
type minorityCase struct {
	name     string
	fail     func(s *sim)
	held     int // of the holder that is shown
	answered int
	certain  bool
	says     string // in the error
}

var minorityCases = []minorityCase{
	{"all", func(*sim) {}, 5, 5, true, ""},
	{"three of five", func(s *sim) { s.each(3, 5, (*fake.Master).Stop) }, 3, 3, true, ""},
	{"two of five", func(s *sim) { s.each(2, 5, (*fake.Master).Stop) }, 2, 2, false,
		"; seen on 2 of 5: exclusive, fence N, owner me, 9000ms left"},
	{"one of two", func(s *sim) { s.each(0, 1, empty); s.each(2, 5, (*fake.Master).Stop) }, 1, 2, false,
		"; seen on 1 of 5: exclusive, fence N, owner me, 9000ms left"},
	{"shorter on one", func(s *sim) { s.each(0, 1, shorten); s.each(2, 5, (*fake.Master).Stop) }, 2, 2, false,
		", 4000ms left"},
	{"two of four that answer", func(s *sim) { s.each(0, 2, empty); s.each(4, 5, (*fake.Master).Stop) }, 2, 4, false,
		"4 of 5 masters can vote, but no majority agrees: 10.0.0.5:6379 refused the connection; seen on 2 of 5: " +
			"exclusive, fence N, "},
	{"hung", func(s *sim) { s.each(2, 5, (*fake.Master).Pause) }, 2, 2, false, "; seen on 2 of 5: "},
	{"nothing", func(s *sim) { s.each(0, 2, empty); s.each(2, 5, (*fake.Master).Stop) }, 0, 2, false, "refused"},
	{"nobody", func(s *sim) { s.each(0, 5, (*fake.Master).Stop) }, 0, 0, false, "0 of 5"},
	{"free", func(s *sim) { s.each(0, 5, empty) }, 0, 5, true, ""},
}

// TestViewShowsMinority: without a quorum View shows the holder that most of the other masters
// have, and the error of Inspect names it.
func TestViewShowsMinority(t *testing.T) {
	for _, c := range minorityCases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, s *sim) { c.run(t, s) })
		})
	}
}

func (c *minorityCase) run(t *testing.T, s *sim) {
	q := s.quorum()
	lease, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second, Owner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	says := strings.ReplaceAll(c.says, "fence N", fmt.Sprint("fence ", lease.Token.Fence))
	time.Sleep(time.Second)
	c.fail(s)
	synctest.Wait()
	v, err := q.View(t.Context(), "job")
	if err != nil || v.Info.Held != c.held || v.Answered != c.answered || (v.Fault == nil) != c.certain {
		t.Errorf("%+v, %v; want held %d, answered %d, certain %v", v, err, c.held, c.answered, c.certain)
	}
	c.wantMasters(t, v)
	_, err = q.Inspect(t.Context(), "job")
	if c.certain != (err == nil) || err != nil && (!errors.Is(err, ErrNoQuorum) ||
		!strings.Contains(err.Error(), says)) {
		t.Errorf("Inspect: %v, want %q", err, says)
	}
	if c.held == 0 && err != nil && strings.Contains(err.Error(), "seen on") {
		t.Errorf("Inspect: %v, but no master has a lock", err)
	}
}

// wantMasters wants the view to be right about each master.
func (c *minorityCase) wantMasters(t *testing.T, v View) {
	t.Helper()
	holds, faults := 0, 0
	for _, m := range v.Masters {
		if m.Holds {
			holds++
		}
		if m.Fault != nil {
			faults++
		}
		if m.Has != m.Holds || m.Has != (m.Left > 0) {
			t.Errorf("a master: %+v", m)
		}
	}
	if holds != c.held || faults != 5-c.answered {
		t.Errorf("%d masters hold it and %d do not answer: %+v", holds, faults, v.Masters)
	}
}

// TestForeignKey: a key of another type has the mode Foreign if it leaves no majority, and its
// type.
func TestForeignKey(t *testing.T) {
	for kind, start := range startThree {
		t.Run(kind, func(t *testing.T) { foreignKey(t, start(t)) })
	}
}

func foreignKey(t *testing.T, addrs []string) {
	q := dialQuorum(t, addrs)
	ctx := t.Context()
	want := func(when string, held int, kind string, ttl time.Duration) {
		t.Helper()
		info, err := q.Inspect(ctx, "job")
		foreign := held > 0
		if err != nil || info.Held != held || info.Type != kind || (info.Mode == Foreign) != foreign ||
			info.Holders != 0 ||
			ttl < 0 != (info.TTL < 0) || info.TTL > ttl || ttl > 0 && info.TTL < ttl/2 {
			t.Errorf("%s: %+v, %v; want held %d, type %q, ttl up to %v", when, info, err, held, kind, ttl)
		}
	}
	for i, held := range []int{0, 2, 3} { // one of three leaves a majority
		m := dialMaster(t, &q.opts.Masters[i])
		m.HSet(ctx, "lock:job", "field", "value")
		if i == 0 {
			m.Expire(ctx, "lock:job", 100*time.Second)
		}
		kind := "hash"
		if held == 0 {
			kind = ""
		}
		ttl := map[int]time.Duration{0: 0, 2: 100 * time.Second, 3: -time.Millisecond}[held]
		want("after one more", held, kind, ttl)
	}
	if _, err := q.Acquire(ctx, Request{Key: "job", TTL: 10 * time.Second}); !errors.Is(err, ErrHeld) {
		t.Errorf("Acquire: %v, want ErrHeld", err)
	}
	if freed, err := q.ReleaseKey(ctx, "job"); freed || err != nil {
		t.Errorf("ReleaseKey: %v, %v; it must not touch the key", freed, err)
	}
	v, err := q.View(ctx, "job")
	if err != nil || v.Fault != nil || len(v.Masters) != 3 {
		t.Fatalf("View: %+v, %v", v, err)
	}
	for i, m := range v.Masters {
		if !m.Has || !m.Holds || m.Mode != Foreign || (m.Left < 0) != (i > 0) {
			t.Errorf("master %d: %+v", i, m)
		}
	}
	foreignTypes(t, q)
	if _, locks, err := q.Scan(ctx, 0, "", 100); err != nil || len(locks) != 0 {
		t.Errorf("Scan: %+v, %v; a foreign key is no lock", locks, err)
	}
}

// foreignTypes: masters may have keys of different types, or one of them beside locks.
func foreignTypes(t *testing.T, q *Quorum) {
	t.Helper()
	do := func(master int, args ...any) {
		t.Helper()
		c := dialMaster(t, &q.opts.Masters[master])
		if err := c.Do(t.Context(), "DEL", "lock:job").Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	look := func(text, first string) (v View) {
		t.Helper()
		v, err := q.View(t.Context(), "job")
		if err != nil || v.Fault != nil || v.Info.Type != text || v.Masters[0].Type != first ||
			v.Masters[0].Mode != Foreign {
			t.Errorf("%+v, %v; want type %q, %s on the first", v, err, text, first)
		}
		return v
	}
	do(0, "RPUSH", "lock:job", "a")
	look("hash on 2, list on 1", "list")
	do(1, "RPUSH", "lock:job", "a")
	look("list on 2, hash on 1", "list")
	do(2, "SADD", "lock:job", "a")
	do(1, "HSET", "lock:job", "a", "b")
	look("hash on 1, list on 1, set on 1", "list")
	do(1, "SET", "lock:job", "a")
	do(2, "SET", "lock:job", "b")
	if v := look("", "list"); v.Info.Held != 0 || v.Masters[0].Left >= 0 || v.Masters[0].Holds || !v.Masters[1].Has {
		t.Errorf("three different keys: %+v", v)
	}
}

// TestScanSeen: without a quorum ScanSeen returns the locks of a minority, where Scan fails.
func TestScanSeen(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	eventually(t, q, "job", 50*time.Second)
	waitDrained(t, []*Quorum{q})
	servers[0].server.Kill()
	servers[1].server.Kill()
	var found Page
	if !poll(aWhile, func() bool {
		found = Page{}
		for cursor, pages := uint64(0), 0; pages == 0 || cursor != 0; pages++ {
			page, err := q.ScanSeen(t.Context(), cursor, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			cursor, found.Seen, found.Fault = page.Next, page.Seen, page.Fault
			found.Locks = append(found.Locks, page.Locks...)
		}
		return found.Seen == 1
	}) {
		t.Fatalf("%+v, want an answer of one master", found)
	}
	if len(found.Locks) != 1 || found.Locks[0].Key != "job" || found.Locks[0].Held != 1 || found.Fault == nil {
		t.Errorf("%+v, want the lock on one master, and a fault", found)
	}
	if _, _, err := q.Scan(t.Context(), 0, "", 100); !errors.Is(err, ErrNoQuorum) {
		t.Errorf("Scan: %v, want ErrNoQuorum", err)
	}
}
