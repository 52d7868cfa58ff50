package telemetry

import (
	"context"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"lockproxy/plain"
	"lockproxy/stat"
)

// Names of attributes that are ours. All others are those of OpenTelemetry's conventions.
const (
	keyAttribute     = attribute.Key("lockproxy.key")
	keysAttribute    = attribute.Key("lockproxy.keys") // how many, if it is more than one
	kindAttribute    = attribute.Key("lockproxy.kind")
	outcomeAttribute = attribute.Key("lockproxy.outcome")
	ownerAttribute   = attribute.Key("lockproxy.owner")
	fenceAttribute   = attribute.Key("lockproxy.fence")
	ttlAttribute     = attribute.Key("lockproxy.ttl")  // seconds
	keepAttribute    = attribute.Key("lockproxy.keep") // seconds
	heldAttribute    = attribute.Key("lockproxy.held") // seconds
	waitAttribute    = attribute.Key("lockproxy.wait") // with WAIT
	sessionAttribute = attribute.Key("lockproxy.session")
	viaAttribute     = attribute.Key("lockproxy.via")
)

// Record makes a span of an event that has just happened. It never blocks.
func (t *Telemetry) Record(e *stat.Event) {
	if t == nil || t.tracer == nil || !t.spans.enter() {
		return
	}
	end := time.Now()
	_, span := t.tracer.Start(context.Background(), spanName(e), trace.WithTimestamp(end.Add(-e.Took)),
		trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		t.spans.leave(1)
		return
	}
	span.SetAttributes(attributes(e)...)
	if failed(e) {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end))
	if !span.SpanContext().IsSampled() {
		t.spans.leave(1)
	}
}

// spanName is the command. It contains no text of a client.
func spanName(e *stat.Event) string {
	switch {
	case e.Command == "session":
		return "session end"
	case e.Sub != "" && e.Outcome != stat.OutcomeInvalid:
		return strings.ToUpper(e.Command + " " + e.Sub)
	}
	return strings.ToUpper(e.Command)
}

// failed reports whether the proxy or the masters were unable to run the command.
func failed(e *stat.Event) bool {
	return e.Outcome.Failed() || e.Command == "session" && e.Outcome == stat.OutcomeLost
}

// attributes returns the attributes of a span. No value is longer than a few kilobytes.
func attributes(e *stat.Event) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 20)
	add := func(there bool, a attribute.KeyValue) {
		if there {
			all = append(all, a)
		}
	}
	add(true, semconv.DBSystemNameRedis)
	add(e.Command != "session", semconv.DBOperationName(spanName(e)))
	add(true, outcomeAttribute.String(string(e.Outcome)))
	add(failed(e), semconv.ErrorTypeKey.String(string(e.Outcome)))
	add(e.Key != "", keyAttribute.String(text(e.Key)))
	add(len(e.Keys) > 0, keysAttribute.Int(len(e.Keys)+1))
	add(e.Kind != "", kindAttribute.String(string(e.Kind)))
	add(e.Owner != "", ownerAttribute.String(text(e.Owner)))
	add(e.Fence != 0, fenceAttribute.Int64(int64(e.Fence)))
	add(e.TTL != 0, ttlAttribute.Float64(e.TTL.Seconds()))
	add(e.Keep != 0, keepAttribute.Float64(e.Keep.Seconds()))
	add(e.Held != 0, heldAttribute.Float64(e.Held.Seconds()))
	add(e.Wait, waitAttribute.Bool(true))
	add(e.Session, sessionAttribute.Bool(true))
	add(e.Via != "", viaAttribute.String(e.Via))
	add(e.User != "", semconv.UserName(text(e.User)))
	if client, ok := e.Client.(*net.TCPAddr); ok {
		all = append(all, semconv.ClientAddress(client.IP.String()), semconv.ClientPort(client.Port))
	}
	return all
}

// text returns s as it is, or with escapes if it is no UTF-8: one such text would make the
// collector refuse all spans that travel with it.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return plain.Escape(s)
}
