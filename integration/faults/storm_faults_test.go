package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// faultKind is a kind of fault. Its begin runs on the test's goroutine; the function that it
// returns ends the fault, and may be nil.
type faultKind struct {
	name     string
	weight   int                                 // frequency relative to the others
	longest  time.Duration                       // 0 for a fault that does not last
	targets  func(masters, proxies int) []target // all that it can strike
	begin    func(t testing.TB, s *faultStorm, f fault) (end func())
	shortest time.Duration
	ends     bool // it ends a proxy
}

// target is a master, a proxy, or the link between the two. At most one fault strikes it at a
// time.
type target struct{ master, proxy int } // -1: none

// fault is a fault of a storm. The seed determines all of it.
type fault struct {
	*faultKind
	target
	start, end time.Duration
	size       float64 // 0 to 1; its meaning depends on the kind
	idle       []int   // masters without another fault when this one begins
}

func (f fault) String() string {
	return fmt.Sprintf("%v to %v: %s, master %d, via %d", f.start.Round(time.Millisecond),
		f.end.Round(time.Millisecond), f.name, f.master, f.proxy)
}

func onMasters(masters, _ int) (list []target) {
	for m := range masters {
		list = append(list, target{m, -1})
	}
	return list
}

func onProxies(_, proxies int) (list []target) {
	for p := range proxies {
		list = append(list, target{-1, p})
	}
	return list
}

func onLinks(masters, proxies int) (list []target) {
	for p := range proxies {
		for m := range masters {
			list = append(list, target{m, p})
		}
	}
	return list
}

func onAll(_, _ int) []target { return []target{{-1, -1}} }

// linkFaults are faults of the network. They cost only time and connections.
var linkFaults = []*faultKind{
	{"link frozen", 12, 2500 * time.Millisecond, onLinks, func(_ testing.TB, s *faultStorm, f fault) func() {
		r := s.Link(f.proxy, f.master)
		r.Freeze()
		return r.Thaw
	}, 0, false},
	{"answers frozen", 8, 2500 * time.Millisecond, onLinks, func(_ testing.TB, s *faultStorm, f fault) func() {
		r := s.Link(f.proxy, f.master)
		r.FreezeAnswers()
		return r.Thaw
	}, 0, false},
	{"commands frozen", 8, 2500 * time.Millisecond, onLinks, func(_ testing.TB, s *faultStorm, f fault) func() {
		r := s.Link(f.proxy, f.master)
		r.FreezeCommands()
		return r.Thaw
	}, 0, false},
	{"link cut", 8, 1500 * time.Millisecond, onLinks, func(_ testing.TB, s *faultStorm, f fault) func() {
		r := s.Link(f.proxy, f.master)
		r.Isolate()
		return func() { r.Refuse(false) }
	}, 0, false},
	{"connections reset", 6, 0, onLinks, func(_ testing.TB, s *faultStorm, f fault) func() {
		s.Link(f.proxy, f.master).CutAll()
		return nil
	}, 0, false},
	{"link slow", 12, 2 * time.Second, onLinks, func(_ testing.TB, s *faultStorm, f fault) func() {
		r := s.Link(f.proxy, f.master)
		r.Slow(time.Duration(f.size * float64(40*time.Millisecond)))
		return func() { r.Slow(0) }
	}, 0, false},
}

// masterFaults are faults of masters that keep their memory.
var masterFaults = []*faultKind{
	{"master paused", 12, 2500 * time.Millisecond, onMasters, func(t testing.TB, s *faultStorm, f fault) func() {
		s.Masters[f.master].Pause(t)
		return s.Masters[f.master].Resume
	}, 0, false},
	{"scripts flushed", 6, 0, onMasters, func(t testing.TB, s *faultStorm, f fault) func() {
		s.Masters[f.master].Must(t, "SCRIPT", "FLUSH")
		return nil
	}, 0, false},
	{"-OOM", 4, time.Second, onMasters, func(t testing.TB, s *faultStorm,
		f fault) func() {
		return s.Masters[f.master].OutOfMemory(t)
	}, 0, false},
	{"-MISCONF", 2, time.Second, onMasters, func(t testing.TB, s *faultStorm,
		f fault) func() {
		return s.Masters[f.master].Misconfigured(t)
	}, 0, false},
}

// demotions make a master a replica for a while. It keeps its memory, but no proxy can know that,
// so it has to wait.
var demotions = []*faultKind{
	{"-READONLY", 2, time.Second, onMasters, func(t testing.TB, s *faultStorm,
		f fault) func() {
		return s.Masters[f.master].ReadOnly(t)
	}, 0, false},
}

// wipes make masters lose their memory.
var wipes = []*faultKind{
	{"master killed, back empty", 2, time.Second, onMasters, func(t testing.TB, s *faultStorm, f fault) func() {
		s.Masters[f.master].Kill()
		return func() { s.Masters[f.master].RestartEmpty(t) }
	}, 0, false},
	{"FLUSHALL", 1, 0, onMasters, func(t testing.TB, s *faultStorm, f fault) func() {
		s.Masters[f.master].Must(t, "FLUSHALL")
		return nil
	}, 0, false},
	{"FLUSHALL on many", 1, 0, onAll, func(t testing.TB, s *faultStorm, f fault) func() {
		spared := int(2 * f.size) // 0 or 1
		for _, m := range f.idle[min(spared, len(f.idle)):] {
			s.Masters[m].Must(t, "FLUSHALL")
		}
		return nil
	}, 0, false},
}

// drainTime is the longest time that a proxy started by lab takes to end.
const drainTime = 3 * time.Second

// proxyFaults are faults of proxies.
var proxyFaults = []*faultKind{
	{"proxy paused", 4, 1500 * time.Millisecond, onProxies, func(t testing.TB, s *faultStorm, f fault) func() {
		s.Proxies[f.proxy].Pause(t)
		return s.Proxies[f.proxy].Resume
	}, 0, false},
	{"proxy killed", 2, 500 * time.Millisecond, onProxies, func(t testing.TB, s *faultStorm, f fault) func() {
		s.Proxies[f.proxy].Kill()
		return func() { s.Proxies[f.proxy].Restart(t) }
	}, 0, true},
	{"proxy drained", 2, 500 * time.Millisecond, onProxies, func(t testing.TB, s *faultStorm, f fault) func() {
		p := s.Proxies[f.proxy]
		p.Signal(syscall.SIGTERM)
		return func() {
			lab.WaitFor(t, "the end of a proxy", lab.Patience, func() bool { return !p.Running() })
			p.Restart(t)
		}
	}, drainTime, true},
}

// clockSteps are for masters with clocks of their own.
var clockSteps = []*faultKind{
	{"clock stepped", 10, 0, onMasters, func(_ testing.TB, s *faultStorm, f fault) func() {
		s.Masters[f.master].Clock.Step([]time.Duration{time.Minute, 3 * time.Second, -3 * time.Second}[int(f.size*3)])
		return nil
	}, 0, false},
}

// schedule draws the faults of a storm, in the order of their start.
func (plan *stormPlan) schedule(r *rand.Rand) (list []fault) {
	var kinds []*faultKind
	for _, k := range plan.kinds {
		kinds = append(kinds, slices.Repeat([]*faultKind{k}, k.weight)...)
	}
	busy := map[target]time.Duration{} // when the last fault of each target ends
	for at := plan.every; at < plan.lasts; at += plan.every/2 + time.Duration(r.Int64N(int64(plan.every))) {
		k := kinds[r.IntN(len(kinds))]
		targets := k.targets(plan.masters, plan.proxies)
		f := fault{faultKind: k, target: targets[r.IntN(len(targets))], start: at, size: r.Float64()}
		short := r.Float64() // most are short
		f.end = at + max(k.shortest, 10*time.Millisecond) + time.Duration(short*short*float64(k.longest))
		if at < busy[f.target] || plan.steady && k.ends && f.proxy == 0 {
			continue
		}
		busy[f.target] = f.end + 10*time.Millisecond
		for _, m := range r.Perm(plan.masters) {
			if at >= busy[target{m, -1}] {
				f.idle = append(f.idle, m)
			}
		}
		list = append(list, f)
	}
	return list
}

// rage begins and ends the faults in their order, and returns when the last has ended. A fault may
// begin late if another took long to begin or end.
func (s *faultStorm) rage(t testing.TB, faults []fault) {
	type ending struct {
		at  time.Duration
		end func()
	}
	var endings []ending // sorted
	begun := s.log.Now()
	for len(faults) > 0 || len(endings) > 0 {
		if len(endings) > 0 && (len(faults) == 0 || endings[0].at <= faults[0].start) {
			s.sleep(begun + endings[0].at - s.log.Now())
			endings[0].end()
			endings = endings[1:]
			continue
		}
		f := faults[0]
		faults = faults[1:]
		s.sleep(begun + f.start - s.log.Now())
		s.happened = append(s.happened, fmt.Sprintf("%v: %v", s.log.Now(), f))
		s.faults[f.name]++
		if end := f.begin(t, s, f); end != nil {
			at, _ := slices.BinarySearchFunc(endings, f.end, func(e ending, end time.Duration) int { return int(e.at - end) })
			endings = slices.Insert(endings, at, ending{f.end, end})
		}
	}
}
