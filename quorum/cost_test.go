package quorum

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
)

// far gives a Quorum a round trip of trip to the first master, and a tenth of a millisecond more
// to each further one. So answers beyond a majority are always late.
func (s *sim) far(trip time.Duration) func(*Options) {
	return func(o *Options) {
		o.Guard, o.MasterTimeout = GuardOn, 50*time.Millisecond+2*trip
		for i, m := range s.masters {
			lag := trip + time.Duration(i)*time.Millisecond/10
			o.Masters[i].Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return m.DialFar(ctx, lag) }
		}
	}
}

// operations counts the lock operations that masters have carried out. Each may travel as a script
// of its own.
func operations(masters []*fake.Master) (n int) {
	for _, m := range masters {
		for _, name := range []string{"acquire", "release", "raise", "check", "fade", "topup", "extend"} {
			n += m.Ran(name)
		}
	}
	return n
}

// costCase is a way to hold a lock, and the most scripts that it may cost.
type costCase struct {
	name   string
	held   time.Duration
	other  bool // another proxy unlocks
	extend time.Duration
	most   float64 // scripts a master and pair
}

// TestCostOfLock: late answers are free. It counts the scripts of a lock, on average over all
// masters, from its LOCK until ten seconds after its UNLOCK. There are no faults, but all grants
// beyond a majority come after the reply.
func TestCostOfLock(t *testing.T) {
	for _, c := range []costCase{
		{name: "held for 0.3s", held: 300 * time.Millisecond, most: 2.1},
		{name: "held for 1.5s", held: 1500 * time.Millisecond, most: 2.1},
		{name: "unlocked elsewhere", held: 300 * time.Millisecond, other: true, most: 2.4},
		{name: "held for 9s", held: 9 * time.Second, most: 3},
		{name: "held for 9s, renewed", held: 9 * time.Second, extend: time.Second, most: 3 + 8},
	} {
		for n, trips := range map[int][]time.Duration{3: {0, 60 * time.Millisecond}, 5: {20 * time.Millisecond}} {
			for _, trip := range trips {
				t.Run(fmt.Sprintf("%s/masters=%d/trip=%v", c.name, n, trip), func(t *testing.T) {
					inBubble(t, n, func(t *testing.T, s *sim) {
						c.measure(t, s, trip)
					})
				})
			}
		}
	}
}

// measure runs some pairs of LOCK and UNLOCK, and counts the scripts.
func (c *costCase) measure(t *testing.T, s *sim, trip time.Duration) {
	t.Helper()
	const pairs = 5
	n := len(s.masters)
	q := s.quorum(s.far(trip))
	second := q
	if c.other {
		second = s.quorum(s.far(trip))
	}
	time.Sleep(3 * time.Second) // all masters vote
	before := operations(s.masters)
	for i := range pairs {
		key := fmt.Sprint("job-", i)
		lease := mustAcquire(t, q, key, 30*time.Second)
		holdFor(t, q, key, lease.Token, c.held, c.extend)
		mustRelease(t, second, key, lease.Token)
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	s.noKeys("at the end")
	got := float64(operations(s.masters)-before) / float64(n*pairs)
	t.Logf("%.2f scripts a master and pair", got)
	if got > c.most {
		t.Errorf("%.2f scripts a master and pair, want %.1f at most", got, c.most)
	}
}

// holdFor holds a lock that long, and extends it after each step of extend; 0: never.
func holdFor(t *testing.T, q *Quorum, key string, token Token, long, extend time.Duration) {
	t.Helper()
	step := cmp.Or(extend, long)
	for held := step; held < long; held += step {
		time.Sleep(step)
		mustExtend(t, q, key, token)
	}
	time.Sleep(step)
}

func mustExtend(t *testing.T, q *Quorum, key string, token Token) {
	t.Helper()
	if _, err := q.Extend(t.Context(), []string{key}, token, 30*time.Second, false); err != nil {
		t.Fatalf("Extend(%q): %v", key, err)
	}
}
