package admin

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockproxy/stat"
)

// other is the label value of everything that is not listed.
const other = "other"

// Meter counts events and durations for metrics and the page. Safe for concurrent use. No method
// blocks, and none but Holders allocates, except for a LOCK of a key that is newly contended.
type Meter struct {
	fights *fights

	commands  map[string]map[stat.Outcome]prometheus.Counter // by command and outcome
	granted   map[stat.Kind]prometheus.Counter
	adopted   map[string]map[stat.Outcome]prometheus.Counter // by what a library did, and outcome
	refused   map[string]prometheus.Counter                  // by reason
	sessions  map[stat.Outcome]prometheus.Counter
	took      map[string]prometheus.Histogram // by command; LOCK without WAIT
	waited    prometheus.Histogram            // LOCK with WAIT that was granted
	gaveUp    prometheus.Histogram            // LOCK with WAIT that was not
	held      prometheus.Histogram
	relayed   map[string]prometheus.Histogram // by group
	dialTook  prometheus.Histogram
	dialFails map[string]prometheus.Counter

	all []prometheus.Collector
}

// latencies are bounds of 100us to 1.2s, each 1.6 times the one before.
var latencies = prometheus.ExponentialBuckets(0.0001, 1.6, 21)

// quick are bounds of 20us to 5.2s, each twice the one before.
var quick = prometheus.ExponentialBuckets(0.00002, 2, 19)

// dialKinds are the kinds of a failed dial.
var dialKinds = []string{"refused", "timeout", "dns", "tls", "auth", "closed", other}

// NewMeter returns a meter at zero. groups are the groups of Relayed.
func NewMeter(groups []string) *Meter {
	m := &Meter{fights: newFights(),
		relayed: map[string]prometheus.Histogram{}, commands: map[string]map[stat.Outcome]prometheus.Counter{},
		sessions: map[stat.Outcome]prometheus.Counter{}, took: map[string]prometheus.Histogram{},
		dialFails: map[string]prometheus.Counter{}}
	ended := m.counters("lock_commands_total", "Commands that lockproxy answers itself, by outcome.", "command",
		"outcome")
	duration := m.histograms("lock_command_duration_seconds", "Time from a command to its reply; LOCK with WAIT has "+
		"lock_wait_duration_seconds, LOCKINFO with WAIT is not timed.", latencies, "command")
	// so that every series is there from the start, and clients make none
	for _, c := range stat.Commands {
		m.commands[c.Name] = map[stat.Outcome]prometheus.Counter{}
		for _, outcome := range slices.Concat(c.Outcomes, stat.AnyOutcomes, []stat.Outcome{other}) {
			m.commands[c.Name][outcome] = ended.WithLabelValues(c.Name, string(outcome))
		}
		m.took[c.Name] = duration.WithLabelValues(c.Name).(prometheus.Histogram)
	}
	m.makeAdopted()
	m.granted = map[stat.Kind]prometheus.Counter{}
	granted := m.counters("locks_granted_total", "Locks granted, by kind.", "kind")
	for _, kind := range append(stat.Kinds, other) {
		m.granted[kind] = granted.WithLabelValues(string(kind))
	}
	waits := []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300}
	wait := m.histograms("lock_wait_duration_seconds", "How long LOCK with WAIT took, by whether it was granted.", waits,
		"granted")
	m.waited, m.gaveUp = wait.WithLabelValues(strconv.FormatBool(true)).(prometheus.Histogram),
		wait.WithLabelValues(strconv.FormatBool(false)).(prometheus.Histogram)
	holds := []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}
	m.held = m.histograms("lock_hold_duration_seconds",
		"How long released locks were held, of those granted through this proxy and not forgotten.", holds).
		WithLabelValues().(prometheus.Histogram)
	sessions := m.counters("session_locks_ended_total",
		"Session locks that ended without UNLOCK: released, left to run out, or lost.", "outcome")
	for _, outcome := range append(stat.SessionOutcomes, other) {
		m.sessions[outcome] = sessions.WithLabelValues(string(outcome))
	}
	relayed := m.histograms("relayed_command_duration_seconds",
		"Time the upstream took to answer, by group of commands: of some commands on each connection, not of those "+
			"that block.",
		quick, "group")
	for _, group := range groups {
		m.relayed[group] = relayed.WithLabelValues(group).(prometheus.Histogram)
	}
	m.dialTook = m.histograms("upstream_dial_duration_seconds",
		"How long connecting to the upstream took, failed dials included.", latencies).
		WithLabelValues().(prometheus.Histogram)
	fails := m.counters("upstream_dial_errors_total", "Dials of the upstream that failed, by kind.", "kind")
	for _, kind := range dialKinds {
		m.dialFails[kind] = fails.WithLabelValues(kind)
	}
	return m
}

// makeAdopted makes the counters of the lock listener.
func (m *Meter) makeAdopted() {
	adopted := m.counters("adopted_total", "Commands of libraries on locks at adopt-listen, by outcome.", "do", "outcome")
	m.adopted = map[string]map[stat.Outcome]prometheus.Counter{}
	for _, do := range stat.Dos {
		m.adopted[do.Name] = map[stat.Outcome]prometheus.Counter{}
		for _, outcome := range slices.Concat(do.Outcomes, stat.AnyOutcomes, []stat.Outcome{other}) {
			m.adopted[do.Name][outcome] = adopted.WithLabelValues(do.Name, string(outcome))
		}
	}
	refused := m.counters("adopt_refused_total", "Commands on lock keys that adopt-listen refused, by reason.", "reason")
	m.refused = map[string]prometheus.Counter{}
	for _, reason := range append(stat.Refusals, other) {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
}

func (m *Meter) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *Meter) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets}, labels)
	m.all = append(m.all, v)
	return v
}

// Note counts a command, or the end of a session lock without UNLOCK.
func (m *Meter) Note(e *stat.Event) {
	if e.Refused != "" {
		pick(m.refused, e.Refused).Inc()
		return
	}
	if counters := m.adopted[e.Do]; counters != nil {
		pick(counters, e.Outcome).Inc()
	}
	m.fights.note(e, time.Now())
	if e.Held > 0 {
		m.held.Observe(e.Held.Seconds())
	}
	if e.Command == "session" {
		pick(m.sessions, e.Outcome).Inc()
		return
	}
	if counters := m.commands[e.Command]; counters != nil {
		pick(counters, e.Outcome).Inc()
	}
	if e.Command == "lock" && e.Outcome == stat.OutcomeGranted {
		pick(m.granted, e.Kind).Inc()
	}
	switch h := m.took[e.Command]; {
	case e.Outcome == stat.OutcomeUndelivered, h == nil: // its command has been counted before
	case e.Command == "lockinfo" && e.Wait: // its duration says only when the lock changed
	case !e.Wait, e.Outcome == stat.OutcomeInvalid, e.Outcome == stat.OutcomeDenied: // did not wait
		h.Observe(e.Took.Seconds())
	case e.Outcome == stat.OutcomeGranted:
		m.waited.Observe(e.Took.Seconds())
	default:
		m.gaveUp.Observe(e.Took.Seconds())
	}
}

// Holders returns the latest clients that were granted the lock of key through this proxy, the
// latest first: at most three, of a key for which no two clients met in the last minutes only one,
// and none if it is forgotten.
func (m *Meter) Holders(key string) []stat.Holder { return m.fights.holders(key) }

// Relayed notes how long the upstream took to answer a command of group.
func (m *Meter) Relayed(group string, took time.Duration) {
	if h := m.relayed[group]; h != nil {
		h.Observe(took.Seconds())
	}
}

// Dialled counts a dial of the upstream. kind is empty after success, else one of dialKinds.
func (m *Meter) Dialled(took time.Duration, kind string) {
	m.dialTook.Observe(took.Seconds())
	if kind != "" {
		pick(m.dialFails, kind).Inc()
	}
}

func pick[K ~string](counters map[K]prometheus.Counter, name K) prometheus.Counter {
	if c := counters[name]; c != nil {
		return c
	}
	return counters[other]
}
