// Package telemetry sends a span for each lock command, and the metrics, to a collector of
// OpenTelemetry, if the environment names one. It is the only room that knows OpenTelemetry.
package telemetry

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"lockproxy/plain"
)

// closeWait bounds how long Close waits for the collector.
const closeWait = 3 * time.Second

// Telemetry sends spans and metrics. A slow or missing collector costs only spans. Without
// telemetry it is nil, and its methods have no effect. Safe for concurrent use.
type Telemetry struct {
	log      *zap.Logger
	to       destinations
	resource *resource.Resource
	once     sync.Once // of Close

	// Nil if no traces are sent.
	tracer  trace.Tracer
	spans   *spans
	tracing *sdktrace.TracerProvider

	// Nil if no metrics are sent, and before Start.
	metering *sdkmetric.MeterProvider
}

// New returns the telemetry that the environment asks for, or nil, and logs the destinations. The
// exporters read the environment of the process themselves; getenv must be os.Getenv, or agree
// with it. version is that of lockproxy. The caller closes the result.
func New(getenv func(string) string, version string, log *zap.Logger) *Telemetry {
	to := fromEnvironment(getenv)
	for _, warning := range to.warnings {
		log.Warn(warning)
	}
	if to.traces == nil && to.metrics == nil {
		return nil
	}
	logFaults(log)
	t := &Telemetry{log: log, to: to, resource: describe(version)}
	if to.traces != nil {
		t.trace()
	}
	if t.tracer == nil && to.metrics == nil {
		return nil
	}
	log.Info("telemetry is sent", zap.String("traces", shown(t.to.traces)), zap.String("metrics", shown(to.metrics)))
	return t
}

// shown is a destination in the log. It has no user and no password.
func shown(to *url.URL) string {
	if to == nil {
		return "off"
	}
	return to.String()
}

// describe returns what names this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
func describe(version string) *resource.Resource {
	own := []resource.Option{resource.WithService(), resource.WithAttributes(semconv.ServiceName("lockproxy")),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv()}
	if version != "" {
		own = append([]resource.Option{resource.WithAttributes(semconv.ServiceVersion(version))}, own...)
	}
	r, err := resource.New(context.Background(), own...)
	if err != nil {
		otel.Handle(err)
	}
	return r
}

// trace makes what sends spans.
func (t *Telemetry) trace() {
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(t.to.traces.String()))
	if err != nil {
		t.log.Warn("no traces are sent", zap.Error(err))
		t.to.traces = nil
		return
	}
	t.spans = newSpans(exporter, t.log)
	t.tracing = sdktrace.NewTracerProvider(sdktrace.WithResource(t.resource),
		sdktrace.WithBatcher(t.spans, sdktrace.WithMaxQueueSize(t.spans.most)))
	t.tracer = t.tracing.Tracer("lockproxy", trace.WithSchemaURL(semconv.SchemaURL))
}

// WantsSpans reports whether spans are sent.
func (t *Telemetry) WantsSpans() bool { return t != nil && t.to.traces != nil }

// WantsMetrics reports whether Start sends metrics.
func (t *Telemetry) WantsMetrics() bool { return t != nil && t.to.metrics != nil }

// Start sends the metrics of registry each minute, or as OTEL_METRIC_EXPORT_INTERVAL says. It
// calls registry at most once.
func (t *Telemetry) Start(registry func() prometheus.Gatherer) {
	if !t.WantsMetrics() {
		return
	}
	exporter, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(t.to.metrics.String()))
	if err != nil {
		t.log.Warn("no metrics are sent", zap.Error(err))
		return
	}
	reader := sdkmetric.NewPeriodicReader(&metricsExporter{exporter, &sendingLog{log: t.log, signal: "metrics"}},
		sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(registry()))))
	t.metering = sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.resource), sdkmetric.WithReader(reader))
}

// Close sends the remaining data and ends, after three seconds or at the end of ctx at the latest.
// It may be called twice. Record may be called meanwhile.
func (t *Telemetry) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, closeWait)
		defer cancel()
		var wg sync.WaitGroup
		if t.tracing != nil {
			wg.Go(func() { t.spans.finish(ctx, t.tracing.Shutdown(ctx)) })
		}
		if t.metering != nil {
			wg.Go(func() {
				if err := t.metering.Shutdown(ctx); err != nil {
					t.log.Warn("the last metrics were not sent", zap.String("error", plain.Short(err.Error())))
				}
			})
		}
		wg.Wait()
	})
}
