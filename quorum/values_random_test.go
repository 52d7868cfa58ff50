package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// Clients take, refresh and release one lock by their values, each through any proxy, over links
// of different lengths to masters that hang now and then. No two of them hold it at a time, and
// the masters keep what was promised. VALUES_RUNS is the number of runs.
func TestValuesAtRandom(t *testing.T) {
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("VALUES_RUNS"), "2"))
	if err != nil {
		t.Fatal(err)
	}
	var sum [3]int
	for seed := range uint64(runs) {
		inBubble(t, 3+2*int(seed%2), func(t *testing.T, s *sim) { randomValues(t, s, seed, &sum) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d taken, %d lengthened, %d shortened", sum[0], sum[1], sum[2])
}

// valueLedger notes until when the clients of a run may count on their locks.
type valueLedger struct {
	mu    sync.Mutex
	until map[string]time.Time // by value: who holds the lock, and until when
	sum   *[3]int
}

// get returns until when a value holds the lock.
func (l *valueLedger) get(value string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until[value]
}

func (l *valueLedger) set(value string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[value] = until
}

// hold notes that a value holds the lock, and returns another one that does.
func (l *valueLedger) hold(value string, until time.Time, what int) (other string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for value2, until2 := range l.until {
		if value2 != value && time.Now().Before(until2) {
			other = value2
		}
	}
	l.until[value] = until
	l.sum[what]++
	return other
}

// randomValues is one run.
func randomValues(t *testing.T, s *sim, seed uint64, sum *[3]int) {
	dice := rand.New(rand.NewPCG(seed, 5))
	var proxies []*Quorum
	for range 3 {
		proxies = append(proxies, s.quorum(func(o *Options) {
			for i, m := range s.masters {
				trip := time.Duration(dice.IntN(20_000)) * time.Microsecond
				o.Masters[i].Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return m.DialFar(ctx, trip) }
			}
		}))
	}
	end := time.Now().Add(20 * time.Second)
	ledger := &valueLedger{until: map[string]time.Time{}, sum: sum}
	each := make(chan *valueClient, 4)
	for i := range cap(each) {
		c := &valueClient{t: t, s: s, dice: rand.New(rand.NewPCG(seed, uint64(10+i))), proxies: proxies,
			value: fmt.Sprintf("value %d", i), ledger: ledger}
		go func() {
			for time.Now().Before(end) {
				c.step()
				time.Sleep(time.Duration(c.dice.IntN(200_000)) * time.Microsecond)
			}
			each <- c
		}()
	}
	for time.Now().Before(end) {
		m := s.masters[dice.IntN(len(s.masters))]
		m.Pause()
		time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
		m.Resume()
		time.Sleep(time.Duration(dice.IntN(500)) * time.Millisecond)
	}
	for range cap(each) {
		<-each
	}
	synctest.Wait()
}

// valueClient is a client with a value of its own. It waits for each result before it goes on.
type valueClient struct {
	t       *testing.T
	s       *sim
	dice    *rand.Rand
	proxies []*Quorum
	value   string
	ledger  *valueLedger
	unsure  bool // an operation had no result: it may still be carried out
}

// step takes the lock, or refreshes or releases it.
func (c *valueClient) step() {
	q := c.proxies[c.dice.IntN(len(c.proxies))]
	ttl := time.Duration(20+c.dice.IntN(3000)) * time.Millisecond
	r := ValueRequest{Key: "job", Value: c.value, TTL: ttl}
	began, had := time.Now(), c.ledger.get(c.value)
	switch until := time.Until(had); {
	case until <= 0:
		_, err := q.Acquire(c.t.Context(), Request{Key: "job", Value: c.value, TTL: ttl})
		if err == nil {
			c.holds(ttl, 0)
		}
	case c.dice.IntN(4) == 0:
		c.ledger.set(c.value, time.Time{})
		held, err := released(c.t, q, r)
		c.unsure = err != nil
		if !held && err == nil && time.Now().Before(had) {
			c.t.Errorf("%s was released before its end", c.value)
		}
	default:
		if ttl < until {
			// A master that has hung may still carry out an earlier refresh.
			time.Sleep(min(400*time.Millisecond, until/2))
			began, until = time.Now(), time.Until(had)
		}
		if till := began.Add(ttl); till.Before(had) {
			c.ledger.set(c.value, till) // the shortening may take effect at once
		}
		held, err := refreshed(c.t, q, r)
		switch {
		case held && ttl < until:
			c.holds(ttl, 2)
			c.letsGo(ttl)
		case held:
			c.holds(ttl, 1)
		case err == nil && time.Now().Before(had) && time.Now().Before(c.ledger.get(c.value)):
			c.t.Errorf("%s was not refreshed before its end", c.value)
		case errors.Is(err, ErrNoQuorum), errors.Is(err, ErrLate):
			c.unsure = true
		}
	}
}

// holds notes that the client may count on ttl from now.
func (c *valueClient) holds(ttl time.Duration, what int) {
	c.unsure = c.unsure && what > 0
	if other := c.ledger.hold(c.value, time.Now().Add(ttl), what); other != "" {
		c.t.Errorf("%s and %s hold the lock", other, c.value)
	}
	n := c.count(func(l fake.Lock) bool { return l.Owner == wire.OwnerOf(c.value) && time.Until(l.End) >= ttl })
	if n < majority(len(c.s.masters)) {
		c.t.Errorf("%d masters have %s for %v", n, c.value, ttl)
	}
}

// letsGo checks that a majority lets the lock go when a shortening has promised.
func (c *valueClient) letsGo(ttl time.Duration) {
	n := len(c.s.masters) - c.count(func(l fake.Lock) bool {
		return l.Owner == wire.OwnerOf(c.value) && time.Until(l.End) > Life(ttl)+counted
	})
	if n < majority(len(c.s.masters)) && !c.unsure {
		c.t.Errorf("%d masters let %s go in %v", n, c.value, Life(ttl))
	}
}

func (c *valueClient) count(has func(fake.Lock) bool) (n int) {
	for _, m := range c.s.masters {
		if l, ok := at(m, "lock:job"); ok && has(l) {
			n++
		}
	}
	return n
}
