package main

import (
	"slices"
	"strings"
)

// Figures of a reading.
func rateOf(r reading) float64 { return r.rate }
func cpuOf(r reading) float64  { return r.cpu }
func peakOf(r reading) float64 { return mega(r.peak) }
func p50Of(r reading) float64  { return micros(r.p50) }
func p99Of(r reading) float64  { return micros(r.p99) }

// reportRelay writes the tables and goals of the relay.
func reportRelay(out *report, res relayResults, cases []relayCase) {
	var busy, single []relayCase
	for _, c := range cases {
		if c.clients == 1 {
			single = append(single, c)
		} else {
			busy = append(busy, c)
		}
	}
	all := relayNames(res, "direct", "haproxy", "twemproxy", "lockproxy", "base")
	proxies := relayNames(res, "haproxy", "twemproxy", "lockproxy", "base")
	if len(busy) > 0 {
		out.section("Pass-through: requests per second, 50 clients",
			relayTable(res, busy, all, rateOf, thousands, "haproxy", "twemproxy", "base"))
		out.section("Pass-through: CPU seconds of the proxy per million requests",
			relayTable(res, busy, proxies, cpuOf, ratio, "haproxy", "base"))
	}
	if len(single) > 0 {
		out.section("Pass-through: latency of 1 client, in µs",
			"Median:\n", relayTable(res, single, all, p50Of, tenth, "haproxy", "base"),
			"99th percentile:\n", relayTable(res, single, all, p99Of, whole, "haproxy", "base"))
	}
	if len(cases) > 0 {
		out.section("Pass-through: peak memory of the proxy, in MB",
			"The most that was resident (VmHWM) while a case ran; a proxy is started anew for each round and goes through the cases in this "+
				"order.\n",
			relayTable(res, cases, proxies, peakOf, tenth, "haproxy", "base"))
	}
	relayGoals(out, res, busy, single)
}

// relayNames keeps the subjects that were measured.
func relayNames(res relayResults, names ...string) []string {
	var kept []string
	for _, name := range names {
		if res.has(name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// relayTable has one line a case and one column a subject, then lockproxy's ratio to some.
func relayTable(res relayResults, cases []relayCase, names []string, pick func(reading) float64,
	format func(float64) string,
	to ...string) string {
	t := table{head: append([]string{"case"}, names...)}
	if !res.has("lockproxy") {
		to = nil
	}
	to = relayNames(res, to...)
	for _, name := range to {
		t.head = append(t.head, "lockproxy / "+name)
	}
	for _, c := range cases {
		row := []string{c.title()}
		for _, name := range names {
			row = append(row, res.series(name, c, pick).show(format))
		}
		for _, name := range to {
			row = append(row, res.series("lockproxy", c, pick).over(res.series(name, c, pick)).show(ratio))
		}
		t.add(row...)
	}
	return t.String()
}

// relayGoals compares the results with the relay's goals.
func relayGoals(out *report, res relayResults, busy, single []relayCase) {
	least := func(limit float64) func(...series) verdict {
		return func(s ...series) verdict { return atLeast(limit, s...) }
	}
	most := func(limit float64) func(...series) verdict {
		return func(s ...series) verdict { return atMost(limit, s...) }
	}
	for _, g := range []struct {
		what, wanted, to string
		pick             func(reading) float64
		cases            []relayCase
		judge            func(...series) verdict
	}{
		{"throughput / HAProxy, pipeline 1", "at least 0.95", "haproxy", rateOf, pipelined(busy, 1), least(0.95)},
		{"throughput / HAProxy, pipeline 16", "at least 1.00", "haproxy", rateOf, pipelined(busy, 16), least(1)},
		{"throughput / HAProxy, pipeline 100", "at least 1.00", "haproxy", rateOf, pipelined(busy, 100), least(1)},
		{"CPU per request / HAProxy", "at most 1.20", "haproxy", cpuOf, busy, most(1.2)},
		{"median latency of 1 client / HAProxy", "at most 1.25", "haproxy", p50Of, single, most(1.25)},
		{"throughput / twemproxy, pipelines 16 and 100", "over 1.00", "twemproxy", rateOf, pipelined(busy, 16, 100),
			least(1)},
	} {
		if len(g.cases) == 0 || !res.has(g.to) || !res.has("lockproxy") {
			continue
		}
		var ratios []series
		var shown []string
		for _, c := range g.cases {
			s := res.series("lockproxy", c, g.pick).over(res.series(g.to, c, g.pick))
			ratios, shown = append(ratios, s), append(shown, c.title()+": "+ratio(s.median()))
		}
		out.goal(g.what, g.wanted, strings.Join(shown, "; "), g.judge(ratios...))
	}
}

// pipelined keeps the cases with some pipelines.
func pipelined(cases []relayCase, pipelines ...int) []relayCase {
	var kept []relayCase
	for _, c := range cases {
		if slices.Contains(pipelines, c.pipeline) {
			kept = append(kept, c)
		}
	}
	return kept
}

// measureCPU is the part of relay that other work on the machine disturbs least: it shows whether
// a change makes a request cheaper.
func measureCPU(r *rig, out *report) error {
	var cases []relayCase
	for _, c := range relayCases() {
		if c.clients > 1 && (c.command == "get" || c.size > 64) && r.wantsCase(c.name()) {
			cases = append(cases, c)
		}
	}
	var subjects []relaySubject
	for _, s := range relaySubjects(r.options) {
		if s.name != "direct" && (s.name != "twemproxy" || r.wants(s.name) && len(r.subjects) > 0) {
			subjects = append(subjects, s)
		}
	}
	res, err := r.relayRounds(cases, subjects)
	if err != nil {
		return err
	}
	names := relayNames(res, "haproxy", "twemproxy", "lockproxy", "base")
	out.section("CPU seconds of the proxy per million requests", relayTable(res, cases, names, cpuOf, ratio, "haproxy",
		"base"))
	return nil
}
