package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

const (
	// maxWatching is how many clients may read the stream at a time.
	maxWatching = 32
	// maxLag is how many reports may wait for a client before it is dropped.
	maxLag = 4
	// shownWaiting is how many keys with waiting clients a report has.
	shownWaiting = 50
	// sendTimeout bounds writing one report.
	sendTimeout = 10 * time.Second
)

// stream sends reports to its watchers, and keeps samples for new ones.
type stream struct {
	done <-chan struct{}

	mu       sync.Mutex
	samples  []Sample
	watchers map[chan []byte]struct{}
}

// publish keeps a sample and, if there are watchers, sends them the report that make returns. It
// drops watchers that are too slow.
func (s *stream) publish(sample Sample, make func() []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == keepSamples {
		s.samples = append(s.samples[:0], s.samples[1:]...)
	}
	s.samples = append(s.samples, sample)
	if len(s.watchers) == 0 {
		return
	}
	report := make()
	for w := range s.watchers {
		select {
		case w <- report:
		default:
			delete(s.watchers, w)
			close(w)
		}
	}
}

// join returns a channel of reports, and the samples so far. ok is false if there are too many
// watchers. The channel is closed for a watcher that is too slow.
func (s *stream) join() (reports chan []byte, history []Sample, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) >= maxWatching {
		return nil, nil, false
	}
	if s.watchers == nil {
		s.watchers = map[chan []byte]struct{}{}
	}
	reports = make(chan []byte, maxLag)
	s.watchers[reports] = struct{}{}
	return reports, slices.Clone(s.samples), true
}

func (s *stream) leave(reports chan []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, reports)
}

// events serves the stream of server-sent events: first "history", the samples so far, then
// "report" now and every second. A client reconnects a second after it broke.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	reports, history, ok := s.stream.join()
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many are looking", http.StatusServiceUnavailable)
		return
	}
	defer s.stream.leave(reports)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(event string, data []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTimeout))
		_, err := w.Write(slices.Concat([]byte("event: "+event+"\ndata: "), data, []byte("\n\n")))
		return err == nil && control.Flush() == nil
	}
	_ = control.SetReadDeadline(time.Time{})
	state := s.o.State()
	if _, err := w.Write([]byte("retry: 1000\n\n")); err != nil {
		return
	}
	first, _ := json.Marshal(history)
	if !send("history", first) || !send("report", s.report(&state, nil, time.Now())) {
		return
	}
	for {
		select {
		case report, ok := <-reports:
			if !ok || !send("report", report) {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// report is the data that the page shows. Times are in milliseconds.
type report struct {
	Now int64 `json:"now"`
	proxyReport
	Problems []problem `json:"problems"` // the worst first
	Draining bool      `json:"draining"`
	votesReport
	Unsent   int            `json:"unsent"` // LOCKs that wait to be sent to the masters
	Masters  []masterReport `json:"masters"`
	Upstream upstreamReport `json:"upstream"`
	clientsReport
	Fought  []foughtReport  `json:"fought"`
	Refused []refusalReport `json:"refused"` // null without a lock listener
	Faults  []faultReport   `json:"faults"`
	Sample  *Sample         `json:"sample"` // null in the first report of a stream
}

// proxyReport is about this proxy. Only NoRelease may change while it runs.
type proxyReport struct {
	Started   int64    `json:"started"`
	Version   string   `json:"version"`
	Host      string   `json:"host"`
	Listen    []string `json:"listen"`
	NoRelease string   `json:"no_release"` // why the page cannot release locks
}

type votesReport struct {
	Voting int    `json:"voting"`
	Slow   int    `json:"slow"`
	Spare  int    `json:"spare"`  // masters that may fail
	Quorum string `json:"quorum"` // the same in words
}

type clientsReport struct {
	Clients      int             `json:"clients"`
	Waiters      int             `json:"waiters"`
	WaitedKeys   int             `json:"waited_keys"`
	SessionLocks int             `json:"session_locks"`
	Followers    int             `json:"followers"`
	Waiting      []waitingReport `json:"waiting"`
}

type masterReport struct {
	*stat.Master
	Reason  string  `json:"reason"`
	Since   int64   `json:"since_ms"`
	VotesIn int64   `json:"votes_in_ms"`
	RTT     float64 `json:"rtt_ms"`
	Slow    bool    `json:"slow"` // the reason says how slow
}

type upstreamReport struct {
	Name        string  `json:"name"`
	Up          bool    `json:"up"`
	Reason      string  `json:"reason"`
	RTT         float64 `json:"rtt_ms"`
	Connections int     `json:"connections"`
	Unanswered  uint64  `json:"unanswered"`
}

func (s *Site) report(state *Snapshot, sample *Sample, now time.Time) []byte {
	votes, waits := state.votes(), s.o.Waiting(shownWaiting)
	r := report{
		Now: now.UnixMilli(),
		proxyReport: proxyReport{s.o.Started.UnixMilli(), s.o.Version, s.o.Host, append([]string{}, s.o.Listen...),
			s.whyNoRelease()},
		Problems:    state.problems(waits, s.drops.recent(), now),
		Draining:    state.Draining,
		votesReport: votesReport{votes.Voting, votes.Slow, votes.Spare(), votes.String()},
		Unsent:      state.Load.Waiting,
		Upstream: upstreamReport{state.Upstream.Name, state.Upstream.Up, state.Upstream.Reason, millis(state.Upstream.RTT),
			state.Traffic.Upstreams, state.Traffic.Unanswered},
		clientsReport: clientsReport{state.Traffic.Clients, state.Waiters, state.WaitedKeys, state.SessionLocks,
			state.Followers, waitingReports(waits)},
		Fought:  s.o.Meter.fights.reports(now),
		Refused: s.refusals(now),
		Faults:  faultReports(s.o.Meter.faults(state.Masters)),
		Sample:  sample,
	}
	for i := range state.Masters {
		m := &state.Masters[i]
		is := m.Report(now)
		r.Masters = append(r.Masters, masterReport{m, is.Reason, is.Since, is.VotesIn, millis(m.RTT), m.IsSlow()})
	}
	data, err := json.Marshal(&r)
	if err != nil { // a report has no value that cannot be encoded
		return []byte("{}")
	}
	return data
}

// refusalReport is a kind of command that the lock listener refuses, and the latest one.
type refusalReport struct {
	Reason  string `json:"reason"`
	SHA1    string `json:"sha1"` // of a script
	Text    string `json:"text"`
	Library string `json:"library"`
	Client  string `json:"client"`
	Count   uint64 `json:"count"`
	Ago     int64  `json:"ago_ms"`
}

func (s *Site) refusals(now time.Time) []refusalReport {
	if s.o.Refusals == nil {
		return nil
	}
	list := []refusalReport{}
	for _, r := range s.o.Refusals() {
		list = append(list, refusalReport{r.Reason, r.SHA1, r.Text, plain.Escape(r.Library), plain.Addr(r.Client), r.Count,
			max(now.Sub(r.Last), 0).Milliseconds()})
	}
	return list
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
