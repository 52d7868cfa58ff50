package telemetry

import (
	"slices"
	"strings"
	"testing"
)

var environments = map[string]struct {
	env             string // a variable a word
	traces, metrics string
	warnings        []string // how each begins
}{
	"nothing": {"", "off", "off", nil},
	"empty":   {"OTEL_EXPORTER_OTLP_ENDPOINT=", "off", "off", nil},
	"a base": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "http://c:4318/v1/traces",
		"http://c:4318/v1/metrics", nil},
	"a base with a path": {"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/otlp/", "https://c/otlp/v1/traces",
		"https://c/otlp/v1/metrics", nil},
	"traces alone": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:1/here", "http://c:1/here", "off", nil},
	"one of its own": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1 OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://d:2",
		"http://c:1/v1/traces", "http://d:2", nil},
	"disabled": {"OTEL_SDK_DISABLED=TRUE OTEL_EXPORTER_OTLP_ENDPOINT=ftp://c", "off", "off", nil},
	"not disabled": {"OTEL_SDK_DISABLED=1 OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "http://c/v1/traces",
		"http://c/v1/metrics", nil},
	"no metrics": {"OTEL_METRICS_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "http://c/v1/traces",
		"off", nil},
	"no traces": {"OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=otlp OTEL_EXPORTER_OTLP_ENDPOINT=http://c",
		"off", "http://c/v1/metrics", nil},
	"none, nowhere":    {"OTEL_TRACES_EXPORTER=none", "off", "off", nil},
	"console, nowhere": {"OTEL_TRACES_EXPORTER=console", "off", "off", nil},
	"another exporter": {"OTEL_TRACES_EXPORTER=zipkin OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "off",
		"http://c/v1/metrics", []string{"OTEL_TRACES_EXPORTER is neither otlp nor none; no traces"}},
	"http/protobuf": {"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=http://c",
		"http://c/v1/traces", "http://c/v1/metrics", nil},
	"grpc": {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "off", "off",
		[]string{"OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf"}},
	"grpc for metrics": {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT=http://c",
		"http://c/v1/traces", "off", []string{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL must be"}},
	"traces by another": {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf " +
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "http://c/v1/traces", "off",
		[]string{"OTEL_EXPORTER_OTLP_PROTOCOL must be"}},
	"no scheme": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=user:hush@c:4318", "off", "off",
		[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no address of a collector"}},
	"no host": {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://", "off", "off",
		[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is no address"}},
	"no URL": {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://u:hush@c:x", "off", "off",
		[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is no address"}},
	"a password": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:hush@c", "http://c/v1/traces", "http://c/v1/metrics",
		[]string{"OTEL_EXPORTER_OTLP_ENDPOINT has a user or password, which are not sent"}},
}

func TestFromEnvironment(t *testing.T) {
	for name, c := range environments {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{}
			for word := range strings.FieldsSeq(c.env) {
				name, value, _ := strings.Cut(word, "=")
				env[name] = value
			}
			s := fromEnvironment(func(name string) string { return env[name] })
			if traces, metrics := shown(s.traces), shown(s.metrics); traces != c.traces || metrics != c.metrics {
				t.Errorf("got %s and %s, want %s and %s", traces, metrics, c.traces, c.metrics)
			}
			if !slices.EqualFunc(s.warnings, c.warnings, strings.HasPrefix) {
				t.Errorf("got %q, want %q", s.warnings, c.warnings)
			}
			if all := strings.Join(s.warnings, " "); strings.Contains(all, "hush") {
				t.Errorf("a warning shows a password: %s", all)
			}
		})
	}
}
