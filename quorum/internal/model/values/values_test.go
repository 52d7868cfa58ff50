package values

import (
	"cmp"
	"math/rand/v2"
	"testing"
)

// Roles. The value of a call is 0 without of.
func takes(ttl uint8) role     { return role{kind: take, ttl: ttl, after: -1, knows: -1} }
func refreshes(ttl uint8) role { return role{kind: refresh, ttl: ttl, after: -1, knows: -1} }
func releases() role           { return role{kind: release, after: -1, knows: -1} }
func checks(of int8) role      { return role{kind: check, after: of, knows: of} }

func (r role) then(after int8) role { r.after = after; return r }
func (r role) of(value uint8) role  { r.value = value; return r }
func (r role) knowing(of int8) role { r.knows = of; return r }

// situation describes a case: calls, and the fault to find. If finds is empty the search must find
// no fault at all.
type situation struct {
	name   string
	roles  []role
	broken broken
	finds  string
	five   bool
	prompt bool
	held   bool // the first call is a take, and has won
	losses uint8
	ticks  uint8
}

// start returns the first state. If the lock is held, the last master has not got it yet.
func (c *situation) start(r *run) state {
	s := state{losses: c.losses, ticks: c.ticks}
	if c.held {
		r.begin(&s, 0)
		for m := range r.majority() {
			r.arrive(&s, 0, m)
		}
		r.win(&s, 0)
		r.fault(&s, event{}, "")
	}
	return s
}

func (c *situation) run(b broken) *run {
	r := &run{n: 3, broken: b, roles: c.roles, prompt: c.prompt, loses: c.losses > 0}
	if c.five {
		r.n = 5
	}
	return r
}

var (
	// A shortening whose messages are late, and a refresh after it.
	shortened = []role{takes(3), refreshes(1).then(0).knowing(0), refreshes(3).then(1).knowing(0)}
	// The same beside each other.
	overtaken = []role{takes(2), refreshes(1).knowing(0), refreshes(3).knowing(0)}
	another   = []role{takes(2), releases().then(0).knowing(0), takes(2).of(1)}
	same      = []role{takes(2), releases().then(0), takes(2)}
)

var explored = []situation{
	{name: "shortened and refreshed", roles: shortened, held: true, ticks: 2},
	{name: "shortened and refreshed, promptly", roles: shortened, held: true, prompt: true, ticks: 3},
	{name: "overtaken", roles: overtaken, held: true, prompt: true, ticks: 1},
	{name: "another client", roles: another, held: true, ticks: 2},
	{name: "another client with the same value", roles: same, held: true, ticks: 2},
	{name: "a master forgets", roles: []role{takes(1), takes(1).of(1)}, losses: 1, ticks: 3},
	{name: "a master that forgot waits for max-ttl alone", broken: broken{shortWait: true}, finds: beside,
		roles: []role{takes(1), takes(1).of(1)}, losses: 1, ticks: 3},
}

func TestEveryRunOfThreeCalls(t *testing.T) {
	for _, c := range explored {
		t.Run(c.name, func(t *testing.T) {
			r := c.run(c.broken)
			s := c.start(r)
			states, found := r.search(&s, c.finds)
			t.Logf("%d states: %s", states, found)
			if (found != "") != (c.finds != "") {
				t.Errorf("found %q, want %q", found, c.finds)
			}
		})
	}
}

var mutations = []situation{
	{name: "grant without the extra", broken: broken{exact: true}, finds: early, roles: []role{takes(2)}},
	{name: "refresh without the extra", broken: broken{exact: true}, finds: early, held: true, roles: shortened},
	{name: "shorten without the named end", broken: broken{unnamed: true}, finds: early, held: true, roles: shortened},
	{name: "a refresh leaves an equal end", broken: broken{equalEnds: true}, finds: early, held: true,
		roles: []role{takes(4), refreshes(1).then(0).knowing(0), refreshes(3).then(1).knowing(0)}},
	{name: "only neighbours differ", broken: broken{neighbours: true}, finds: early, held: true,
		roles: []role{takes(4), refreshes(1).then(0).knowing(0), refreshes(4).then(1).knowing(0),
			refreshes(3).then(2).knowing(0)}, ticks: 1},
	{name: "longer is a yes", broken: broken{longerIsYes: true}, finds: early, held: true,
		roles: []role{takes(4), refreshes(1).then(0).knowing(0), refreshes(3).then(1).knowing(0)}},
	{name: "a shortening is tried again after the reply", broken: broken{tooLate: true}, finds: early, held: true,
		roles: shortened},
	{name: "a shortening before a majority has the lock", broken: broken{hasty: true},
		roles: []role{takes(3), refreshes(1).then(0), takes(3), takes(2).of(1)}},
	{name: "a shortening of any secret", broken: broken{hasty: true, anySeen: true}, finds: early,
		roles: []role{takes(3), refreshes(1).then(0), takes(4)}},
	{name: "a release acts on any secret", broken: broken{anySeen: true}, finds: beside,
		roles: []role{takes(2), releases().then(0), takes(3), takes(2).of(1)}},
	{name: "find a majority's winner only", broken: broken{winnerOnly: true}, finds: denied, held: true,
		roles: []role{takes(3), releases().then(0)}},
	{name: "undo by value", broken: broken{undoByValue: true}, finds: early,
		roles: []role{takes(3), takes(3)}},
	{name: "an extension revives", broken: broken{revives: true}, finds: revived, held: true, prompt: true,
		roles: []role{takes(1), refreshes(2).then(0).knowing(0)}},
	{name: "top-ups are owed, and revive", broken: broken{owed: true}, finds: revived, held: true, prompt: true,
		roles: []role{takes(3), refreshes(1).then(0).knowing(0), refreshes(2).then(1).knowing(0)}},
	{name: "top-ups are owed, and lengthen", broken: broken{owed: true}, finds: lingers, held: true, prompt: true,
		roles: []role{takes(3), refreshes(3).then(0).knowing(0), refreshes(1).then(1).knowing(0)}},
	{name: "a check concludes from one master", broken: broken{oneDecides: true}, finds: early, prompt: true,
		roles: []role{takes(3), refreshes(1).then(0).knowing(0), refreshes(3).then(1).knowing(0), checks(0)}},
}

func TestMutations(t *testing.T) {
	for _, c := range mutations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random, most := rand.New(rand.NewPCG(1, 1)), 300000
			if c.finds == "" {
				most = 5000
			}
			walks, found := c.walks(c.broken, most, random)
			t.Logf("%d runs: %s", walks, found)
			if (found != "") != (c.finds != "") {
				t.Errorf("found %q, want %q", found, c.finds)
			}
			c.finds = ""
			if _, found := c.walks(broken{}, 2000, random); found != "" {
				t.Errorf("with all rules: %s", found)
			}
		})
	}
}

// walks takes random runs until one shows a fault.
func (c *situation) walks(b broken, most int, random *rand.Rand) (walks int, found string) {
	r := c.run(b)
	c.ticks = cmp.Or(c.ticks, 20)
	for ; walks < most && found == ""; walks++ {
		found = r.walk(c.start(r), c.finds, random.IntN)
	}
	return walks, found
}

// TestAtRandom mixes calls of two values: three to six on three or five masters.
func TestAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 30000 {
		c := situation{five: random.IntN(2) == 0, prompt: random.IntN(2) == 0, held: random.IntN(2) == 0}
		c.losses = uint8(random.IntN(2) * random.IntN(3))
		var takers []int8
		for i := range int8(3 + random.IntN(maxCalls-2)) {
			role := randomRole(random, i)
			if role.kind == take {
				takers = append(takers, i)
			}
			if role.kind != take && random.IntN(2) == 0 {
				role.knows = takers[random.IntN(len(takers))]
				role.value = c.roles[role.knows].value
				if role.kind == release && c.prompt && c.losses == 0 && random.IntN(4) == 0 {
					role.kind = check
				}
			}
			c.roles = append(c.roles, role)
		}
		if _, found := c.walks(broken{}, 1, random); found != "" {
			t.Fatalf("%+v: %s", c, found)
		}
	}
}

// randomRole returns the role of the i-th call, the first of which takes.
func randomRole(random *rand.Rand, i int8) role {
	r := role{value: uint8(random.IntN(2)), ttl: uint8(1 + random.IntN(4)), after: -1, knows: -1}
	if i > 0 && random.IntN(3) > 0 {
		r.after = int8(random.IntN(int(i)))
	}
	switch p := random.IntN(8); {
	case i == 0 || p < 2:
	case p < 6:
		r.kind = refresh
	default:
		r.kind = release
	}
	return r
}
