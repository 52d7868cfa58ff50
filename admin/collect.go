package admin

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"lockproxy/stat"
)

// namespace begins the name of every metric of ours.
const namespace = "lockproxy"

// Registry holds all metrics: those of m, those read from state at each scrape, and those of Go
// and the process.
func Registry(m *Meter, state func() Snapshot, version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m.all...)
	r.MustRegister(&collector{state}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help:        "The version of lockproxy; always 1.",
		ConstLabels: prometheus.Labels{"version": strings.ToValidUTF8(version, "")}})
	info.Set(1)
	r.MustRegister(info)
	return r
}

// collector reads a Snapshot.
type collector struct{ state func() Snapshot }

var _ prometheus.Collector = (*collector)(nil)

// metric is one number of a T, read at each scrape.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

func (m *metric[T]) collect(ch chan<- prometheus.Metric, of *T, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(of), labels...)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

type numeric interface{ int | uint64 | float64 }

func gauge[N numeric](name, help string, value func(*Snapshot) N) metric[Snapshot] {
	return newMetric(prometheus.GaugeValue, desc(name, help), value)
}

func counter(name, help string, value func(*Snapshot) uint64) metric[Snapshot] {
	return newMetric(prometheus.CounterValue, desc(name, help), value)
}

func newMetric[T any, N numeric](kind prometheus.ValueType, d *prometheus.Desc, value func(*T) N) metric[T] {
	return metric[T]{d, kind, func(of *T) float64 { return float64(value(of)) }}
}

var metrics = []metric[Snapshot]{
	gauge("clients", "Clients connected.", func(s *Snapshot) int { return s.Traffic.Clients }),
	counter("client_connections_total", "Connections of clients that were served.",
		func(s *Snapshot) uint64 { return s.Traffic.Accepted }),
	counter("client_connections_refused_total",
		"Connections of clients that were turned away: max-clients, or the proxy was ending.",
		func(s *Snapshot) uint64 { return s.Traffic.Refused }),
	counter("client_received_bytes_total", "Bytes from clients.",
		func(s *Snapshot) uint64 { return s.Traffic.Received }),
	counter("client_sent_bytes_total", "Bytes to clients.",
		func(s *Snapshot) uint64 { return s.Traffic.Sent }),
	counter("relayed_commands_total", "Commands relayed to the upstream.",
		func(s *Snapshot) uint64 { return s.Traffic.Commands }),
	gauge("relayed_commands_unanswered", "Commands relayed and not answered yet, blocking ones included.",
		func(s *Snapshot) uint64 { return s.Traffic.Unanswered }),
	counter("upstream_markers_total",
		"Markers sent to the upstream to ask who a connection is, each of which its errorstat_ERR counts.",
		func(s *Snapshot) uint64 { return s.Traffic.Markers }),
	gauge("upstream_connections", "Connections to the upstream.",
		func(s *Snapshot) int { return s.Traffic.Upstreams }),
	gauge("upstream_up", "Whether the upstream answered the last PING.",
		func(s *Snapshot) float64 { return oneIf(s.Upstream.Up) }),
	gauge("upstream_round_trip_seconds", "Round trip of the last PING to the upstream.",
		func(s *Snapshot) float64 { return s.Upstream.RTT.Seconds() }),
	gauge("waiters", "Clients that wait for a lock.", func(s *Snapshot) int { return s.Waiters }),
	gauge("waited_keys", "Keys that clients wait for.",
		func(s *Snapshot) int { return s.WaitedKeys }),
	gauge("longest_wait_seconds", "How long the client that has waited longest for a lock has waited; 0: none waits.",
		func(s *Snapshot) float64 { return s.LongestWait.Seconds() }),
	gauge("followers", "Clients that wait in LOCKINFO for another holder of a lock.",
		func(s *Snapshot) int { return s.Followers }),
	gauge("session_locks", "Locks that are renewed for the connection they belong to.",
		func(s *Snapshot) int { return s.SessionLocks }),
	gauge("masters", "Masters in the settings.", func(s *Snapshot) int { return len(s.Masters) }),
	gauge("masters_needed", "Masters that make a majority.",
		func(s *Snapshot) int { return s.votes().Needed() }),
	gauge("masters_voting", "Masters that vote.", func(s *Snapshot) int { return s.votes().Voting }),
	gauge("masters_spare", "Masters that may fail while those that answer in time still make a majority; under 0 they "+
		"do not.",
		func(s *Snapshot) int { return s.votes().Spare() }),
	gauge("locks_unsent", "LOCKs that wait until they can be sent to the masters.",
		func(s *Snapshot) int { return s.Load.Waiting }),
	gauge("locks_undecided", "LOCKs that are sent to the masters and not decided.",
		func(s *Snapshot) int { return s.Load.Running }),
	gauge("lock_window", "LOCKs that may be sent and not decided at a time; it follows the capacity of the masters.",
		func(s *Snapshot) int { return s.Load.Window }),
	counter("lock_queue_timeouts_total", "LOCKs that waited for queue-timeout and were never sent.",
		func(s *Snapshot) uint64 { return s.Load.TimedOut }),
	gauge("late_seconds", "How late the proxy was when it last was, for want of processor time; 0: never.",
		func(s *Snapshot) float64 { return s.Load.LateBy.Seconds() }),
	gauge("late_timestamp_seconds", "When the proxy was last late; 0: never.", lateAt),
	gauge("draining", "Whether the proxy is ending.",
		func(s *Snapshot) float64 { return oneIf(s.Draining) }),
}

// lateAt returns when the process was last late, in seconds since 1970.
func lateAt(s *Snapshot) float64 {
	if s.Load.LateAt.IsZero() {
		return 0
	}
	return float64(s.Load.LateAt.UnixMilli()) / 1000
}

func masterGauge[N numeric](name, help string, value func(*stat.Master) N) metric[stat.Master] {
	return newMetric(prometheus.GaugeValue, desc(name, help, "master"), value)
}

func masterCounter(name, help string, value func(*stat.Master) uint64) metric[stat.Master] {
	return newMetric(prometheus.CounterValue, desc(name, help, "master"), value)
}

var masterMetrics = []metric[stat.Master]{
	masterGauge("master_state_change_timestamp_seconds", "When the state of the master last changed.",
		func(m *stat.Master) float64 { return float64(m.Since.UnixMilli()) / 1000 }),
	masterGauge("master_quarantine_remaining_seconds", "How long until the master votes, where that is known; else 0.",
		func(m *stat.Master) float64 { return m.VotesIn.Seconds() }),
	masterGauge("master_round_trip_seconds", "Round trip of the last PING to the master.",
		func(m *stat.Master) float64 { return m.RTT.Seconds() }),
	masterGauge("master_clock_ahead_seconds", "The master's clock less the proxy's.",
		func(m *stat.Master) float64 { return m.Ahead.Seconds() }),
	masterCounter("master_votes_granted_total", "Acquires that the master granted.",
		func(m *stat.Master) uint64 { return m.Grants }),
	masterCounter("master_votes_refused_total", "Acquires that the master refused as the key was there.",
		func(m *stat.Master) uint64 { return m.Refusals }),
	masterCounter("master_votes_late_total",
		"Answers of the master to acquires that came long after the majority had decided.",
		func(m *stat.Master) uint64 { return m.Late }),
	masterGauge("master_slow_seconds", "How long the latest late answer of the master took; 0 while it answers in time.",
		func(m *stat.Master) float64 { return m.Slow.Seconds() }),
	masterCounter("master_connections_lost_total", "Connections to the master that broke.",
		func(m *stat.Master) uint64 { return m.Lost }),
	masterCounter("master_quarantines_total", "How often the master was put in quarantine, as this proxy saw it.",
		func(m *stat.Master) uint64 { return m.Quarantines }),
	masterCounter("master_strays_cleaned_total",
		"Keys left by attempts that failed or came late, found on the master and deleted.",
		func(m *stat.Master) uint64 { return m.Strays }),
	masterGauge("master_owed_commands", "Releases and top-ups that the master has not answered yet.",
		func(m *stat.Master) int { return m.Repairs }),
	masterCounter("master_owed_dropped_total",
		"Releases and top-ups given up as there were too many: keys stay on the master until their ttl.",
		func(m *stat.Master) uint64 { return m.Dropped }),
	masterGauge("master_unanswered_commands", "Commands on their way to the master or back.",
		func(m *stat.Master) int { return m.Unanswered }),
}

// These have a second label.
var (
	descState  = desc("master_state", "1 for the state that the master is in, 0 for the others.", "master", "state")
	descErrors = desc("master_errors_total", "Error replies of the master, by their first word.", "master", "kind")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		ch <- m.desc
	}
	for _, m := range masterMetrics {
		ch <- m.desc
	}
	ch <- descState
	ch <- descErrors
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.state()
	for _, m := range metrics {
		m.collect(ch, &s)
	}
	for i := range s.Masters {
		collectMaster(ch, &s.Masters[i])
	}
}

func collectMaster(ch chan<- prometheus.Metric, master *stat.Master) {
	name := strings.ToValidUTF8(master.Name, "?")
	for _, m := range masterMetrics {
		m.collect(ch, master, name)
	}
	for _, state := range stat.States() {
		value := oneIf(master.State == state)
		ch <- prometheus.MustNewConstMetric(descState, prometheus.GaugeValue, value, name, string(state))
	}
	// there from the start, so that a rate sees the first error
	kinds := map[string]uint64{other: 0}
	for kind, n := range master.ByKind {
		kinds[errorKind(kind)] += n
	}
	for kind, n := range kinds {
		ch <- prometheus.MustNewConstMetric(descErrors, prometheus.CounterValue, float64(n), name, kind)
	}
}

// errorKind returns the first word of an error reply, if it has Redis' form. A server that is none
// may send anything.
func errorKind(word string) string {
	if word == "" || len(word) > 24 || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return other
	}
	return word
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
