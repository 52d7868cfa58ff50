package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"lockproxy/stat"
)

// someState is a deployment with one master away.
func someState() Snapshot {
	return Snapshot{
		Masters: []stat.Master{{Name: "10.0.0.1:6379", State: "voting", Grants: 3, RTT: time.Millisecond},
			{Name: "10.0.0.2:6379", State: "voting"},
			{Name: "10.0.0.3:6379", State: "quarantined", Reason: "restarted 2s ago, votes in 59s", VotesIn: 59 * time.Second,
				Errors: 7, ByKind: map[string]uint64{"LOADING": 2, "\xff\"}\n": 1, "x y": 4}}},
		Upstream: UpstreamStatus{Name: "10.0.0.9:6379", Up: true}, Traffic: stat.Traffic{Commands: 5, Clients: 2},
		Waiters: 4,
	}
}

// fixture is a server whose answers a test can change.
type fixture struct {
	*Site
	state atomic.Pointer[Snapshot]
	asked atomic.Int64 // calls of Locks
	found []stat.Lock
	next  uint64
	fault error // of Locks
	err   error
	match string
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	f := &fixture{}
	state := someState()
	f.state.Store(&state)
	o := Options{Meter: NewMeter([]string{"string", "other"}), Version: "v1", Started: time.Now(),
		State:   func() Snapshot { return *f.state.Load() },
		Waiting: func(int) []stat.Waiting { return []stat.Waiting{{Key: "a<b>", Clients: 4, Longest: time.Second}} },
		Locks: func(_ context.Context, cursor uint64, match string, count int) (stat.LockPage, error) {
			f.asked.Add(1)
			f.match = match
			return stat.LockPage{Next: f.next, Locks: f.found, Fault: f.fault, Seen: 2, Masters: 5}, f.err
		},
		Why: func(_ context.Context, key string) (stat.Why, error) { return stat.Why{Key: key, Held: 2}, f.err }}
	if change != nil {
		change(&o)
	}
	f.Site = New(o)
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// ask is one request, without a network.
func (f *fixture) ask(method, target string, edit func(*http.Request)) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(),
		3*time.Second) // a stream that should have been refused would go on for ever
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, target, nil)
	r.Host = "127.0.0.1:9380"
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	f.http.Handler.ServeHTTP(w, r)
	return w
}

// TestMetricsLint: names, units and help follow Prometheus' conventions, and hostile words of
// masters make no labels.
func TestMetricsLint(t *testing.T) {
	f := newFixture(t, nil)
	f.o.Meter.Note(&stat.Event{Command: "lock", Outcome: "granted", Wait: false, Took: time.Millisecond})
	f.o.Meter.Note(&stat.Event{Command: "lock", Outcome: "never heard of", Wait: true, Took: time.Millisecond})
	f.o.Meter.Note(&stat.Event{Command: "never heard of", Outcome: "granted", Wait: true, Took: time.Millisecond})
	for _, kind := range []stat.Kind{stat.KindShared, stat.KindShared, stat.KindLimit, "never heard of"} {
		f.o.Meter.Note(&stat.Event{Command: "unlock", Outcome: "granted", Kind: kind}) // only a LOCK counts
		f.o.Meter.Note(&stat.Event{Command: "lock", Outcome: "taken", Kind: kind})
		f.o.Meter.Note(&stat.Event{Command: "lock", Outcome: "granted", Kind: kind})
	}
	f.o.Meter.Note(&stat.Event{Command: "lockinfo", Outcome: "ok", Wait: true, Took: time.Hour})
	f.o.Meter.Note(&stat.Event{Command: "lock", Outcome: stat.OutcomeInvalid, Wait: true}) // it did not wait
	f.o.Meter.Relayed("string", time.Millisecond)
	f.o.Meter.Relayed("never heard of", time.Millisecond)
	problems, err := testutil.GatherAndLint(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	body := f.ask("GET", "/metrics", nil).Body.String()
	for _, want := range []string{
		`lockproxy_master_errors_total{kind="LOADING",master="10.0.0.3:6379"} 2`,
		`lockproxy_master_errors_total{kind="other",master="10.0.0.3:6379"} 5`,
		`lockproxy_master_state{master="10.0.0.3:6379",state="quarantined"} 1`,
		`lockproxy_master_quarantine_remaining_seconds{master="10.0.0.3:6379"} 59`,
		`lockproxy_masters_voting 2`, `lockproxy_masters_needed 2`, `lockproxy_upstream_up 1`,
		`lockproxy_build_info{version="v1"} 1`,
		`lockproxy_lock_commands_total{command="lock",outcome="granted"} 5`,
		`lockproxy_locks_granted_total{kind="shared"} 2`, `lockproxy_locks_granted_total{kind="limit"} 1`,
		`lockproxy_locks_granted_total{kind="other"} 2`,
		`lockproxy_locks_granted_total{kind="keys"} 0`, `lockproxy_locks_granted_total{kind="exclusive"} 0`,
		`lockproxy_lock_command_duration_seconds_count{command="lockinfo"} 0`,
		`lockproxy_lock_commands_total{command="lock",outcome="other"} 1`,
		`lockproxy_lock_wait_duration_seconds_count{granted="false"} 1`,
		`lockproxy_relayed_command_duration_seconds_count{group="string"} 1`,
		`lockproxy_relayed_command_duration_seconds_bucket{group="string",le="0.00128"} 1`, "go_goroutines ",
		"process_open_fds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestReadyIsAboutTheRelay: without a majority of the masters a proxy is ready, unless it is asked
// about locks. It needs the upstream, and must not be draining.
func TestReadyIsAboutTheRelay(t *testing.T) {
	f := newFixture(t, nil)
	want := func(target string, code int, text string) {
		t.Helper()
		if w := f.ask("GET", target, nil); w.Code != code || w.Body.String() != text {
			t.Errorf("%s: got %d %q, want %d %q", target, w.Code, w.Body, code, text)
		}
	}
	want("/readyz", 200, "ready\n")
	want("/readyz?locks", 200, "ready\n")
	s := someState()
	s.Masters[1].State, s.Masters[1].Reason = "down", "refused the connection"
	f.state.Store(&s)
	masters := "1 of 3 masters can vote, 2 needed\nmaster 10.0.0.2:6379 refused the connection\n" +
		"master 10.0.0.3:6379 restarted 2s ago, votes in 59s\n"
	want("/readyz", 200, "ready\n")
	want("/readyz?locks", 503, "not ready\n"+masters)
	want("/readyz?locks=1", 503, "not ready\n"+masters)
	want("/readyz?lock", 400, "readyz takes no parameter but locks\n")
	away := s
	away.Upstream.Up, away.Upstream.Reason, away.Draining = false, "connection refused", true
	f.state.Store(&away)
	upstream := "upstream 10.0.0.9:6379: connection refused\n"
	want("/readyz", 503, "not ready\nthe proxy is ending\n"+upstream)
	want("/readyz?locks", 503, "not ready\nthe proxy is ending\n"+masters+upstream)
	if w := f.ask("GET", "/healthz", nil); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("healthz: %d %q", w.Code, w.Body)
	}
}

// slowState has three masters that vote, the last of them slow. The proxy is busy and was late.
func slowState() Snapshot {
	s := someState()
	s.Masters[2] = stat.Master{Name: "10.0.0.3:6379", State: stat.StateVoting, Slow: 62 * time.Millisecond, Late: 9}
	s.Load = stat.Load{Waiting: 8123, Running: 255, Window: 256, TimedOut: 7, LateBy: 2 * time.Second,
		LateAt: time.Unix(1_800_000_000, 5e8)}
	return s
}

// TestSlowMastersAndOverloadHaveMetrics: slow masters and overload have metrics. A slow master
// votes and is no spare one.
func TestSlowMastersAndOverloadHaveMetrics(t *testing.T) {
	f := newFixture(t, nil)
	s := slowState()
	f.state.Store(&s)
	body := f.ask("GET", "/metrics", nil).Body.String()
	for _, want := range []string{
		`lockproxy_master_slow_seconds{master="10.0.0.3:6379"} 0.062`,
		`lockproxy_master_slow_seconds{master="10.0.0.1:6379"} 0`,
		`lockproxy_master_votes_late_total{master="10.0.0.3:6379"} 9`, `lockproxy_masters_voting 3`,
		`lockproxy_masters_spare 0`,
		`lockproxy_locks_unsent 8123`, `lockproxy_locks_undecided 255`, `lockproxy_lock_window 256`,
		`lockproxy_lock_queue_timeouts_total 7`,
		`lockproxy_late_seconds 2`, `lockproxy_late_timestamp_seconds 1.8000000005e+09`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if w := f.ask("GET", "/readyz", nil); w.Code != 200 {
		t.Errorf("a slow master makes the proxy not ready: %d %q", w.Code, w.Body)
	}
	s = someState()
	f.state.Store(&s)
	if body := f.ask("GET", "/metrics", nil).Body.String(); !strings.Contains(body,
		"lockproxy_late_timestamp_seconds 0\n") {
		t.Error("a proxy that was never late has a time at which it was")
	}
}

// TestReportDescribesLoad: the page gets the same in words.
func TestReportDescribesLoad(t *testing.T) {
	f, s := newFixture(t, nil), slowState()
	var r report
	if err := json.Unmarshal(f.report(&s, nil, s.Load.LateAt), &r); err != nil {
		t.Fatal(err)
	}
	if r.Voting != 3 || r.Slow != 1 || r.Spare != 0 || r.Quorum != "3 of 3 vote, 1 slow, 2 needed, none may fail" ||
		r.Unsent != 8123 {
		t.Errorf("got %+v", r)
	}
	if m := r.Masters[2]; !m.Slow || m.Late != 9 || m.State != "voting" ||
		m.Reason != "answers in 62 ms, later than the majority needs" || r.Masters[0].Slow {
		t.Errorf("got %+v", m)
	}
}

// TestTokenIsRequired: every address but the two for load balancers asks for the token, and those
// two show no details without it.
func TestTokenIsRequired(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Token = func() string { return "s3cret" }
		o.LogLevel = http.NotFoundHandler()
	})
	down := someState()
	down.Upstream.Up = false
	f.state.Store(&down)
	for name, edit := range map[string]func(*http.Request){
		"nothing": nil, "wrong password": func(r *http.Request) { r.SetBasicAuth("s3cret", "s3cre") },
		"wrong bearer": func(r *http.Request) { r.Header.Set("Authorization", "Bearer s3cret2") },
		"no scheme":    func(r *http.Request) { r.Header.Set("Authorization", "s3cret") },
		"empty":        func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
	} {
		t.Run(name, func(t *testing.T) { wantTokenAsked(t, f, edit) })
	}
	for name, edit := range map[string]func(*http.Request){
		"password": func(r *http.Request) { r.SetBasicAuth("anybody", "s3cret") },
		"bearer":   func(r *http.Request) { r.Header.Set("Authorization", "bearer s3cret") },
	} {
		t.Run(name, func(t *testing.T) { wantTokenTaken(t, f, edit) })
	}
}

// wantTokenAsked: requests without the right token get 401, or of /readyz the status alone.
func wantTokenAsked(t *testing.T, f *fixture, edit func(*http.Request)) {
	t.Helper()
	for _, path := range []string{"/", "/page/page.js", "/page/table.js", "/metrics", "/events", "/locks", "/log-level",
		"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile",
		"/debug/pprof/trace", "/debug/pprof/symbol", "/debug/pprof/cmdline"} {
		if w := f.ask("GET", path, edit); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" ||
			strings.Contains(w.Body.String(), "s3cret") {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := f.ask("GET", "/readyz", edit); w.Code != 503 || w.Body.String() != "not ready\n" {
		t.Errorf("/readyz: %d %q", w.Code, w.Body)
	}
}

// wantTokenTaken: requests with the right token are served, and /readyz shows details.
func wantTokenTaken(t *testing.T, f *fixture, edit func(*http.Request)) {
	t.Helper()
	for _, path := range []string{"/", "/metrics", "/locks", "/debug/pprof/heap"} {
		if w := f.ask("GET", path, edit); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := f.ask("GET", "/readyz", edit); !strings.Contains(w.Body.String(), "upstream 10.0.0.9:6379") {
		t.Errorf("/readyz: %q", w.Body)
	}
}

// TestRefusesOtherSites: requests that another site makes a browser send are refused.
func TestRefusesOtherSites(t *testing.T) {
	level := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	local := newFixture(t, func(o *Options) { o.Local, o.LogLevel = true, level })
	for host, want := range map[string]int{"127.0.0.1:9380": 200, "[::1]:9380": 200, "localhost:9380": 200,
		"localhost": 200, "": 200, "10.0.0.1": 200,
		"evil.example:9380": 421, "evil.example": 421, "evil": 421, "127.0.0.1.evil.example": 421} {
		t.Run(host, func(t *testing.T) {
			if w := local.ask("GET", "/metrics", func(r *http.Request) { r.Host = host }); w.Code != want {
				t.Errorf("Host %q: %d, want %d", host, w.Code, want)
			}
		})
	}
	tokened := newFixture(t, func(o *Options) { o.Local, o.Token = true, func() string { return "x" } })
	if w := tokened.ask("GET", "/healthz", func(r *http.Request) { r.Host = "proxy.example" }); w.Code != 200 {
		t.Errorf("with a token the name does not matter: %d", w.Code)
	}
	if w := local.ask("PUT", "/log-level",
		func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }); w.Code != 403 {
		t.Errorf("PUT from another site: %d", w.Code)
	}
	if w := local.ask("PUT", "/log-level", nil); w.Code != 200 {
		t.Errorf("PUT: %d", w.Code)
	}
	cross := func(mode string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", mode)
		}
	}
	if w := local.ask("GET", "/debug/pprof/heap", cross("no-cors")); w.Code != 403 {
		t.Errorf("a picture on another site: %d", w.Code)
	}
	if w := local.ask("GET", "/", cross("navigate")); w.Code != 200 {
		t.Errorf("a link on another site: %d", w.Code)
	}
}

// TestPageLoadsOnlyItsOwnFiles: the server has all files of the page and no others, and they load
// no other resources.
func TestPageLoadsOnlyItsOwnFiles(t *testing.T) {
	f := newFixture(t, nil)
	entries, err := pageFiles.ReadDir("page")
	if err != nil || len(entries) < 10 {
		t.Errorf("%d files (%v)", len(entries), err)
	}
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	for _, entry := range entries {
		name, kind := entry.Name(), kinds[filepath.Ext(entry.Name())]
		path := "/page/" + name
		if name == "index.html" {
			path = "/"
		}
		w := f.ask("GET", path, nil)
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML",
			"document.write", "eval(", "style=", " onload", " onclick"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		tag := w.Header().Get("ETag")
		if w := f.ask("GET", path, func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); w.Code != 304 {
			t.Errorf("%s again: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/page/", "/page/none.js", "/page/..%2fserver.go", "/none"} {
		if w := f.ask("GET", path, nil); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestLocks: the page shows keys unambiguously, turns a search into a pattern, and reuses an
// answer for a moment.
func TestLocks(t *testing.T) {
	f := newFixture(t, nil)
	f.found = []stat.Lock{{Key: "<b>\x00", Mode: "exclusive", Owner: "me", Fence: 1 << 52, Held: 3,
		TTL: 1500, Age: 2 * time.Second, Waiting: 1},
		{Key: "b", TTL: -1, Mode: "limit", Holders: 1,
			Slots: []stat.Slot{{Slot: 3, Fence: 1 << 52, Owner: "\x00", TTL: 1000}}}}
	f.next = 1<<63 + 3
	granted := stat.Event{Command: "lock", Outcome: stat.OutcomeGranted, Key: "<b>\x00", Fence: 1 << 52, TTL: time.Minute}
	f.o.Meter.Note(&granted)
	wantLocksShown(t, f.readLocks(t))
	if n := f.asked.Load(); n != pageScans {
		t.Errorf("%d SCANs for a page with few locks, want %d", n, pageScans)
	}
	f.readLocks(t)
	if n := f.asked.Load(); n != pageScans {
		t.Error("the same question was asked twice within a second")
	}
	for search, want := range map[string]string{"": "", "job": "*job*", "job:*": "job:*", `a\b`: `*a\\b*`,
		"[ab]": "[ab]"} {
		t.Run(search, func(t *testing.T) {
			f.next = 0
			f.locks.kept = map[string]keptPage{}
			before := f.asked.Load()
			f.ask("GET", "/locks?search="+strings.ReplaceAll(search, `\`, "%5C"), nil)
			if f.match != want || f.asked.Load() != before+1 {
				t.Errorf("search %q asks for %q %d times, want %q once", search, f.match, f.asked.Load()-before, want)
			}
		})
	}
	f.err = errors.New("NOQUORUM 1 of 3")
	if w := f.ask("GET", "/locks?search=x", nil); w.Code != 502 || !strings.Contains(w.Body.String(), "1 of 3") {
		t.Errorf("without a quorum: %d %q", w.Code, w.Body)
	}
	for _, bad := range []string{"/locks?cursor=x", "/locks?cursor=-1",
		"/locks?search=" + strings.Repeat("a", maxSearch+1)} {
		if w := f.ask("GET", bad, nil); w.Code != 400 {
			t.Errorf("%.30s: %d", bad, w.Code)
		}
	}
}

// readLocks returns the first page of locks.
func (f *fixture) readLocks(t *testing.T) (page lockPage) {
	t.Helper()
	w := f.ask("GET", "/locks", nil)
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
		t.Fatalf("/locks: %d %q %v", w.Code, w.Body, err)
	}
	if strings.Count(w.Body.String(), `"fence":"`) != strings.Count(w.Body.String(), `"fence":`) {
		t.Errorf("a fence is a number, which scripts may round: %s", w.Body)
	}
	return page
}

// wantLocksShown: the page has the fields of both locks of TestLocks, and its cursor.
func wantLocksShown(t *testing.T, page lockPage) {
	t.Helper()
	if l := page.Locks[0]; l.Key != `<b>\x00` || l.Fence != 1<<52 || l.TTL != 1500 || l.Age == nil ||
		*l.Age != 2000 || l.Waiting != 1 || l.Granted != 60_000 {
		t.Errorf("got %+v", l)
	}
	if l := page.Locks[1]; l.Mode != "limit" || l.Holders != 1 || len(l.Slots) != 1 ||
		l.Slots[0] != (slotReport{3, 1 << 52, `\x00`, 1000}) {
		t.Errorf("got %+v", l)
	}
	if page.Cursor != "9223372036854775811" || page.Locks[1].Age != nil {
		t.Errorf("got cursor %s, age %v", page.Cursor, page.Locks[1].Age)
	}
}
