package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/cmd/lockproxy/internal/telemetry/collector"
	"lockproxy/conf"
	"lockproxy/stat"
)

// TestTelemetrySendsSpansAndMetrics: a run sends a span for each lock command, and the metrics of
// /metrics. It never sends the secret of a token.
func TestTelemetrySendsSpansAndMetrics(t *testing.T) {
	c := collector.New()
	defer c.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	address, log, stop := started(t)
	if !strings.Contains(log.String(), `"msg":"telemetry is sent","traces":"`+c.URL+`/v1/traces","metrics":"`+c.URL+
		`/v1/metrics"`) {
		t.Errorf("the log does not say where telemetry goes:\n%s", log)
	}
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, MaxRetries: -1})
	defer client.Close()
	ctx := t.Context()
	token, err := client.Do(ctx, "LOCK", "job-\xff", "5s", "OWNER", "me").Text()
	if err != nil {
		t.Fatal(err)
	}
	client.Do(ctx, "LOCK", "job-\xff", "5s", "WAIT", "30ms")
	client.Do(ctx, "EXTEND", "job-\xff", token, "10s")
	client.Do(ctx, "UNLOCK", "job-\xff", token)
	client.Do(ctx, "UNLOCK", "job", token, token)
	if err := stop(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, s := range c.Spans() {
		got = append(got, s.Name+" "+s.Attributes["lockproxy.outcome"].(string))
	}
	if want := []string{"LOCK granted", "LOCK timeout", "EXTEND extended", "UNLOCK released",
		"UNLOCK invalid"}; !slices.Equal(got, want) {
		t.Fatalf("got the spans %q, want %q\n%s", got, want, log)
	}
	first, waited := c.Spans()[0], c.Spans()[1]
	if first.Attributes["lockproxy.key"] != `job-\xff` || first.Attributes["lockproxy.owner"] != "me" ||
		first.Attributes["lockproxy.fence"] == nil || first.Attributes["user.name"] != "default" {
		t.Errorf("LOCK has %v", first.Attributes)
	}
	if took := time.Duration(waited.End - waited.Start); took < 30*time.Millisecond || took > time.Minute {
		t.Errorf("the LOCK that waited for 30ms has a span of %v", took)
	}
	for _, name := range []string{"lockproxy_lock_commands_total", "lockproxy_lock_wait_duration_seconds",
		"lockproxy_masters_voting", "go_goroutines"} {
		if !c.Has(name) {
			t.Errorf("the metric %s did not come", name)
		}
	}
	_, secret, _ := strings.Cut(token, ":")
	if sent := c.Bytes(); len(secret) != 40 || strings.Contains(sent, secret) || len(c.Faults()) > 0 {
		t.Errorf("the secret of a token was sent, or requests had faults: %q", c.Faults())
	}
}

// TestTelemetryNeedsNoAdminListen: metrics are sent where admin-listen is off.
func TestTelemetryNeedsNoAdminListen(t *testing.T) {
	c := collector.New()
	defer c.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	address, log, stop := started(t, "--masters", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--upstream", "127.0.0.1:1",
		"--drain-timeout", "1s")
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, MaxRetries: -1, DisableIdentity: true})
	defer client.Close()
	if err := client.Do(t.Context(), "LOCK", "job", "5s").Err(); err == nil {
		t.Error("a lock was granted without masters")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if all := c.Spans(); len(all) != 1 || all[0].Name != "LOCK" || !c.Has("lockproxy_masters") ||
		!c.Has("lockproxy_upstream_up") {
		t.Errorf("got %v\n%s", all, log)
	}
}

// TestHangingCollectorDelaysNoCommand: a collector that takes requests and never answers holds up
// no command, and the end for three seconds at most.
func TestHangingCollectorDelaysNoCommand(t *testing.T) {
	over := make(chan struct{})
	asked := make(chan struct{}, 1)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-over
	}))
	defer hanging.Close()
	defer close(over)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hanging.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600000") // an end that waits for the collector does not come
	address, log, stop := started(t, "--drain-timeout", "1s")
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, MaxRetries: -1})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 100 {
		if i == 1 {
			<-asked
		}
		token, err := client.Do(ctx, "LOCK", "job", "60s").Text()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := client.Do(ctx, "UNLOCK", "job", token).Int(); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	client.Close() // only telemetry may delay the end
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `"msg":"telemetry is lost","signal":"traces","spans_lost":`) {
		t.Errorf("the log does not say that spans are lost:\n%s", log)
	}
}

// TestTelemetryIsOffWithoutEndpoint: without an endpoint no function observes events and no
// goroutine runs.
func TestTelemetryIsOffWithoutEndpoint(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "lockproxy") // alone it does not turn telemetry on
	_, log, _ := started(t)
	stacks := make([]byte, 4<<20)
	if all := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(all, "go.opentelemetry.io") ||
		strings.Contains(log.String(), "telemetry") {
		t.Errorf("telemetry is on:\n%s\n%s", log, all)
	}
	if newFigures(conf.Default(), false).done(nil, nil) != nil {
		t.Error("events are made although nobody wants them")
	}
	figures := newFigures(conf.Default(), true)
	e := stat.Event{Command: "lock", Outcome: stat.OutcomeGranted, Kind: stat.KindExclusive, Key: "job"}
	done := figures.done(nil, nil)
	if n := testing.AllocsPerRun(100, func() { done(e) }); n > 0 {
		t.Errorf("an event costs %v allocations", n)
	}
}
