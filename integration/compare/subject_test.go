package compare

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// subject is one way to lock.
type subject struct {
	name    string
	version string
	fences  bool // its grants carry numbers
	missing string
	// start makes two clients that share nothing but the masters, as two machines would.
	start func(t *testing.T, f *field) [2]client
}

// client locks in the subject's usual configuration, its own repetitions included. Safe for
// concurrent use; the test's end closes it.
type client interface {
	lock(key string, ttl time.Duration) (grant, error)
	unlock(g grant) error
}

// grant is a lock as its holder sees it.
type grant struct {
	key        string
	sent, back time.Time
	until      time.Time // the holder may count on it until then
	token      string
	fence      uint64 // 0 where there are none
	mine       any    // what the library gave
}

// field is what the subject locks on.
type field struct {
	masters []*lab.Redis
	addrs   []string     // at which the subject reaches them
	relays  []*lab.Relay // one a master, or none
	clocks  []*lab.Clock // one a master, or none
	maxTTL  time.Duration
}

// plain is a field of n masters that nothing stands before.
func plain(t *testing.T, n int, maxTTL time.Duration) *field {
	t.Helper()
	masters := lab.StartMasters(t, n)
	return &field{masters: masters, addrs: lab.Addrs(masters), maxTTL: maxTTL}
}

// relayed is a field whose network can be broken.
func relayed(t *testing.T, n int, maxTTL time.Duration) *field {
	t.Helper()
	f := plain(t, n, maxTTL)
	f.relays, _ = lab.StartRelays(t, f.masters)
	for i, r := range f.relays {
		f.addrs[i] = r.Addr
	}
	return f
}

// clocked is a field whose masters have clocks of their own.
func clocked(t *testing.T, n int, maxTTL time.Duration) *field {
	t.Helper()
	f := &field{maxTTL: maxTTL}
	for range n {
		clock := lab.NewClock(t)
		f.clocks, f.masters = append(f.clocks, clock), append(f.masters, lab.StartRedisWithClock(t, clock))
	}
	f.addrs = lab.Addrs(f.masters)
	return f
}

// begin starts the subject's clients, and lets each take and give back so many locks side by side:
// what is in use has its connections open and its scripts loaded.
func begin(t *testing.T, s subject, f *field, inUse int) [2]client {
	t.Helper()
	clients := s.start(t, f)
	var granted atomic.Int32
	var wg sync.WaitGroup
	for i := range 2 * inUse {
		wg.Go(func() {
			c := clients[i%2]
			g, ok := lockBy(c, "warm-up-"+strconv.Itoa(i), f.maxTTL, time.Now().Add(2*lab.Patience))
			if ok && c.unlock(g) == nil {
				granted.Add(1)
			}
		})
	}
	if wg.Wait(); granted.Load() == 0 {
		t.Fatalf("%s cannot lock without any fault", s.name)
	}
	lab.WantKeysGone(t, f.masters, 2*lab.Patience)
	return clients
}

// lockBy tries until it is granted or the time has come. A try that has begun is not cut short:
// compare grant.back.
func lockBy(c client, key string, ttl time.Duration, deadline time.Time) (grant, bool) {
	for time.Now().Before(deadline) {
		g, err := c.lock(key, ttl)
		if err == nil {
			return g, true
		}
		<-time.After(20 * time.Millisecond)
	}
	return grant{}, false
}

// millis is a duration as a word of a command.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
