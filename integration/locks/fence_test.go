package locks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Of two tokens of one key, compared as plain strings, the later holder's is greater. This holds
// for any values of the masters' counters and while any minority is away.

func TestFenceRises(t *testing.T) {
	t.Parallel()
	settings := lab.Long([]fenceSetting{fenceSettings[0], fenceSettings[2]}, fenceSettings) // the next test has the other
	fenceRounds(t, lab.Long(10, 60), settings, func(holder, _ *lab.Client) *lab.Client { return holder })
}

// TestFenceRisesIfUnlockedElsewhere releases every lock through the other proxy. A late SET of the
// first proxy may then overtake the release. The proxy must find and undo that SET even if other
// masters are away by then, so that a free key does not stay closed until its ttl.
func TestFenceRisesIfUnlockedElsewhere(t *testing.T) {
	t.Parallel()
	settings := lab.Long(fenceSettings[1:2], fenceSettings)
	fenceRounds(t, lab.Long(8, 25), settings, func(_, other *lab.Client) *lab.Client { return other })
}

// fenceSetting is the masters' counters at the start.
type fenceSetting struct {
	counts []int
	away   int // how many masters may be away at once
}

var fenceSettings = []fenceSetting{
	{[]int{0, 40, 7}, 1},
	{[]int{0, 3, 50, 21, 9}, 2},
	{[]int{5, 5, 5, 5, 60}, 2},
}

func fenceRounds(t *testing.T, rounds int, settings []fenceSetting,
	unlocker func(holder, other *lab.Client) *lab.Client) {
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for _, setting := range settings {
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

// fenceTest has two proxies that reach the masters through relays. Some masters go away and come
// back.
type fenceTest struct {
	*rand.Rand
	masters []*lab.Redis
	relays  []*lab.Relay
	proxies [2]*lab.Proxy
	hosts   [2]*lab.Client
	rounds  int
	last    string // the token granted last
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

// round takes at most away masters away, locks and unlocks a few times, and gives the masters
// back.
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
			return fmt.Sprintf("round %d, masters %v away (way %d), last token %s; %s", f.rounds, gone, how, f.last,
				f.whereJobIs(t))
		})
		if token <= f.last {
			t.Fatalf("round %d, masters %v away: got token %s, want one above %s", f.rounds, gone, token, f.last)
		}
		f.last = token
		lab.UnlockSurely(t, unlocker(f.hosts[i], f.hosts[1-i]), "job", token)
	}
	giveAllBack()
}

// whereJobIs describes the key on each master.
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

// TestFenceRisesUnderContention: many clients of two proxies want one key. The holders' tokens
// rise, and at most one holds the lock at a time.
func TestFenceRisesUnderContention(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	two := c.Another(t)
	clients, grants := 6, lab.Long(12, 25)
	results, held := make(chan error, clients), make(chan string, 1)
	held <- "" // the last holder's token; the channel is empty while a client holds the lock
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

// contend locks and unlocks until it has had so many grants. It checks each against the last.
func contend(c *lab.Conn, held chan string, grants int) error {
	for got := 0; got < grants; {
		token, reply, err := c.TryLock("job", "60s")
		if err != nil {
			return err
		}
		if token == "" {
			if reply != lab.Null2 && !strings.HasPrefix(reply, "-TRYAGAIN ") && !lab.Late(reply) {
				return fmt.Errorf("LOCK under contention: got %q, want a token, null or -TRYAGAIN", reply)
			}
			time.Sleep(time.Millisecond) // the holder needs the processor, too
			continue
		}
		select {
		case last := <-held:
			if token <= last {
				return fmt.Errorf("got token %s, want one above %s", token, last)
			}
		default:
			return fmt.Errorf("got token %s while another client held the lock", token)
		}
		if _, err := c.Ask("PING"); err != nil { // hold the lock for a moment
			return err
		}
		held <- token
		reply, err = c.Ask("UNLOCK", "job", token)
		unknown := false // an UNLOCK without a quorum may have been carried out
		for ; err == nil && strings.HasPrefix(reply, "-NOQUORUM "); unknown = true {
			reply, err = c.Ask("UNLOCK", "job", token)
		}
		if err != nil || reply != ":1\r\n" && !(unknown && reply == ":0\r\n") {
			return fmt.Errorf("UNLOCK: got %q, %w, want 1", reply, err)
		}
		got++
	}
	return nil
}

// TestFencingOffGivesZero: with fencing off the number in the token is 0.
func TestFencingOffGivesZero(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--fencing", "off")
	host := lab.Dial(t, c.Addr)
	for range 3 {
		token := host.Lock("job", "60s")
		if !strings.HasPrefix(token, "0000000000000000:") {
			t.Errorf("got token %s, want 0 as its number", token)
		}
		host.Unlock("job", token)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}
