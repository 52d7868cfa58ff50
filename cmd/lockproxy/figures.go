package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockproxy/admin"
	"lockproxy/cmd/lockproxy/internal/logs"
	"lockproxy/cmd/lockproxy/internal/telemetry"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/plain"
	"lockproxy/resp"
	"lockproxy/stat"
	"lockproxy/upstream"
)

// figures are the counters and the state of the proxy, for admin-listen and telemetry. With
// neither, figures is nil and its methods have no effect.
type figures struct {
	cfg     conf.Config
	meter   *admin.Meter
	started time.Time

	// Set by start.
	service  *commands.Service
	relay    *relay
	probe    *probe
	draining atomic.Bool
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// newFigures returns figures at zero, or nil if wanted is false.
func newFigures(cfg conf.Config, wanted bool) *figures {
	if !wanted {
		return nil
	}
	return &figures{cfg: cfg, meter: admin.NewMeter(resp.Groups()), started: time.Now()}
}

// start begins to probe the upstream, until close. state may be called from then on.
func (f *figures) start(ctx context.Context, up *upstream.Upstream, service *commands.Service, relay *relay) {
	if f == nil {
		return
	}
	f.service, f.relay, f.probe = service, relay, newProbe(up.Dial)
	probing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	context.AfterFunc(ctx, func() { f.draining.Store(true) })
	f.wg.Go(func() { f.probe.run(probing) })
}

// close ends what start began. It may be called without start.
func (f *figures) close() {
	if f == nil || f.cancel == nil {
		return
	}
	f.cancel()
	f.wg.Wait()
}

// registry returns the metrics. It must not be called before start.
func (f *figures) registry() prometheus.Gatherer {
	return admin.Registry(f.meter, f.state, versionText())
}

// dial returns next, and counts its calls, time and errors.
func (f *figures) dial(next func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	if f == nil {
		return next
	}
	return func(ctx context.Context) (net.Conn, error) {
		start := time.Now()
		conn, err := next(ctx)
		f.meter.Dialled(time.Since(start), dialKind(err))
		return conn, err
	}
}

// timed returns a function that receives the duration of relayed commands, or nil.
func (f *figures) timed() func(group string, took time.Duration) {
	if f == nil {
		return nil
	}
	return f.meter.Relayed
}

// holders returns the record of the latest holders, or nil.
func (f *figures) holders() func(key string) []stat.Holder {
	if f == nil {
		return nil
	}
	return f.meter.Holders
}

// done returns a function that receives events, for metrics, the audit log and telemetry, or nil.
func (f *figures) done(audit *logs.Audit, sent *telemetry.Telemetry) func(stat.Event) {
	if f == nil && audit == nil && sent == nil {
		return nil
	}
	return func(e stat.Event) {
		if f != nil {
			f.meter.Note(&e)
		}
		if e.Refused != "" {
			return
		}
		if audit != nil {
			audit.Record(e)
		}
		if sent != nil {
			sent.Record(&e)
		}
	}
}

// state returns what operators see.
func (f *figures) state() admin.Snapshot {
	counts := f.service.Counts()
	s := admin.Snapshot{Draining: f.draining.Load(), Waiters: counts.Waiters, WaitedKeys: counts.WaitedKeys,
		LongestWait: counts.LongestWait, Followers: counts.Followers, SessionLocks: counts.SessionLocks,
		Traffic: f.relay.stats(), Masters: f.service.Masters(), Load: f.service.Load()}
	s.Upstream.Name = f.upstreamName()
	s.Upstream.Up, s.Upstream.Reason, s.Upstream.RTT = f.probe.last()
	return s
}

// upstreamName returns the name of the upstream, unless the upstream is a master and show-masters
// is off.
func (f *figures) upstreamName() string {
	up := f.cfg.Upstream
	master := slices.ContainsFunc(f.cfg.Masters,
		func(a conf.Address) bool { return a.Network == up.Network && a.Addr == up.Addr })
	switch {
	case up.IsZero():
		return "in memory"
	case master && !f.cfg.ShowMasters:
		return "(not shown)"
	}
	return up.Name()
}

// dialKind returns the kind of a failed dial for metrics, or "" if it succeeded or its client
// disconnected.
func dialKind(err error) string {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case plain.Refused(err):
		return "refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), plain.Reset(err):
		return "closed"
	}
	if _, ok := errors.AsType[*upstream.ReplyError](err); ok {
		return "auth"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "dns"
	}
	if _, ok := errors.AsType[*upstream.HandshakeError](err); ok {
		return "tls"
	}
	return "other"
}
