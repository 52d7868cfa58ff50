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
	fences  bool // its grants have fencing numbers
	missing string
	// start makes two clients that share only the masters, like two machines.
	start func(t *testing.T, f *field) [2]client
}

// client locks in the subject's usual configuration, its own retries included. It is safe for
// concurrent use, and the end of the test closes it.
type client interface {
	lock(key string, ttl time.Duration) (grant, error)
	unlock(g grant) error
}

// grant is the holder's view of a lock.
type grant struct {
	key        string
	sent, back time.Time
	until      time.Time // the holder may rely on it until then
	token      string
	fence      uint64 // 0 if there are none
	mine       any    // the library's own value
}

// field is the set of masters on which a subject locks.
type field struct {
	masters []*lab.Redis
	addrs   []string     // addresses by which the subject reaches them
	relays  []*lab.Relay // one per master, or none
	clocks  []*lab.Clock // one per master, or none
	maxTTL  time.Duration
}

// plain returns a field of n masters that clients reach directly.
func plain(t *testing.T, n int, maxTTL time.Duration) *field {
	t.Helper()
	masters := lab.StartMasters(t, n)
	return &field{masters: masters, addrs: lab.Addrs(masters), maxTTL: maxTTL}
}

// relayed returns a field with a breakable network.
func relayed(t *testing.T, n int, maxTTL time.Duration) *field {
	t.Helper()
	f := plain(t, n, maxTTL)
	f.relays, _ = lab.StartRelays(t, f.masters)
	for i, r := range f.relays {
		f.addrs[i] = r.Addr
	}
	return f
}

// clocked returns a field whose masters have clocks of their own.
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

// begin starts the subject's clients, and lets each take and release inUse locks side by side, to
// open its connections and load its scripts.
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
		t.Fatalf("%s: got no lock without a fault", s.name)
	}
	lab.WantKeysGone(t, f.masters, 2*lab.Patience)
	return clients
}

// lockBy tries until it gets the lock or the deadline passes. It does not cut a try short:
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

// millis returns a duration as an argument of a command.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
