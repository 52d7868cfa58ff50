package telemetry

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"lockproxy/plain"
)

// warnEvery is the shortest time between two warnings about a collector that does not answer.
const warnEvery = time.Minute

// sendingLog logs how the sending of one signal goes. Safe for concurrent use.
type sendingLog struct {
	log    *zap.Logger
	signal string
	lost   atomic.Uint64 // spans, since the start

	mu      sync.Mutex
	failing bool
	warned  time.Time
	told    uint64 // of lost
}

// sent notes that a batch was sent, or why it was not.
func (r *sendingLog) sent(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost.Load()
	if err == nil && lost == r.told {
		if r.failing {
			r.failing = false
			r.log.Info("telemetry is sent again", zap.String("signal", r.signal))
		}
		return
	}
	r.failing = true
	if now := time.Now(); now.Sub(r.warned) >= warnEvery {
		r.warnLocked(now, lost, err)
	}
}

func (r *sendingLog) warnLocked(now time.Time, lost uint64, err error) {
	fields := []zap.Field{zap.String("signal", r.signal)}
	if lost > r.told {
		fields = append(fields, zap.Uint64("spans_lost", lost-r.told))
	}
	if err != nil {
		fields = append(fields, zap.String("error", plain.Short(err.Error())))
	}
	r.log.Warn("telemetry is lost", fields...)
	r.warned, r.told = now, lost
}

// end logs the losses since the last warning, and is called last.
func (r *sendingLog) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lost := r.lost.Load(); lost > r.told {
		r.warnLocked(time.Now(), lost, err)
	}
}

// spans sends spans and counts the lost ones. It limits how many wait.
type spans struct {
	sdktrace.SpanExporter
	sendingLog
	most    int          // spans that may wait
	waiting atomic.Int64 // finished and not sent, those on their way included
}

func newSpans(to sdktrace.SpanExporter, log *zap.Logger) *spans {
	most := sdktrace.DefaultMaxQueueSize
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		most = n
	}
	return &spans{SpanExporter: to, sendingLog: sendingLog{log: log, signal: "traces"}, most: most}
}

// enter takes a place for one more span. Without one the span is lost.
func (s *spans) enter() bool {
	if s.waiting.Add(1) <= int64(s.most) {
		return true
	}
	s.leave(1)
	s.lost.Add(1)
	return false
}

func (s *spans) leave(n int) { s.waiting.Add(int64(-n)) }

// ExportSpans implements sdktrace.SpanExporter.
func (s *spans) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, batch)
	s.leave(len(batch))
	if err != nil {
		s.lost.Add(uint64(len(batch)))
	}
	s.sent(err)
	return nil // it is logged
}

// finish interrupts the current request if err says that the time has run out, and logs the
// losses.
func (s *spans) finish(ctx context.Context, err error) {
	if err != nil {
		_ = s.Shutdown(ctx) // ends the request
		s.lost.Add(uint64(max(s.waiting.Load(), 0)))
	}
	s.end(err)
}

// metricsExporter logs how it goes.
type metricsExporter struct {
	sdkmetric.Exporter
	report *sendingLog
}

// Export implements sdkmetric.Exporter.
func (m *metricsExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	m.report.sent(m.Exporter.Export(ctx, all))
	return nil // it is logged
}

// logFaults makes OpenTelemetry report its own errors to log.
func logFaults(log *zap.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reports an error", zap.String("error", plain.Short(err.Error())))
	}))
	otel.SetLogger(logr.New(&sink{log: log}))
}

// sink logs warnings and errors of OpenTelemetry. It leaves their values out, which may be
// passwords from the environment, but for names of files.
type sink struct{ log *zap.Logger }

var _ logr.LogSink = (*sink)(nil)

// Init implements logr.LogSink.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. Level 1 has warnings.
func (s *sink) Enabled(level int) bool { return level <= 1 }

// Info implements logr.LogSink.
func (s *sink) Info(_ int, message string, _ ...any) {
	s.log.Warn("OpenTelemetry reports a fault", zap.String("fault", plain.Short(message)))
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, values ...any) {
	fields := []zap.Field{zap.String("fault", plain.Short(message))}
	for i := 0; i+1 < len(values); i += 2 {
		if file, ok := values[i+1].(string); ok && values[i] == "file" {
			fields = append(fields, zap.String("file", plain.Short(file)), zap.Error(err))
		}
	}
	s.log.Warn("OpenTelemetry reports a fault", fields...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s *sink) WithName(string) logr.LogSink { return s }
