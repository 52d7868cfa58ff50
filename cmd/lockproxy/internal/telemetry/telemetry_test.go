package telemetry

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/cmd/lockproxy/internal/telemetry/collector"
	"lockproxy/integration/redistest"
	"lockproxy/stat"
)

// to starts telemetry to endpoint, with further variables.
func to(t *testing.T, endpoint string, more map[string]string) (*Telemetry, *observer.ObservedLogs) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	for name, value := range more {
		t.Setenv(name, value)
	}
	core, lines := observer.New(zapcore.InfoLevel)
	sent := New(os.Getenv, "v1.2.3", zap.New(core))
	if sent == nil {
		t.Fatalf("telemetry is off: %v", lines.All())
	}
	t.Cleanup(func() { sent.Close(context.Background()) })
	return sent, lines
}

func collect(t *testing.T) *collector.Collector {
	t.Helper()
	c := collector.New()
	t.Cleanup(c.Close)
	return c
}

// text is all lines of a log.
func logged(lines *observer.ObservedLogs) string {
	var all strings.Builder
	for _, line := range lines.All() {
		fmt.Fprintln(&all, line.Level, line.Message, line.ContextMap())
	}
	return all.String()
}

// reported are events, and reportedSpans their spans.
var (
	reported = []stat.Event{
		{Command: "lock", Outcome: stat.OutcomeGranted, Key: "job", Keys: []string{"a", "b"}, Kind: stat.KindKeys,
			Owner: "me", Fence: 7, TTL: 5 * time.Second,
			Wait: true, Session: true, Took: 1500 * time.Millisecond, User: "alice",
			Client: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 50001}},
		{Command: "lock", Outcome: stat.OutcomeNoQuorum, Key: "\xff\n", Kind: stat.KindExclusive},
		{Command: "lock", Sub: "help", Outcome: stat.OutcomeOK},
		{Command: "unlock", Outcome: stat.OutcomeReleased, Key: "job", Fence: 7, Keep: time.Minute,
			Held: 250 * time.Millisecond, Client: &net.UnixAddr{Name: "/run/s"}},
		{Command: "extend", Outcome: stat.OutcomeLost, Key: "job"},
		{Command: "lockproxy", Sub: "\xff what", Outcome: stat.OutcomeInvalid},
		{Command: "lockproxy", Sub: "release", Outcome: stat.OutcomeReleased, Key: "job", Via: "page"},
		{Command: "session", Outcome: stat.OutcomeLost, Key: "job", Session: true},
	}
	reportedSpans = []collector.Span{
		{Name: "LOCK", Attributes: attrs{"db.operation.name": "LOCK", "lockproxy.outcome": "granted",
			"lockproxy.key": "job", "lockproxy.keys": int64(3),
			"lockproxy.kind": "keys", "lockproxy.owner": "me", "lockproxy.fence": int64(7), "lockproxy.ttl": 5.0,
			"lockproxy.wait": true, "lockproxy.session": true,
			"user.name": "alice", "client.address": "10.0.0.7", "client.port": int64(50001)}},
		{Name: "LOCK", Failed: true, Attributes: attrs{"db.operation.name": "LOCK", "lockproxy.outcome": "noquorum",
			"error.type":    "noquorum",
			"lockproxy.key": `\xff\n`, "lockproxy.kind": "exclusive"}},
		{Name: "LOCK HELP", Attributes: attrs{"db.operation.name": "LOCK HELP", "lockproxy.outcome": "ok"}},
		{Name: "UNLOCK", Attributes: attrs{"db.operation.name": "UNLOCK", "lockproxy.outcome": "released",
			"lockproxy.key": "job", "lockproxy.fence": int64(7),
			"lockproxy.keep": 60.0, "lockproxy.held": 0.25}},
		{Name: "EXTEND", Attributes: attrs{"db.operation.name": "EXTEND", "lockproxy.outcome": "lost",
			"lockproxy.key": "job"}},
		{Name: "LOCKPROXY", Attributes: attrs{"db.operation.name": "LOCKPROXY", "lockproxy.outcome": "invalid"}},
		{Name: "LOCKPROXY RELEASE", Attributes: attrs{"db.operation.name": "LOCKPROXY RELEASE",
			"lockproxy.outcome": "released", "lockproxy.key": "job", "lockproxy.via": "page"}},
		{Name: "session end", Failed: true, Attributes: attrs{"lockproxy.outcome": "lost", "error.type": "lost",
			"lockproxy.key": "job", "lockproxy.session": true}},
	}
)

type attrs = map[string]any

func TestSpansDescribeCommands(t *testing.T) {
	c := collect(t)
	sent, lines := to(t, c.URL+"/otlp", nil)
	for _, e := range reported {
		sent.Record(&e)
	}
	before := uint64(time.Now().UnixNano())
	sent.Close(t.Context())
	got, want := c.Spans(), reportedSpans
	if len(got) != len(want) || len(c.Faults()) > 0 {
		t.Fatalf("got %+v, faults %q\n%s", got, c.Faults(), logged(lines))
	}
	for i, w := range want {
		w.Attributes["db.system.name"] = "redis"
		if g := got[i]; g.Name != w.Name || g.Failed != w.Failed || g.Kind != "SPAN_KIND_SERVER" ||
			!reflect.DeepEqual(g.Attributes, w.Attributes) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
	if s := got[0]; s.End-s.Start != uint64(1500*time.Millisecond) || s.End > before ||
		before-s.End > uint64(time.Minute) {
		t.Errorf("a LOCK that took 1.5s lasts from %d to %d, now is %d", s.Start, s.End, before)
	}
	if r := got[0].Resource; r["service.name"] != "lockproxy" || r["service.version"] != "v1.2.3" ||
		r["service.instance.id"] == nil || r["host.name"] == nil {
		t.Errorf("the resource is %v", r)
	}
	if text := logged(lines); !strings.Contains(text, "traces:"+c.URL+"/otlp/v1/traces") || lines.Len() != 1 {
		t.Errorf("the log:\n%s", text)
	}
}

// TestStandardVariables: the exporters and the SDK obey the standard variables of the environment.
func TestStandardVariables(t *testing.T) {
	c := collect(t)
	sent, lines := to(t, c.URL, map[string]string{"OTEL_SERVICE_NAME": "locks-eu",
		"OTEL_RESOURCE_ATTRIBUTES":   "deployment.environment.name=test,host.name=h",
		"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20hush,broken hush", "OTEL_METRIC_EXPORT_INTERVAL": "20"})
	numbers := prometheus.NewRegistry()
	numbers.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "numbers_total"}))
	sent.Start(func() prometheus.Gatherer { return numbers })
	sent.Record(&stat.Event{Command: "lock", Outcome: stat.OutcomeGranted})
	eventually(t, "metrics", func() bool { return c.Has("numbers_total") })
	sent.Close(t.Context())
	if len(c.Spans()) != 1 || !c.Has("numbers_total") {
		t.Fatalf("got %v, metrics %v, faults %q\n%s", c.Spans(), c.Has("numbers_total"), c.Faults(), logged(lines))
	}
	for _, r := range []map[string]any{c.Spans()[0].Resource, c.Resource()} {
		if r["service.name"] != "locks-eu" || r["deployment.environment.name"] != "test" || r["host.name"] != "h" {
			t.Errorf("the resource is %v", r)
		}
	}
	for _, header := range c.Headers() {
		if got := header.Get("Authorization"); got != "Bearer hush" {
			t.Errorf("the header Authorization is %q", got)
		}
	}
	if text := logged(lines); strings.Contains(text, "hush") || !strings.Contains(text, "parse headers") {
		t.Errorf("the log shows a password, or not that a header is broken:\n%s", text)
	}
}

func TestSampler(t *testing.T) {
	c := collect(t)
	sent, _ := to(t, c.URL, map[string]string{"OTEL_TRACES_SAMPLER": "always_off", "OTEL_BSP_MAX_QUEUE_SIZE": "3"})
	for range 10 {
		sent.Record(&stat.Event{Command: "lock", Outcome: stat.OutcomeGranted})
	}
	if n, lost := sent.spans.waiting.Load(), sent.spans.lost.Load(); n != 0 || lost != 0 {
		t.Errorf("%d spans wait and %d are lost although none is sampled", n, lost)
	}
	sent.Close(t.Context())
	if got := c.Spans(); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// TestMissingCollectorLosesSpansOnly: lost spans are counted and reported once, and commands do
// not wait.
func TestMissingCollectorLosesSpansOnly(t *testing.T) {
	testLost(t, "http://"+redistest.FreeAddr(t), "connection refused")
}

// TestHangingCollectorLosesSpansOnly: the same with one that takes requests and never answers.
func TestHangingCollectorLosesSpansOnly(t *testing.T) {
	over := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer hanging.Close()
	defer close(over)
	testLost(t, hanging.URL, "")
}

// stacks are those of all goroutines.
func stacks() string {
	all := make([]byte, 1<<20)
	return string(all[:runtime.Stack(all, true)])
}

func testLost(t *testing.T, endpoint, reason string) {
	sent, lines := to(t, endpoint, map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "5",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "600000"}) // whoever waits for the collector does not end
	sent.Start(func() prometheus.Gatherer { return prometheus.NewRegistry() })
	const all = 20000
	for range all {
		sent.Record(&stat.Event{Command: "lock", Outcome: stat.OutcomeGranted, Key: "job"})
	}
	if n := sent.spans.waiting.Load(); n > 2048 {
		t.Errorf("%d spans wait", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	sent.Close(ctx)
	warnings, lost := 0, uint64(0)
	for _, line := range lines.FilterMessage("telemetry is lost").FilterField(zap.String("signal", "traces")).All() {
		warnings++
		n, _ := line.ContextMap()["spans_lost"].(uint64)
		lost += n
		if text, _ := line.ContextMap()["error"].(string); !strings.Contains(text, reason) && warnings == 1 {
			t.Errorf("the reason is %q, want %q", text, reason)
		}
	}
	if warnings < 1 || warnings > 2 || lost != all {
		t.Errorf("%d warnings about %d of %d lost spans\n%s", warnings, lost, all, logged(lines))
	}
	eventually(t, "the end of OpenTelemetry's goroutines",
		func() bool { return !strings.Contains(stacks(), "go.opentelemetry.io") })
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestReportWarnsOnceAMinute: the log warns once a minute, and says when it works again.
func TestReportWarnsOnceAMinute(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	r := &sendingLog{log: zap.New(core), signal: "traces"}
	fail := fmt.Errorf("no\nway %s", strings.Repeat("x", 1000))
	r.sent(nil)
	for range 5 {
		r.lost.Add(10)
		r.sent(fail)
	}
	r.sent(nil) // 40 more were lost than the log says
	r.warned = r.warned.Add(-warnEvery)
	r.sent(nil)
	r.sent(nil)
	r.lost.Add(1)
	r.end(nil)
	var got []string
	for _, line := range lines.All() {
		got = append(got, fmt.Sprint(line.Message, line.ContextMap()["spans_lost"]))
		if text, _ := line.ContextMap()["error"].(string); len(text) > 160 || strings.Contains(text, "\n") {
			t.Errorf("the error is %q", text)
		}
	}
	want := []string{"telemetry is lost10", "telemetry is lost40", "telemetry is sent again<nil>", "telemetry is lost1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCertificateWithoutTLSIsRefused: the exporters refuse it, and telemetry is off.
func TestCertificateWithoutTLSIsRefused(t *testing.T) {
	c := httptest.NewTLSServer(nil)
	defer c.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
	core, lines := observer.New(zapcore.InfoLevel)
	if New(os.Getenv, "v1", zap.New(core)) != nil ||
		!strings.Contains(logged(lines), "no traces are sent map[error:insecure HTTP endpoint") {
		t.Errorf("telemetry is on:\n%s", logged(lines))
	}
}

// TestCollectorsCertificateIsChecked: the certificate of a collector is checked with the authority
// that a variable names.
func TestCollectorsCertificateIsChecked(t *testing.T) {
	c := collector.New()
	defer c.Close()
	secure := httptest.NewTLSServer(c.Config.Handler)
	defer secure.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	sent, lines := to(t, secure.URL, map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": file,
		"OTEL_METRICS_EXPORTER":          "none",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
	if sent.WantsMetrics() {
		t.Error("metrics are sent")
	}
	sent.Record(&stat.Event{Command: "lock", Outcome: stat.OutcomeGranted})
	sent.Close(t.Context())
	if len(c.Spans()) != 1 || c.Headers()[0].Get("Content-Encoding") != "gzip" {
		t.Errorf("got %v, faults %q\n%s", c.Spans(), c.Faults(), logged(lines))
	}
}

func TestNoEndpointCostsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, env := range []map[string]string{{}, {"OTEL_SDK_DISABLED": "true",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}} {
		core, lines := observer.New(zapcore.InfoLevel)
		sent := New(func(name string) string { return env[name] }, "v1", zap.New(core))
		if sent != nil || lines.Len() > 0 {
			t.Fatalf("%v: telemetry is on: %s", maps.Keys(env), logged(lines))
		}
		sent.Start(func() prometheus.Gatherer { panic("nobody wants it") })
		e := stat.Event{Command: "lock", Outcome: stat.OutcomeGranted, Key: "job"}
		if n := testing.AllocsPerRun(100, func() { sent.Record(&e) }); n != 0 {
			t.Errorf("%v allocations where telemetry is off", n)
		}
		sent.Close(t.Context())
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines more", n-before)
	}
}

func BenchmarkRecord(b *testing.B) {
	over := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer hanging.Close()
	defer close(over)
	e := &stat.Event{Command: "lock", Outcome: stat.OutcomeGranted, Key: "job", Kind: stat.KindExclusive, Fence: 7,
		TTL: time.Second, Took: time.Millisecond,
		Client: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 50001}}
	for name, most := range map[string]int{"sent": 1 << 20, "lost": 1} {
		b.Run(name, func(b *testing.B) {
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hanging.URL)
			b.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", fmt.Sprint(most))
			sent := New(os.Getenv, "v1", zap.NewNop())
			b.ReportAllocs()
			for b.Loop() {
				sent.Record(e)
			}
			b.StopTimer()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			sent.Close(ctx)
		})
	}
}
