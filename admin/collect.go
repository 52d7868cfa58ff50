package admin

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// namespace begins the name of every metric of ours.
const namespace = "lockproxy"

// registry has all metrics: those of the meter, those read from State at each scrape, and those of Go and the process.
func registry(m *Meter, state func() State, version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m.all...)
	r.MustRegister(&collector{state}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", Help: "The version of lockproxy; always 1.",
		ConstLabels: prometheus.Labels{"version": strings.ToValidUTF8(version, "")}})
	info.Set(1)
	r.MustRegister(info)
	return r
}

// collector reads State.
type collector struct{ state func() State }

var _ prometheus.Collector = (*collector)(nil)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	descClients    = desc("clients", "Clients connected.")
	descAccepted   = desc("client_connections_total", "Connections of clients that were served.")
	descRefused    = desc("client_connections_refused_total", "Connections of clients that were turned away: max-clients, or the proxy was ending.")
	descReceived   = desc("client_received_bytes_total", "Bytes from clients.")
	descSent       = desc("client_sent_bytes_total", "Bytes to clients.")
	descCommands   = desc("relayed_commands_total", "Commands relayed to the upstream.")
	descUnanswered = desc("relayed_commands_unanswered", "Commands relayed and not answered yet, blocking ones included.")
	descUpstreams  = desc("upstream_connections", "Connections to the upstream.")
	descUp         = desc("upstream_up", "Whether the upstream answered the last PING.")
	descUpRTT      = desc("upstream_round_trip_seconds", "Round trip of the last PING to the upstream.")
	descWaiters    = desc("waiters", "Clients that wait for a lock.")
	descWaited     = desc("waited_keys", "Keys that clients wait for.")
	descSessions   = desc("session_locks", "Locks that are renewed for the connection they belong to.")
	descMasters    = desc("masters", "Masters in the settings.")
	descNeeded     = desc("masters_needed", "Masters that make a majority.")
	descVoting     = desc("masters_voting", "Masters that vote.")
	descDraining   = desc("draining", "Whether the proxy is ending.")

	descState   = desc("master_state", "1 for the state that the master is in, 0 for the others.", "master", "state")
	descSince   = desc("master_state_change_timestamp_seconds", "When the state of the master last changed.", "master")
	descVotesIn = desc("master_quarantine_remaining_seconds", "How long until the master votes, where that is known; else 0.", "master")
	descRTT     = desc("master_round_trip_seconds", "Round trip of the last PING to the master.", "master")
	descAhead   = desc("master_clock_ahead_seconds", "The master's clock less the proxy's.", "master")
	descGrants  = desc("master_votes_granted_total", "Acquires that the master granted.", "master")
	descRefuse  = desc("master_votes_refused_total", "Acquires that the master refused as the key was there.", "master")
	descErrors  = desc("master_errors_total", "Error replies of the master, by their first word.", "master", "kind")
	descLost    = desc("master_connections_lost_total", "Connections to the master that broke.", "master")
	descJailed  = desc("master_quarantines_total", "How often the master was put in quarantine, as this proxy saw it.", "master")
	descStrays  = desc("master_strays_cleaned_total", "Keys left by attempts that failed or came late, found on the master and deleted.", "master")
	descOwed    = desc("master_owed_commands", "Releases and top-ups that the master has not answered yet.", "master")
	descDropped = desc("master_owed_dropped_total", "Releases and top-ups given up as there were too many: keys stay on the master until their ttl.", "master")
	descPending = desc("master_unanswered_commands", "Commands on their way to the master or back.", "master")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descClients, descAccepted, descRefused, descReceived, descSent, descCommands, descUnanswered, descUpstreams,
		descUp, descUpRTT, descWaiters, descWaited, descSessions, descMasters, descNeeded, descVoting, descDraining, descState, descSince, descVotesIn,
		descRTT, descAhead, descGrants, descRefuse, descErrors, descLost, descJailed, descStrays, descOwed, descDropped, descPending} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.state()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(descClients, float64(s.Traffic.Clients))
	counter(descAccepted, s.Traffic.Accepted)
	counter(descRefused, s.Traffic.Refused)
	counter(descReceived, s.Traffic.Received)
	counter(descSent, s.Traffic.Sent)
	counter(descCommands, s.Traffic.Commands)
	gauge(descUnanswered, float64(s.Traffic.Unanswered))
	gauge(descUpstreams, float64(s.Traffic.Upstreams))
	gauge(descUp, oneIf(s.Upstream.Up))
	gauge(descUpRTT, s.Upstream.RTT.Seconds())
	gauge(descWaiters, float64(s.Waiters))
	gauge(descWaited, float64(s.WaitedKeys))
	gauge(descSessions, float64(s.SessionLocks))
	gauge(descMasters, float64(len(s.Masters)))
	gauge(descNeeded, float64(s.needed()))
	gauge(descVoting, float64(s.voting()))
	gauge(descDraining, oneIf(s.Draining))
	for i := range s.Masters {
		collectMaster(&s.Masters[i], gauge, counter)
	}
}

func collectMaster(m *Master, gauge func(*prometheus.Desc, float64, ...string), counter func(*prometheus.Desc, uint64, ...string)) {
	name := strings.ToValidUTF8(m.Name, "?")
	for _, state := range MasterStates {
		gauge(descState, oneIf(m.State == state), name, state)
	}
	gauge(descSince, float64(m.Since.UnixMilli())/1000, name)
	gauge(descVotesIn, m.VotesIn.Seconds(), name)
	gauge(descRTT, m.RTT.Seconds(), name)
	gauge(descAhead, m.Ahead.Seconds(), name)
	counter(descGrants, m.Grants, name)
	counter(descRefuse, m.Refusals, name)
	counter(descLost, m.Lost, name)
	counter(descJailed, m.Quarantines, name)
	counter(descStrays, m.Strays, name)
	gauge(descOwed, float64(m.Owed), name)
	counter(descDropped, m.Dropped, name)
	gauge(descPending, float64(m.Unanswered), name)
	kinds := map[string]uint64{other: 0} // there from the start, so that a rate sees the first error
	for kind, n := range m.Errors {
		kinds[errorKind(kind)] += n
	}
	for kind, n := range kinds {
		counter(descErrors, n, name, kind)
	}
}

// errorKind is the first word of an error reply, if it is one of Redis' form; a server that is none may send anything.
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
