package telemetry

import (
	"net/url"
	"slices"
	"strings"
)

// signal is one kind of telemetry, which may have a destination of its own.
type signal struct {
	name string // in the names of variables
	path string // below OTEL_EXPORTER_OTLP_ENDPOINT
}

var (
	traces  = signal{"TRACES", "v1/traces"}
	metrics = signal{"METRICS", "v1/metrics"}
)

// destinations hold the destination of each signal; nil: the signal is not sent.
type destinations struct {
	traces, metrics *url.URL
	warnings        []string // they hold no value that may be secret
}

// fromEnvironment reads the variables that decide whether and where telemetry is sent. The
// exporters read all others themselves: headers, certificates, time-outs, compression.
func fromEnvironment(getenv func(string) string) destinations {
	env := environment{getenv: getenv}
	if strings.EqualFold(env.get("OTEL_SDK_DISABLED"), "true") {
		return destinations{}
	}
	s := destinations{traces: env.destination(traces), metrics: env.destination(metrics)}
	s.warnings = env.warnings
	return s
}

// environment collects warnings about variables while they are read.
type environment struct {
	getenv   func(string) string
	warnings []string
}

func (e *environment) get(name string) string { return strings.TrimSpace(e.getenv(name)) }

// first returns the first of the variables that is set.
func (e *environment) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := e.get(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// destination returns the URL for a signal, or nil if no endpoint is set or a variable forbids it.
func (e *environment) destination(s signal) *url.URL {
	own := "OTEL_EXPORTER_OTLP_" + s.name + "_"
	name, endpoint := e.first(own+"ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if name == "" || !e.wanted(s) || !e.spoken(s) {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		e.warn(name, "is no address of a collector: want http://host:4318 or https://host:4318", s)
		return nil
	}
	if u.User != nil {
		e.warn(name, "has a user or password, which are not sent: set OTEL_EXPORTER_OTLP_HEADERS", signal{})
	}
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name == own+"ENDPOINT" {
		return u // used as it is
	}
	return u.JoinPath(s.path)
}

// wanted reports whether OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER lets the signal be sent.
func (e *environment) wanted(s signal) bool {
	name := "OTEL_" + s.name + "_EXPORTER"
	switch e.get(name) {
	case "", "otlp":
		return true
	case "none":
		return false
	}
	e.warn(name, "is neither otlp nor none", s)
	return false
}

// spoken reports whether the variables ask for http/protobuf, the only supported protocol.
func (e *environment) spoken(s signal) bool {
	name, protocol := e.first("OTEL_EXPORTER_OTLP_"+s.name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if name == "" || protocol == "http/protobuf" {
		return true
	}
	e.warn(name, "must be http/protobuf: lockproxy speaks no other protocol, and collectors have another port for it, "+
		"mostly 4318", s)
	return false
}

// warn records the fault of a variable, once, and the signal that is not sent because of it; the
// zero signal is none.
func (e *environment) warn(name, fault string, s signal) {
	text := name + " " + fault
	if s.name != "" {
		text += "; no " + strings.ToLower(s.name) + " are sent"
	}
	if slices.Contains(e.warnings, text) {
		return
	}
	e.warnings = append(e.warnings, text)
}
