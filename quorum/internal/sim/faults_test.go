package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lockproxy/quorum"
)

// faultKind is one kind of fault.
type faultKind struct {
	name    string
	forgets bool // locks may be gone before their time: only with the restart guard
	loses   bool // counters too
	strays  bool // keys may be left on a master at the end
	do      func(f *faulter)
}

// faultKinds are all of them.
var faultKinds = []faultKind{
	{name: "cut", do: (*faulter).cutOne},
	{name: "isolate a master", do: (*faulter).isolateMaster},
	{name: "isolate a proxy", do: (*faulter).isolateProxy},
	{name: "clog", do: (*faulter).clog},
	{name: "slow", do: (*faulter).slowDown},
	{name: "reset", do: (*faulter).resetOne},
	{name: "reset a master", do: (*faulter).resetMaster},
	{name: "pause", do: (*faulter).pause},
	{name: "trouble", do: (*faulter).trouble},
	{name: "flush scripts", do: (*faulter).flushScripts},
	{name: "crash a proxy", strays: true, do: (*faulter).crashProxy},
	{name: "replace a proxy", strays: true, do: (*faulter).replaceProxy},
	{name: "restart", forgets: true, loses: true, do: (*faulter).restart},
	{name: "restart with an old RDB", forgets: true, loses: true, strays: true, do: (*faulter).restartOld},
	{name: "FLUSHALL", forgets: true, loses: true, do: (*faulter).flushAll},
	{name: "forget anyhow", forgets: true, loses: true, strays: true, do: (*faulter).forgetAnyhow},
	{name: "rolling restart", forgets: true, loses: true, strays: true, do: (*faulter).rollingRestart},
	{name: "clock steps", forgets: true, strays: true, do: (*faulter).stepClock},
	{name: "cannot be written", do: (*faulter).deny},
	{name: "address moves", forgets: true, loses: true, strays: true, do: (*faulter).moveAddress},
	{name: "addresses swap", forgets: true, loses: true, strays: true, do: (*faulter).swapAddresses},
	{name: "SWAPDB", forgets: true, loses: true, strays: true, do: (*faulter).swapDB},
	{name: "snapshot restored", forgets: true, loses: true, strays: true, do: (*faulter).restoreSnapshot},
	{name: "evicts", forgets: true, strays: true, do: (*faulter).evict},
	{name: "rights", do: (*faulter).takeRights},
}

// faultPlan lists the faults of a run.
type faultPlan struct {
	gap   time.Duration // between two faults, on average
	first time.Duration // before the first
	last  time.Duration // how long a fault lasts, at most
	kinds []faultKind
}

func (p *faultPlan) draw(r *rand.Rand, run *plan) {
	p.gap = time.Duration(float64(20*time.Millisecond) * float64(uint64(1)<<r.IntN(8)) * (1 + r.Float64()))
	if run.census || rarely(r, 0.7) {
		p.first = time.Second
	}
	p.last = between(r, 50*time.Millisecond, 4*time.Second)
	for _, k := range faultKinds {
		if rarely(r, 0.25) && !(run.census && k.strays) && !(run.guard == quorum.GuardOff && k.forgets) {
			p.kinds = append(p.kinds, k)
		}
	}
}

// loses reports whether masters may lose their counters.
func (p *faultPlan) loses() bool {
	return slices.ContainsFunc(p.kinds, func(k faultKind) bool { return k.loses })
}

// has reports whether a kind is among them.
func (p *faultPlan) has(name string) bool {
	return slices.ContainsFunc(p.kinds, func(k faultKind) bool { return k.name == name })
}

func (p *faultPlan) names() string {
	names := make(map[string]bool)
	for _, k := range p.kinds {
		names[k.name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// faulter does faults, one after another; each ends by itself.
type faulter struct {
	w       *world
	random  *rand.Rand
	moments int
}

// run goes on until the world stops it.
func (f *faulter) run() {
	kinds := f.w.plan.faults.kinds
	if len(kinds) == 0 {
		return
	}
	if !f.w.wait(f.w.plan.faults.first) {
		return
	}
	for f.w.wait(f.moment(2 * f.w.plan.faults.gap)) {
		kinds[f.random.IntN(len(kinds))].do(f)
	}
}

// moment is a random duration up to most, or a little longer: it ends at an instant that only
// faults have.
func (f *faulter) moment(most time.Duration) time.Duration {
	f.moments++
	return f.w.own(time.Duration(f.random.Int64N(int64(most)+1)), 2000+f.moments%4000)
}

// during starts a fault that ends by itself after a while, or when the world stops.
func (f *faulter) during(begin, end func()) {
	d := f.moment(f.w.plan.faults.last)
	begin()
	f.w.group.Go(func() {
		f.w.wait(d)
		end()
	})
}

func (f *faulter) master() *simMaster { return f.w.server(f.addr()) }

func (f *faulter) addr() int { return f.random.IntN(len(f.w.net.at)) }

func (f *faulter) place() int { return f.random.IntN(len(f.w.places)) }

// directions are both, or one of them.
func (f *faulter) directions() []direction {
	switch f.random.IntN(4) {
	case 0:
		return []direction{up}
	case 1:
		return []direction{down}
	}
	return []direction{up, down}
}

func (f *faulter) cut(what string, proxy, addr int) {
	dirs := f.directions()
	f.during(func() {
		f.w.trace.note(addr, "%s: cut from proxy place %d, %v", what, proxy, dirs)
		f.w.net.each(proxy, addr, func(p *path) {
			for _, dir := range dirs {
				f.w.net.cut(p, dir)
			}
		})
	}, func() {
		f.w.trace.note(addr, "%s: healed", what)
		f.w.net.each(proxy, addr, func(p *path) {
			for _, dir := range dirs {
				f.w.net.heal(p, dir)
			}
		})
	})
}

func (f *faulter) cutOne() { f.cut("cut", f.place(), f.addr()) }

// cutFromMost cuts a proxy off from a majority of the masters.
func (f *faulter) cutFromMost() {
	place, n := f.place(), len(f.w.net.at)
	for _, addr := range f.random.Perm(n)[:majority(n)] {
		f.cut("cut off", place, addr)
	}
}

func (f *faulter) isolateMaster() { f.cut("isolate", -1, f.addr()) }

func (f *faulter) isolateProxy() { f.cut("isolate", f.place(), -1) }

// clog stops paths one by one; each goes on at a time of its own.
func (f *faulter) clog() {
	for range 2 + f.random.IntN(5) {
		f.cutOne()
		if !f.w.wait(f.moment(20 * time.Millisecond)) {
			return
		}
	}
}

func (f *faulter) slowDown() {
	p := f.w.net.paths[f.place()][f.addr()]
	slow := f.moment(200 * time.Millisecond)
	f.during(func() {
		f.w.trace.note(p.addr, "slow from proxy place %d: %v", p.proxy, slow)
		f.w.net.slow(p, slow)
	}, func() { f.w.net.slow(p, -slow) })
}

func (f *faulter) resetOne() {
	p := f.w.net.paths[f.place()][f.addr()]
	f.w.trace.note(p.addr, "reset from proxy place %d", p.proxy)
	f.w.net.reset(p)
}

func (f *faulter) resetMaster() {
	addr := f.addr()
	f.w.trace.note(addr, "reset from everywhere")
	f.w.net.each(-1, addr, f.w.net.reset)
}

func (f *faulter) pause() {
	m := f.master()
	f.during(func() {
		f.w.trace.note(m.index, "paused")
		f.w.net.pauseMaster(m)
	}, func() {
		f.w.trace.note(m.index, "goes on")
		f.w.net.resumeMaster(m)
	})
}

// troubles are errors of commands that were not carried out.
var troubles = []string{
	"-LOADING Redis is loading the dataset in memory\r\n",
	"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
	"-MISCONF Redis is configured to save RDB snapshots\r\n",
	"-READONLY You can't write against a read only replica.\r\n",
	"-BUSY Redis is busy running a script.\r\n",
	"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n",
}

func (f *faulter) trouble() {
	kinds := troubles
	if f.w.plan.census { // without the right to CLIENT KILL a late SET may leave its key, which the log says
		kinds = kinds[:len(kinds)-1]
	}
	m, text, share := f.master(), kinds[f.random.IntN(len(kinds))], f.random.Float64()
	f.during(func() {
		f.w.trace.note(m.index, "answers %s", text)
		f.w.net.setTrouble(m, text, share)
	}, func() { f.w.net.setTrouble(m, "", 0) })
}

func (f *faulter) flushScripts() {
	m := f.master()
	f.w.trace.note(m.index, "SCRIPT FLUSH")
	m.FlushScripts()
}

// crashProxy ends a proxy, and starts the next one a little later.
func (f *faulter) crashProxy() {
	f.replace("crash", func(pr *simProxy) { f.w.crash(pr) })
}

// replaceProxy stops a proxy as SIGTERM does, and starts the next one.
func (f *faulter) replaceProxy() {
	f.replace("close", func(pr *simProxy) { f.w.close(pr) })
}

func (f *faulter) replace(how string, end func(*simProxy)) {
	pr := f.w.takeDown(f.place())
	if pr == nil {
		return
	}
	wait := f.moment(500 * time.Millisecond)
	f.w.group.Go(func() {
		f.w.trace.add(event{what: how, proxy: pr.serial, master: -1, client: -1})
		end(pr)
		f.w.wait(wait)
		f.w.startAgain(pr.place)
	})
}

// startAgain starts a proxy as soon as none can count on a clock that has stepped unseen.
func (w *world) startAgain(place int) {
	for !w.noticed() && w.wait(20*time.Millisecond+2001*time.Nanosecond) {
	}
	w.start(place)
}

// denials are why a master that answers cannot be written.
var denials = []string{
	"OOM command not allowed when used memory > 'maxmemory'.",
	"READONLY You can't write against a read only replica.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"NOREPLICAS Not enough good replicas to write.",
}

// deny makes everything that writes fail on a master for a while.
func (f *faulter) deny() {
	m, text := f.master(), denials[f.random.IntN(len(denials))]
	f.during(func() {
		f.w.trace.note(m.index, "cannot be written: %s", text)
		f.w.net.deny(m, text)
	}, func() {
		f.w.trace.note(m.index, "can be written")
		f.w.net.deny(m, "")
	})
}

// denyFromStart lets masters be written again that could not from the start on.
func (f *faulter) denyFromStart() {
	if f.w.plan.denied == nil {
		return
	}
	f.w.wait(f.w.own(f.w.plan.deniedFor, 7000))
	for i, text := range f.w.plan.denied {
		if text != "" {
			f.w.trace.note(i, "can be written")
			f.w.net.deny(f.w.masters[i], "")
		}
	}
}
