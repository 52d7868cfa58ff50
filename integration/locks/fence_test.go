package locks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Fencing: of two tokens of one key, as plain strings, the later holder's is greater, whatever the
// masters' counters stood at and whichever minority was away.

func TestFence(t *testing.T) {
	t.Parallel()
	fenceRounds(t, 60, func(holder, _ *lab.Client) *lab.Client { return holder })
}

// TestFenceUnlockedElsewhere is TestFence with every lock released through the other proxy. A SET
// that was on its way to a master then overtakes the release, and must be found and undone
// although other masters are away by then: a lock that nobody holds must not stay closed until its
// ttl.
func TestFenceUnlockedElsewhere(t *testing.T) {
	t.Parallel()
	fenceRounds(t, 25, func(_, other *lab.Client) *lab.Client { return other })
}

func fenceRounds(t *testing.T, rounds int, unlocker func(holder, other *lab.Client) *lab.Client) {
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for _, setting := range []struct {
		counts []int
		away   int // how many masters may be away at once
	}{
		{[]int{0, 40, 7}, 1},
		{[]int{0, 3, 50, 21, 9}, 2},
		{[]int{5, 5, 5, 5, 60}, 2},
	} {
		n := len(setting.counts)
		t.Run(fmt.Sprintf("%d masters, counters %v", n, setting.counts), func(t *testing.T) {
			t.Parallel()
			f := newFenceTest(t, setting.counts, rand.New(rand.NewPCG(seed, uint64(n))))
			for range rounds {
				f.round(t, setting.away, unlocker)
			}
			lab.WantNoStray(t, f.masters, f.proxies[0], f.proxies[1])
		})
	}
}

// fenceTest is two proxies before masters behind relays, of which some go away and come back.
type fenceTest struct {
	*rand.Rand
	masters []*lab.Redis
	relays  []*lab.Relay
	proxies [2]*lab.Proxy
	hosts   [2]*lab.Client
	rounds  int
	last    string // token granted
}

func newFenceTest(t *testing.T, counts []int, r *rand.Rand) *fenceTest {
	t.Helper()
	f := &fenceTest{Rand: r, masters: lab.StartMasters(t, len(counts))}
	lab.SetCountersApart(t, f.masters, "job", counts)
	relays, list := lab.StartRelays(t, f.masters)
	f.relays = relays
	for i := range f.proxies {
		f.proxies[i] = lab.StartProxy(t, "--upstream", f.masters[0].Addr, "--masters", list, "--restart-guard", "off")
		f.proxies[i].WaitVoting(t)
		f.hosts[i] = lab.Dial(t, f.proxies[i].Addr)
	}
	return f
}

// round takes up to some masters away, locks and unlocks a few times, and gives the masters back.
func (f *fenceTest) round(t *testing.T, away int, unlocker func(holder, other *lab.Client) *lab.Client) {
	t.Helper()
	f.rounds++
	gone, how := f.Perm(len(f.masters))[:f.IntN(away+1)], f.IntN(3)
	for _, i := range gone {
		takeAway(t, f.masters[i], f.relays[i], how)
	}
	giveAllBack := func() {
		for _, i := range gone {
			giveBack(f.masters[i], f.relays[i])
		}
	}
	for range 1 + f.IntN(3) {
		i := f.IntN(2)
		token := lab.GrantOr(t, f.hosts[i], "job", func() string {
			giveAllBack()
			return fmt.Sprintf("round %d, away (way %d) were %v, last token %s; %s", f.rounds, how, gone, f.last, f.whereJobIs(t))
		})
		if token <= f.last {
			t.Fatalf("round %d: token %s after %s; away were %v", f.rounds, token, f.last, gone)
		}
		f.last = token
		lab.UnlockSurely(t, unlocker(f.hosts[i], f.hosts[1-i]), "job", token)
	}
	giveAllBack()
}

func (f *fenceTest) whereJobIs(t testing.TB) string {
	var b strings.Builder
	for i, s := range f.masters {
		fmt.Fprintf(&b, "master %d has %q for %q ms; ", i, s.Do(t, "GET", "lock:job"), s.Do(t, "PTTL", "lock:job"))
	}
	return b.String()
}

// takeAway makes a master unreachable in one of three ways.
func takeAway(t testing.TB, s *lab.Redis, r *lab.Relay, how int) {
	t.Helper()
	switch how {
	case 0:
		s.Pause(t)
	case 1:
		r.Freeze()
	default:
		r.Refuse(true)
		r.CutAll()
	}
}

func giveBack(s *lab.Redis, r *lab.Relay) {
	s.Resume()
	r.Thaw()
	r.Refuse(false)
}

// TestFenceUnderContention: many clients of two proxies on one key; the holders' tokens rise, and
// no two hold at once.
func TestFenceUnderContention(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	two := c.Another(t)
	const clients, grants = 6, 25
	results, held := make(chan error, clients), make(chan string, 1)
	held <- "" // the last holder's token; out of the channel while a client is inside
	for i := range clients {
		host := lab.Dial(t, []string{c.Addr, two.Addr}[i%2])
		go func() { results <- contend(host.Conn, held, grants) }()
	}
	for range clients {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

func contend(c *lab.Conn, held chan string, grants int) error {
	for got := 0; got < grants; {
		token, reply, err := c.TryLock("job", "60s")
		if err != nil {
			return err
		}
		if token == "" {
			if reply != lab.Null2 && !strings.HasPrefix(reply, "-TRYAGAIN ") {
				return fmt.Errorf("LOCK under contention: %q", reply)
			}
			continue
		}
		select {
		case last := <-held:
			if token <= last {
				return fmt.Errorf("token %s after %s", token, last)
			}
		default:
			return fmt.Errorf("two holders at once, one with %s", token)
		}
		if _, err := c.Ask("PING"); err != nil { // stay inside for a moment
			return err
		}
		held <- token
		if reply, err := c.Ask("UNLOCK", "job", token); err != nil || reply != ":1\r\n" {
			return fmt.Errorf("UNLOCK: %q, %w", reply, err)
		}
		got++
	}
	return nil
}

// TestFencingOff: the number is 0 and nothing is counted on the masters.
func TestFencingOff(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--fencing", "off")
	host := lab.Dial(t, c.Addr)
	for range 3 {
		token := host.Lock("job", "60s")
		if !strings.HasPrefix(token, "0000000000000000:") {
			t.Errorf("token %s with fencing off", token)
		}
		host.Unlock("job", token)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}
