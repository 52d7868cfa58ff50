package relay

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// No client can distinguish the proxy from its Redis. Scripts of random commands, written by the
// grammar that Redis itself publishes, go directly to one server and through the proxy to another
// of the same kind; the replies must be equal byte for byte, and so must the state of the
// connections. A third of the scripts has lock commands, which Redis calls unknown and the proxy
// must answer. Every group of commands is tried in every state of a connection, in RESP2 and
// RESP3, and every command at least once: 544 scripts, and eighty times as many with
// INTEGRATION_LONG, or as many as the time limit of go test allows. specials and plain list the
// parts that are not compared, with reasons.
func TestFidelity(t *testing.T) {
	lab.Tool(t, "redis-server")
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	const least = 2
	rounds := lab.Long(least, 80*least)
	first := lab.StartRedis(t) // before the subtest: without redis-server the whole test is skipped
	report := &fidelityReport{cells: map[string]int{}, commands: map[string]int{}}
	var all []described
	t.Run("scripts", func(t *testing.T) {
		all = describeCommands(t, first)
		first.Must(t, "SET", "x", "y")
		g := newGrammar(all, lab.Scalar(first.Do(t, "DUMP", "x")))
		cells := fidelityCells(g.groups)
		const workers = 2
		for worker := range workers {
			t.Run(fmt.Sprintf("worker %d", worker), func(t *testing.T) {
				t.Parallel()
				open, closed := startFidelityRig(t, ""), startFidelityRig(t, "secret")
				play := func(i int) { report.play(t, g, cells[i%len(cells)], open, closed, seed, uint64(i)) }
				end, bounded := t.Deadline()
				late := func() bool { return bounded && time.Until(end) < 30*time.Second }
				for i := worker; i < rounds*len(cells) && !t.Failed() && (i < least*len(cells) || !late()); i += workers {
					play(i)
				}
				// Chance may leave something out.
				for i := rounds*len(cells) + worker; i < (rounds+3)*len(cells) && !t.Failed(); i += workers {
					if report.lacks(g, cells[i%len(cells)]) {
						play(i)
					}
				}
			})
		}
	})
	report.check(t, all)
}

// fidelityCell is the case that a script tries.
type fidelityCell struct {
	group string
	state connectionState
	resp3 bool
}

func (c fidelityCell) String() string {
	return fmt.Sprintf("%s, %s, RESP%d", c.group, c.state.name, 2+b2i(c.resp3))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fidelityCells returns every combination of group, state and protocol that Redis has: HELLO 3
// wants the password, so no connection speaks RESP3 before it has authenticated.
func fidelityCells(groups []string) (list []fidelityCell) {
	for _, group := range groups {
		for _, state := range connectionStates {
			for _, resp3 := range []bool{false, true} {
				if !resp3 || !state.noResp3 {
					list = append(list, fidelityCell{group, state, resp3})
				}
			}
		}
	}
	return list
}

func newGrammar(all []described, payload string) grammar {
	g := grammar{commands: map[string][]described{}, payload: payload}
	for _, d := range all {
		g.commands[d.group] = append(g.commands[d.group], d)
	}
	g.groups = slices.Sorted(maps.Keys(g.commands))
	return g
}

// fidelityReport counts the work of the scripts.
type fidelityReport struct {
	mu       sync.Mutex
	scripts  int
	requests int
	mutated  int
	closed   int
	locks    lockCount
	cells    map[string]int // commands sent in each
	commands map[string]int
}

// play plays one script of a cell and compares the answers. One script in ten has some of its
// bytes changed: every tenth, so that a cell has another one in the next round.
func (r *fidelityReport) play(t *testing.T, g grammar, c fidelityCell, open, closed *fidelityRig, seed,
	number uint64) {
	t.Helper()
	g.script = seeded(seed, number)
	states := len(fidelityCells(g.groups[:1]))
	round, place := int(number)/(states*len(g.groups)), int(number)%states
	rig := open
	if c.state.password || !c.state.open && g.IntN(2) == 0 {
		rig = closed
	}
	s := newFidelityScript(g, c, rig.password, g.deal(seed, c.group, round*states+place), (number+seed)%10 == 0)
	got, want := rig.play(t, s)
	what, locks := s.differs(got.Text, want.Text)
	if what == "" && got.State != want.State {
		what = fmt.Sprintf("through the proxy it ends %s, directly %s", got.State, want.State)
	}
	if what == "" {
		what = s.unreached(want.Text)
	}
	if what != "" {
		_ = os.WriteFile(filepath.Join(t.ArtifactDir(), "script"), []byte(s.text.String()), 0o600)
		t.Errorf("script %d (%s, password %v, mutated %v): %s\nthrough the proxy it ends %s, directly %s\nsent: %.3000q",
			number, c, rig.password != "", s.mutated,
			what, got.State, want.State, s.text.String())
	}
	r.count(c, s, locks, strings.HasPrefix(want.State, "closed"))
}

// unreached returns the reason if the script did not reach its state, else "".
func (s *fidelityScript) unreached(directly string) string {
	list := frames(directly)
	for _, e := range s.prelude {
		if e.reply == "" {
			continue
		}
		if len(list) == 0 || !strings.HasPrefix(list[0], e.reply) {
			return fmt.Sprintf("%q was not answered %q", e.args, e.reply)
		}
		list = list[1:]
	}
	return ""
}

func (r *fidelityReport) count(c fidelityCell, s *fidelityScript, locks lockCount, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scripts++
	r.requests += s.requests
	r.mutated += b2i(s.mutated)
	r.closed += b2i(closed)
	r.locks.granted, r.locks.refused, r.locks.passed = r.locks.granted+locks.granted, r.locks.refused+locks.refused,
		r.locks.passed+locks.passed
	for _, group := range s.groups {
		r.cells[fidelityCell{group, c.state, c.resp3}.String()]++
	}
	for _, name := range s.sent {
		r.commands[name]++
	}
}

// lacks reports whether no command was sent in a cell, or a command of its group never.
func (r *fidelityReport) lacks(g grammar, c fidelityCell) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cells[c.String()] == 0 ||
		slices.ContainsFunc(g.commands[c.group], func(d described) bool { return r.commands[d.String()] == 0 })
}

// check fails for every cell without a command, and for every command that was never sent.
func (r *fidelityReport) check(t *testing.T, all []described) {
	t.Helper()
	least, where := 1<<30, ""
	cells := fidelityCells(newGrammar(all, "").groups)
	for _, c := range cells {
		if n := r.cells[c.String()]; n < least {
			least, where = n, c.String()
		}
		if r.cells[c.String()] == 0 && !t.Failed() {
			t.Errorf("%s: no command of this group was sent in this state", c)
		}
	}
	for _, d := range all {
		if r.commands[d.String()] == 0 && !t.Failed() {
			t.Errorf("%s was never sent", d)
		}
	}
	if !t.Failed() && (r.locks.granted < r.scripts/10 || r.locks.refused < r.scripts/10 || r.mutated < r.scripts/30) {
		t.Errorf("got lock commands %+v and %d changed scripts of %d, want at least one granted and one refused for 10 scripts, and one script in 30 changed",
			r.locks, r.mutated, r.scripts)
	}
	t.Logf("%d scripts, %d requests, %d commands, %d scripts with changed bytes, %d connections closed by Redis; lock commands: %d granted, %d refused, %d left to the upstream",
		r.scripts, r.requests, len(all), r.mutated, r.closed, r.locks.granted, r.locks.refused, r.locks.passed)
	t.Logf("%d cells of group, state and protocol, the fewest commands in one: %d (%s)", len(cells), least, where)
}
