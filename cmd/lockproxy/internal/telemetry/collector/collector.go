// Package collector is an OpenTelemetry collector in memory, for tests. It speaks OTLP over HTTP.
package collector

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	metricsproto "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracesproto "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that came, with its attributes as Go values.
type Span struct {
	Name       string
	Kind       string
	Failed     bool
	Start, End uint64 // nanoseconds
	Attributes map[string]any
	Resource   map[string]any
}

// Collector keeps the telemetry that it receives. The caller closes it.
type Collector struct {
	*httptest.Server

	mu      sync.Mutex
	spans   []Span
	metrics map[string]bool
	of      map[string]any // the resource of the metrics
	bodies  []byte
	headers []http.Header
	faults  []string
}

// New returns a collector that listens on loopback.
func New() *Collector {
	c := &Collector{metrics: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.receive))
	return c
}

// Spans returns the received spans in the order of arrival.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Has reports whether a metric came.
func (c *Collector) Has(metric string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[metric]
}

// Resource returns the resource of the metrics.
func (c *Collector) Resource() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of
}

// Bytes returns the bodies of all requests.
func (c *Collector) Bytes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.bodies)
}

// Headers returns the headers of all requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.headers...)
}

// Faults returns the faults of requests.
func (c *Collector) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.faults...)
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	c.bodies = append(c.bodies, body...)
	if kind := r.Header.Get("Content-Type"); err == nil && kind != "application/x-protobuf" {
		c.faults = append(c.faults, r.URL.Path+" has the content type "+kind)
	}
	switch {
	case err != nil:
	case strings.HasSuffix(r.URL.Path, "/v1/traces"):
		err = c.takeSpansLocked(body)
	case strings.HasSuffix(r.URL.Path, "/v1/metrics"):
		err = c.takeMetricsLocked(body)
	default:
		c.faults = append(c.faults, "no such path: "+r.URL.Path)
	}
	if err != nil {
		c.faults = append(c.faults, err.Error())
		w.WriteHeader(http.StatusBadRequest)
	}
}

// read returns the body of r, unpacked.
func read(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}

func (c *Collector) takeSpansLocked(body []byte) error {
	var request tracesproto.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	for _, of := range request.GetResourceSpans() {
		resource := values(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{Name: s.GetName(), Kind: s.GetKind().String(), Failed: s.GetStatus().GetCode() == 2,
					Start: s.GetStartTimeUnixNano(), End: s.GetEndTimeUnixNano(), Attributes: values(s.GetAttributes()),
					Resource: resource})
			}
		}
	}
	return nil
}

func (c *Collector) takeMetricsLocked(body []byte) error {
	var request metricsproto.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	for _, of := range request.GetResourceMetrics() {
		c.of = values(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.metrics[m.GetName()] = true
			}
		}
	}
	return nil
}

func values(all []*v1.KeyValue) map[string]any {
	got := map[string]any{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *v1.AnyValue_StringValue:
			got[a.GetKey()] = v.StringValue
		case *v1.AnyValue_IntValue:
			got[a.GetKey()] = v.IntValue
		case *v1.AnyValue_DoubleValue:
			got[a.GetKey()] = v.DoubleValue
		case *v1.AnyValue_BoolValue:
			got[a.GetKey()] = v.BoolValue
		}
	}
	return got
}
