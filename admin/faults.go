package admin

import (
	"cmp"
	"slices"
	"strings"

	"lockproxy/stat"
)

// clientFaults are outcomes that are the client's fault. The page lists them with the errors; the
// chart leaves them out.
var clientFaults = map[stat.Outcome]bool{stat.OutcomeInvalid: true, stat.OutcomeDenied: true}

// fault names a kind of error: the part that reports it, and its kind there.
type fault struct {
	Source string // "reply", "session", "master" or "upstream"
	Kind   string
}

// String is the name in samples.
func (f fault) String() string { return f.Source + " " + f.Kind }

type faultReport struct {
	Source string `json:"source"`
	Kind   string `json:"kind"`
	Total  uint64 `json:"total"` // since the start
}

// faults returns how often each kind of error happened since the start.
func (m *Meter) faults(masters []stat.Master) map[fault]uint64 {
	all := map[fault]uint64{}
	add := func(source, kind string, n uint64) {
		if n > 0 {
			all[fault{source, kind}] += n
		}
	}
	for _, counters := range m.commands {
		for outcome, c := range counters {
			if outcome.Failed() || clientFaults[outcome] {
				add("reply", string(outcome), uint64(valueOf(c)))
			}
		}
	}
	add("session", string(stat.OutcomeLost), uint64(valueOf(m.sessions[stat.OutcomeLost])))
	for kind, c := range m.dialFails {
		add("upstream", kind, uint64(valueOf(c)))
	}
	for i := range masters {
		add("master", "repairs dropped", masters[i].Dropped)
		for kind, n := range masters[i].ByKind {
			add("master", errorKind(kind), n)
		}
	}
	return all
}

// faultReports lists all in a fixed order.
func faultReports(all map[fault]uint64) []faultReport {
	list := make([]faultReport, 0, len(all))
	for f, n := range all {
		list = append(list, faultReport{f.Source, f.Kind, n})
	}
	slices.SortFunc(list, func(a, b faultReport) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Kind, b.Kind))
	})
	return list
}

// risen returns how much each kind rose since the last call, by name; nil if none did.
func (s *sampler) risen(all map[fault]uint64) (names map[string]uint64) {
	for f, n := range all {
		if n <= s.faults[f] {
			continue
		}
		if names == nil {
			names = map[string]uint64{}
		}
		names[f.String()] = n - s.faults[f]
	}
	s.faults = all
	return names
}
