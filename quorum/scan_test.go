package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/quorum/internal/notify"
	"lockproxy/stat"
)

// Inspect, Scan and ReleaseKey on servers: our locks, locks of another library, and other keys.
func TestScanTellsLocksFromForeignKeys(t *testing.T) {
	for kind, start := range startThree {
		for _, prefix := range []string{"lock:", "", "a*[b]?\\c"} {
			t.Run(fmt.Sprintf("%s/%q", kind, prefix), func(t *testing.T) {
				scanWithPrefix(t, start(t), prefix, kind == "redis")
			})
		}
	}
}

// scanWithPrefix compares what Scan finds with the locks on the masters. small: a page holds as
// many keys as asked for.
func scanWithPrefix(t *testing.T, addrs []string, prefix string, small bool) {
	q := dialQuorum(t, addrs, func(o *Options) { o.KeyPrefix = prefix })
	want := fillForScan(t, q)
	for _, count := range []int{0, 7, 1000} {
		got, pages := scanAll(t, q, "", count)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("count %d: got %v\nwant %v", count, got, want)
		}
		if pages < 3 || count == 7 && pages < 6 && small {
			t.Errorf("count %d: %d pages", count, pages)
		}
	}
	// The pattern is for the key without the prefix.
	if found, _ := scanAll(t, q, "job1?", 100); len(found) != 10 {
		t.Errorf("%d keys match job1?, want 10", len(found))
	}
	wantFreed(t, q)
}

// fillForScan acquires 40 locks and sets other keys, and returns what Scan shows, without the
// ttls.
func fillForScan(t *testing.T, q *Quorum) map[string]Info {
	t.Helper()
	var masters []*notify.Client
	for i := range q.opts.Masters {
		masters = append(masters, dialMaster(t, &q.opts.Masters[i]))
	}
	want := map[string]Info{}
	for i := range 40 {
		key := fmt.Sprint("job", i)
		lease, err := q.Acquire(t.Context(), Request{Key: key, TTL: time.Minute, Owner: "me"})
		if err != nil {
			t.Fatal(err)
		}
		want[key] = Info{Key: key, Held: 3, Masters: 3, Fence: lease.Token.Fence, Owner: "me", Holders: 1}
	}
	waitDrained(t, []*Quorum{q})
	ctx, prefix := t.Context(), q.opts.KeyPrefix
	for i, m := range masters {
		m.RPush(ctx, prefix+"list", "x")
		m.Set(ctx, "zzz:elsewhere", "x", time.Minute)
		if prefix == "" {
			m.Del(ctx, "zzz:elsewhere")
		}
		m.Set(ctx, prefix+"redsync", "kQ==", time.Minute)
		m.Set(ctx, prefix+"differs", fmt.Sprint(i), time.Minute)
	}
	want["redsync"] = Info{Key: "redsync", Held: 3, Masters: 3, Holders: 1}
	masters[1].Set(ctx, prefix+"minority", "x", time.Minute)
	masters[0].Del(ctx, prefix+"job7") // on two is enough
	two := want["job7"]
	two.Held = 2
	want["job7"] = two
	return want
}

// scanAll scans to the end. It returns the locks without their ttls, and the number of pages.
func scanAll(t *testing.T, q *Quorum, match string, count int) (got map[string]Info, pages int) {
	t.Helper()
	got = make(map[string]Info)
	for cursor := uint64(0); pages == 0 || cursor != 0; pages++ {
		next, locks, err := q.Scan(t.Context(), cursor, match, count)
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
			info.TTL, info.Latest = 0, 0
			got[info.Key] = info
		}
		cursor = next
	}
	return got, pages
}

// wantFreed fails unless ReleaseKey deletes locks of all libraries, and no other keys.
func wantFreed(t *testing.T, q *Quorum) {
	t.Helper()
	ctx := t.Context()
	if info, err := q.Inspect(ctx, "redsync"); err != nil || info.Held != 3 || info.Fence != 0 || info.Owner != "" {
		t.Errorf("%+v, %v", info, err)
	}
	for key, want := range map[string]bool{"redsync": true, "list": false, "minority": true, "job3": true,
		"none": false} {
		if ok, err := q.ReleaseKey(ctx, key); ok != want || err != nil {
			t.Errorf("ReleaseKey(%q) = %v, %v", key, ok, err)
		}
	}
	if info, err := q.Inspect(ctx, "job3"); err != nil || info.Held != 0 {
		t.Errorf("%+v, %v after ReleaseKey", info, err)
	}
}

// A master that is down is skipped, and without a majority there is no page.
func TestScanWithoutMasters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	lease := eventually(t, q, "job", time.Minute)
	waitDrained(t, []*Quorum{q})
	scan := func(match string) (keys []string, err error) {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			next, locks, err := q.Scan(t.Context(), cursor, match, 10)
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
		s.server.Kill()
		if !poll(aWhile, func() bool { return q.Masters()[i].State != stat.StateVoting }) {
			t.Fatal("not noticed")
		}
	}
	down(servers[0], 0)
	if keys, err := scan("*"); err != nil || fmt.Sprint(keys) != "[job]" {
		t.Errorf("%v, %v with the first down", keys, err)
	}
	if keys, err := scan("none"); err != nil || len(keys) > 0 {
		t.Errorf("%v, %v with the first down, want no key that is called none", keys, err)
	}
	down(servers[1], 1)
	for _, match := range []string{"*", "none"} { // there may be such locks on the two
		if keys, err := scan(match); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("%q: %v, %v with two down, want ErrNoQuorum", match, keys, err)
		}
	}
	if _, err := q.Release(t.Context(), []string{"job"}, lease.Token, 0); !errors.Is(err, ErrNoQuorum) {
		t.Error(err)
	}
}

// A master that stalls for a page and comes back hides no lock: neither later ones, nor those of
// the page.
func TestScanPastStall(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	q := dialQuorum(t, addrs)
	eventually(t, q, "job", time.Minute)
	want := map[string]bool{"job": true}
	for i := range 100 {
		key := fmt.Sprint("job", i)
		if _, err := q.Acquire(t.Context(), Request{Key: key, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		want[key] = true
	}
	waitDrained(t, []*Quorum{q})
	for page, cursor := 1, uint64(0); page == 1 || cursor != 0; page++ {
		if page == 2 {
			servers[0].server.Pause(t)
		}
		next, locks, err := q.Scan(t.Context(), cursor, "", 10)
		if err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		for _, info := range locks {
			delete(want, info.Key)
		}
		servers[0].server.Resume(t)
		cursor = next
	}
	if len(want) > 0 {
		t.Errorf("%d of 101 locks are missing", len(want))
	}
}

// Pages that are asked for together have few connections at a time.
func TestScansTakeTurns(t *testing.T) {
	_, addrs := startMasters(t, 3)
	var open, peak atomic.Int64
	q := dialQuorum(t, addrs, func(o *Options) {
		o.Masters[0].Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			for now, most := open.Add(1), peak.Load(); now > most &&
				!peak.CompareAndSwap(most, now); most = peak.Load() {
			}
			return &countedConn{Conn: conn, open: &open}, nil
		}
	})
	eventually(t, q, "job", time.Minute)
	var wg sync.WaitGroup
	for range 10 * MaxScans {
		wg.Go(func() {
			if _, _, err := q.Scan(t.Context(), 0, "", 10); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := peak.Load(); n > 1+MaxScans { // the lane has one
		t.Errorf("up to %d connections to a master, want %d", n, 1+MaxScans)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	for range MaxScans {
		q.scans <- struct{}{}
	}
	time.AfterFunc(time.Millisecond, func() { cancel(errTest) })
	if _, _, err := q.Scan(ctx, 0, "", 10); !errors.Is(err, errTest) {
		t.Errorf("a call whose client left while it waited: %v", err)
	}
}

var errTest = errors.New("left")

// countedConn leaves the count once when it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
