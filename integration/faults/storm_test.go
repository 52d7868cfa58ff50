package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// stormPlan configures a storm.
type stormPlan struct {
	masters, proxies, clients, keys int

	lasts          time.Duration
	minTTL, maxTTL time.Duration // of the clients' locks; maxTTL is also the proxies' max-ttl
	every          time.Duration // between two faults, on average
	kinds          []*faultKind
	guard          string // restart-guard; default: on
	clocks         bool   // every master has a clock of its own
	vanishing      int    // clients that vanish, of a hundred LOCKs
	sessions       int    // LOCKs with SESSION, of a hundred
	bites          bool   // the test expects violations, so it keeps no files
	steady         bool   // no fault ends the first proxy
	tidy           bool   // clients unlock every lock until they get a reply: no key may outlive the storm
}

// faultStorm is a deployment that a test breaks while clients work on it.
type faultStorm struct {
	*lab.Lab
	t        testing.TB
	plan     stormPlan
	seed     uint64
	addrs    []string // of the proxies; they never change
	keys     []string
	guarded  map[string]*history.Guarded
	log      *history.Log
	stopped  chan struct{}  // closed to end the clients
	faults   map[string]int // how often each kind happened
	happened []string
}

// stormPlans are the storms of this package, by name.
func stormPlans() map[string]stormPlan {
	harmless := slices.Concat(linkFaults, masterFaults)
	everything := slices.Concat(harmless, demotions, wipes, proxyFaults)
	clients, keys := lab.Long(8, 12), lab.Long(7, 10)
	plans := map[string]stormPlan{
		"3 masters": {masters: 3, proxies: 2, clients: clients, keys: keys, every: 150 * time.Millisecond,
			kinds: everything},
		"5 masters": {masters: 5, proxies: 3, clients: 16, keys: 12, every: 120 * time.Millisecond, kinds: everything},
		// No fault ends a proxy here: one that starts after a step of a clock cannot know of it.
		"3 masters, clocks that jump": {masters: 3, proxies: 2, clients: clients, keys: keys,
			every: 250 * time.Millisecond, kinds: slices.Concat(harmless, clockSteps), clocks: true},
		// The ttls are long here, all masters keep their memory, and clients unlock every lock. No
		// master may have a key once all faults have ended.
		"3 masters, nothing may be left": {masters: 3, proxies: 2, clients: clients, keys: 4 * keys,
			every: 120 * time.Millisecond, kinds: harmless,
			minTTL: 30 * time.Second, maxTTL: time.Minute, tidy: true},
	}
	for name, plan := range plans {
		plan.lasts, plan.vanishing = lab.Long(4*time.Second, 20*time.Second), 6
		if !plan.tidy {
			plan.sessions, plan.minTTL, plan.maxTTL = 4, 300*time.Millisecond, lab.Long(time.Second, 2*time.Second)
		}
		plans[name] = plan
	}
	return plans
}

// TestFaultStorm lets many clients work through several proxies on real masters while masters,
// proxies, the network between them and the clients themselves fail at random. Masters may also
// lose all their keys. Then it checks the replies: no two clients may ever have counted on one
// lock at the same time.
func TestFaultStorm(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	for name, plan := range stormPlans() {
		if plan.masters > 3 && !lab.IsLong() {
			continue // the same faults, on more servers
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStorm(t, plan, seed)
			s.blow(t)
			s.verdict(t, s.check(t))
		})
	}
}

// TestFaultStormFindsViolations: without the restart guard, masters forget their grants, and the
// checks must find that. A harness that cannot fail gives no proof.
func TestFaultStormFindsViolations(t *testing.T) {
	t.Parallel()
	s := startStorm(t, stormPlan{masters: 3, proxies: 2, clients: 12, keys: 10, lasts: 3 * time.Second,
		minTTL: 300 * time.Millisecond, maxTTL: 2 * time.Second,
		every: 300 * time.Millisecond, kinds: wipes, guard: "off", bites: true},
		lab.SeedOf(t, uint64(time.Now().UnixNano())))
	found := map[string]int{}
	for range 10 {
		s.blow(t)
		for _, v := range s.check(t) {
			found[v.Check]++
		}
		if t.Log(found); found["overlap"] > 0 && found["order"] > 0 && found["update"] > 0 && found["lost"] > 0 &&
			found["fence"] > 0 {
			return
		}
		s.seed++
	}
	t.Errorf("violations by masters that forget: got %v, want overlap, order, update, lost and fence", found)
}

// startStorm starts the deployment of a plan.
func startStorm(t testing.TB, plan stormPlan, seed uint64) *faultStorm {
	t.Helper()
	if plan.guard == "" {
		plan.guard = "on"
	}
	s := &faultStorm{t: t, plan: plan, seed: seed}
	s.Lab = lab.Start(t, lab.Config{Masters: plan.masters, Proxies: plan.proxies, Relays: true, Clocks: plan.clocks,
		NoWait: true,
		Flags:  []string{"--max-ttl", millis(plan.maxTTL) + "ms", "--restart-guard", plan.guard}})
	for _, p := range s.Proxies {
		s.addrs = append(s.addrs, p.Addr)
	}
	s.waitVoting(t)
	return s
}

// blow runs one round: it starts the clients, begins and ends the faults, and stops the clients.
// Then it heals the deployment, so that another round may follow.
func (s *faultStorm) blow(t testing.TB) {
	t.Helper()
	s.log, s.stopped, s.faults, s.happened = history.NewLog(), make(chan struct{}), map[string]int{}, nil
	s.keys, s.guarded = nil, map[string]*history.Guarded{}
	for i := range s.plan.keys {
		key := fmt.Sprintf("storm-%x-%d", s.seed, i)
		s.keys, s.guarded[key] = append(s.keys, key), history.NewGuarded(key)
	}
	var clients sync.WaitGroup
	for i := range s.plan.clients {
		c := &stormClient{Rand: rand.New(rand.NewPCG(s.seed, uint64(1+i))), s: s, id: i, conns: map[int]*lab.Conn{}}
		clients.Go(c.run)
	}
	s.rage(t, s.plan.schedule(rand.New(rand.NewPCG(s.seed, 0))))
	s.sleep(s.plan.every) // without faults, while the clients work
	close(s.stopped)
	clients.Wait()
	s.Heal(t)
	s.waitVoting(t)
}

// ended reports whether clients must end.
func (s *faultStorm) ended() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// sleep waits for d, for the work of a client or between faults.
func (s *faultStorm) sleep(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// waitVoting waits until every proxy has every master's vote.
func (s *faultStorm) waitVoting(t testing.TB) {
	t.Helper()
	for i, p := range s.Proxies {
		c := lab.Dial(t, p.Addr)
		reply := ""
		voting := lab.Poll(lab.Patience+2*s.plan.maxTTL, func() bool {
			reply = c.Do("LOCKPROXY", "MASTERS")
			return !slices.ContainsFunc(lab.Elements(reply), func(m string) bool { return lab.MapOf(m)["state"] != "voting" })
		})
		if !voting {
			t.Fatalf("seed %d: masters of proxy %d after the storm: got %q, want all voting", s.seed, i+1, reply)
		}
		c.Close()
	}
}

// check returns all violations of a round.
func (s *faultStorm) check(t testing.TB) []history.Violation {
	t.Helper()
	ops := s.log.Ops()
	options := history.Options{MayLose: s.plan.clocks,
		Picture: func(key string, html []byte) { s.keep(key+".html", html) }}
	if s.plan.bites {
		options.Picture = nil
	}
	found := history.Check(ops, options)
	for _, key := range s.keys {
		found = append(found, s.guarded[key].Check()...)
	}
	return append(found, s.strays(t)...)
}

// strays looks for keys that must be gone after the faults have ended. A request that hung in a
// fault, or a release that a killed proxy owed, may leave a key until its ttl has passed. A tidy
// storm has neither, and long ttls. A key may stay for a while: a check may have to be repeated,
// and the rest of a lock fades. But the proxies can remove nothing while they have lost masters,
// as they do on a machine that is short of processor time.
func (s *faultStorm) strays(t testing.TB) (found []history.Violation) {
	t.Helper()
	healed := s.log.Now()
	if s.plan.tidy {
		lab.Settle(t, s.Masters, s.Proxies...)
	} else {
		s.sleep(s.plan.maxTTL)
	}
	lab.Poll(4*lab.Patience, func() bool {
		found = history.Strays(s.census(t), s.log.Ops(), s.log.Now(), healed)
		return len(found) == 0 || s.log.Now()-healed >= lab.Patience && s.votingFor(t) >= lab.Patience
	})
	return found
}

// votingFor returns for how long every proxy has had every master's vote.
func (s *faultStorm) votingFor(t testing.TB) time.Duration {
	t.Helper()
	shortest := time.Duration(math.MaxInt64)
	for _, p := range s.Proxies {
		c := lab.Dial(t, p.Addr)
		for _, m := range lab.Elements(c.Do("LOCKPROXY", "MASTERS")) {
			master := lab.MapOf(m)
			if master["state"] != "voting" {
				shortest = 0
			}
			shortest = min(shortest, time.Duration(lab.Number(t, master["since_ms"]))*time.Millisecond)
		}
		c.Close()
	}
	return shortest
}

// verdict fails the test for violations. It logs a summary of the storm in any case.
func (s *faultStorm) verdict(t testing.TB, found []history.Violation) {
	t.Helper()
	t.Log(s.report())
	for _, v := range found[:min(10, len(found))] {
		t.Errorf("seed %d: %v", s.seed, v)
	}
	if len(found) > 0 {
		t.Errorf("seed %d: got %d violations, want none", s.seed, len(found))
		s.keepHistory()
	}
	if sum := history.Summarize(s.log.Ops()); sum.Grants < int(s.plan.lasts/time.Second) {
		t.Errorf("seed %d: got %d grants, want one a second at least, since few show little", s.seed, sum.Grants)
	}
}

// report returns the numbers of commands, faults and lost updates.
func (s *faultStorm) report() string {
	var kinds []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", name, s.faults[name]))
		total += s.faults[name]
	}
	lost, refused := 0, 0
	for _, g := range s.guarded {
		plain, _ := g.Plain.Lost()
		_, low := g.Fenced.Lost()
		lost, refused = lost+plain, refused+low
	}
	return fmt.Sprintf("seed %d: %v; %d faults: %s; updates lost by holders beyond their validity: "+
		"%d without fencing, 0 with (%d accesses refused)",
		s.seed, history.Summarize(s.log.Ops()), total, strings.Join(kinds, ", "), lost, refused)
}

// keepHistory stores the history and the faults with the test's artifacts.
func (s *faultStorm) keepHistory() {
	ops, err := json.Marshal(s.log.Ops())
	if err != nil {
		s.t.Error(err)
	}
	s.keep("history.json", ops)
	s.keep("faults.txt", []byte(strings.Join(s.happened, "\n")))
}

func (s *faultStorm) keep(name string, data []byte) {
	path := filepath.Join(s.t.ArtifactDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.t.Error(err)
	}
	s.t.Logf("kept %s", path)
}
