package main

import "fmt"

// kindWorkers are how many lock side by side in the part of kinds.
var kindWorkers = []int{1, 64}

// kindGoals are the shares of the exclusive lock's pairs per second that each kind must reach.
var kindGoals = []struct {
	way, form string
	limit     float64
}{
	{"shared", "LOCK k SHARED", 0.8},
	{"limit", "LOCK k LIMIT 10", 0.7},
	{"keys", "LOCK k KEYS 3, four keys in all", 0.5},
}

// kindSubjects are all kinds through one proxy, and the same through an earlier build.
func kindSubjects(o options) []lockSubject {
	list := []lockSubject{{name: "exclusive", way: "plain", binary: o.lockproxy,
		flags: []string{"--key-prefix", "kinds:"}}}
	for _, k := range kindGoals {
		list = append(list, lockSubject{name: k.way, way: k.way, through: "exclusive"})
	}
	if o.base != "" {
		list = append(list, lockSubject{name: "base", way: "plain", binary: o.base,
			flags: []string{"--key-prefix", "base:"}})
		for _, k := range kindGoals {
			list = append(list, lockSubject{name: "base-" + k.way, way: k.way, through: "base"})
		}
	}
	return list
}

// measureKinds compares the other kinds of locks with the exclusive one, without waiters.
func measureKinds(r *rig, out *report) error {
	subjects := kindSubjects(r.options)
	res, err := r.lockRounds("kinds", kindWorkers, subjects, loadOrder{Span: r.span})
	if err != nil {
		return err
	}
	out.section("Kinds: LOCK and UNLOCK, a key a worker, 5 masters",
		"One proxy for all of them; processor time for each pair.\n", kindFigures(res, subjects).String())
	kindVerdicts(out, res)
	return nil
}

func kindFigures(res lockResults, subjects []lockSubject) *table {
	t := &table{head: []string{"workers", "with", "pairs/s", "of the exclusive one's", "LOCK median µs",
		"proxy µs", "client µs", "masters µs", "all µs"}}
	costs := []func(lockReading) float64{proxyPerPair, clientPerPair, mastersPerPair, allPerPair}
	for _, n := range kindWorkers {
		for _, s := range subjects {
			row := []string{fmt.Sprint(n), s.name, res.series(s.name, n, pairsOf).show(thousands),
				res.against(s.name, "exclusive", n, pairsOf).show(ratio),
				res.series(s.name, n, lockP50Of).show(whole)}
			for _, pick := range costs {
				row = append(row, res.series(s.name, n, pick).show(tenth))
			}
			t.add(row...)
		}
	}
	return t
}

// kindVerdicts compares the results with the goals.
func kindVerdicts(out *report, res lockResults) {
	for _, n := range kindWorkers {
		for _, k := range kindGoals {
			s := res.against(k.way, "exclusive", n, pairsOf)
			out.goal(fmt.Sprintf("pairs per second, %s / exclusive, %s", k.form, count(n, "worker")),
				fmt.Sprintf("at least %.1f", k.limit), s.show(ratio), atLeast(k.limit, s))
		}
		if res.has("base") {
			beside(out, res, "exclusive", "base", n)
			for _, k := range kindGoals {
				beside(out, res, k.way, "base-"+k.way, n)
			}
		}
	}
}

// beside says how fast name is beside the earlier build, and how much of the masters' time it
// takes.
func beside(out *report, res lockResults, name, base string, n int) {
	s := res.against(name, base, n, pairsOf)
	out.goal(fmt.Sprintf("pairs per second, %s / %s, %s", name, base, count(n, "worker")),
		"at least 0.98", s.show(ratio), atLeast(0.98, s))
	s = res.against(name, base, n, mastersPerPair)
	out.goal(fmt.Sprintf("masters' time for a pair, %s / %s, %s", name, base, count(n, "worker")),
		"at most 1.02", s.show(ratio), atMost(1.02, s))
}
