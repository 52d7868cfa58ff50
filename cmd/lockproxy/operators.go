package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"lockproxy/admin"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/cmd/lockproxy/internal/logs"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/resp"
	"lockproxy/upstream"
)

// operators is the HTTP server of admin-listen with what it shows. Nil: there is none, and its methods do nothing.
type operators struct {
	cfg      conf.Config
	listener net.Listener
	meter    *admin.Meter
	started  time.Time
	log      *zap.Logger

	// Set by start.
	server   *admin.Server
	service  *commands.Service
	relay    *resp.Server
	probe    *probe
	draining atomic.Bool
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// listenOperators opens the listener of admin-listen; nil without that setting.
func listenOperators(ctx context.Context, cfg conf.Config, files *files, log *zap.Logger) (*operators, error) {
	a := cfg.AdminListen
	if a.IsZero() {
		return nil, nil
	}
	ln, err := listen.Late(ctx, a, cfg.UnixMode, cfg.ReusePort, log)
	if err != nil {
		return nil, fmt.Errorf("admin-listen %s: %w", a.Addr, err)
	}
	if a.TLS {
		ln = tls.NewListener(ln, files.listenTLS())
	}
	return &operators{cfg: cfg, listener: ln, meter: admin.NewMeter(resp.Groups()), started: time.Now(), log: log}, nil
}

// dial is next, with its time and errors noted.
func (o *operators) dial(next func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	if o == nil {
		return next
	}
	return func(ctx context.Context) (net.Conn, error) {
		start := time.Now()
		conn, err := next(ctx)
		o.meter.Dialled(time.Since(start), dialKind(err))
		return conn, err
	}
}

// timed is what is told how long relayed commands took; nil: nobody wants to know.
func (o *operators) timed() func(group string, took time.Duration) {
	if o == nil {
		return nil
	}
	return o.meter.Relayed
}

// done is what is told of commands: the metrics and the audit log. Nil if neither is wanted.
func (o *operators) done(audit *logs.Audit) func(commands.Done) {
	if o == nil && audit == nil {
		return nil
	}
	return func(d commands.Done) {
		if o != nil {
			o.note(&d)
		}
		if audit != nil {
			audit.Record(d)
		}
	}
}

func (o *operators) note(d *commands.Done) {
	if d.Command == "session" {
		o.meter.SessionEnded(string(d.Outcome))
	} else {
		o.meter.Command(d.Command, string(d.Outcome), d.Wait, d.Took)
	}
	o.meter.Held(d.Held)
}

// start serves until close. token is what operators must show, "" for nothing.
func (o *operators) start(ctx context.Context, up *upstream.Upstream, service *commands.Service, relay *resp.Server, token func() string, level http.Handler) {
	if o == nil {
		return
	}
	o.service, o.relay, o.probe = service, relay, newProbe(up.Dial)
	probing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	context.AfterFunc(ctx, func() { o.draining.Store(true) })
	tcp, network := o.listener.Addr().(*net.TCPAddr)
	local := network && tcp.IP.IsLoopback()
	o.server = admin.New(admin.Options{Meter: o.meter, Version: versionText(), Started: o.started, State: o.state,
		Waiting: o.waiting, Locks: o.locks, Explain: service.Explain, Token: token, Local: local, LogLevel: level, Log: o.log})
	o.wg.Go(func() { o.probe.run(probing) })
	o.wg.Go(func() {
		if err := o.server.Serve(o.listener); err != nil {
			o.log.Error("admin-listen ended", zap.Error(err))
		}
	})
	o.log.Info("operators are served", zap.Stringer("admin_listen", o.listener.Addr()), zap.Bool("tls", o.cfg.AdminListen.TLS), zap.Bool("token", token() != ""))
	if network && !local && token() == "" {
		o.log.Warn("whoever reaches admin-listen sees the locks and may change the log-level", zap.Stringer("admin_listen", o.listener.Addr()))
	}
}

// close ends it, within a second. It may be called without start.
func (o *operators) close(ctx context.Context) {
	if o == nil {
		return
	}
	if o.server == nil {
		o.listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	o.server.Close(ctx)
	o.cancel()
	o.wg.Wait()
}

// state is what the HTTP server shows of everything.
func (o *operators) state() admin.State {
	counts, traffic := o.service.Counts(), o.relay.Stats()
	s := admin.State{Draining: o.draining.Load(), Waiters: counts.Waiters, WaitedKeys: counts.Lines, SessionLocks: counts.SessionLocks,
		Traffic: admin.Traffic{Clients: traffic.Clients, Upstreams: traffic.Upstreams, Unanswered: traffic.Unanswered, Accepted: traffic.Accepted,
			Refused: traffic.Refused, Received: traffic.Received, Sent: traffic.Sent, Commands: traffic.Commands}}
	s.Upstream.Name = o.upstreamName()
	s.Upstream.Up, s.Upstream.Reason, s.Upstream.RTT = o.probe.last()
	for _, m := range o.service.Masters() {
		s.Masters = append(s.Masters, admin.Master{Name: m.Name, State: string(m.State), Reason: m.Reason, RunID: m.RunID, Since: m.Since, VotesIn: m.VotesIn,
			RTT: m.RTT, Ahead: m.Ahead, Grants: m.Grants, Refusals: m.Refusals, Errors: m.ByKind, Lost: m.Lost, Quarantines: m.Quarantines, Strays: m.Strays,
			Owed: m.Owed, Dropped: m.Dropped, Unanswered: m.Unanswered})
	}
	return s
}

// upstreamName is the name of the upstream, unless that is a master and masters are not to be named.
func (o *operators) upstreamName() string {
	up := o.cfg.Upstream
	master := slices.ContainsFunc(o.cfg.Masters, func(a conf.Address) bool { return a.Network == up.Network && a.Addr == up.Addr })
	switch {
	case up.IsZero():
		return "in memory"
	case master && !o.cfg.ShowMasters:
		return "(not shown)"
	}
	return up.Name()
}

func (o *operators) waiting(limit int) []admin.Waiting {
	var all []admin.Waiting
	for _, w := range o.service.Waiting(limit) {
		all = append(all, admin.Waiting(w))
	}
	return all
}

func (o *operators) locks(ctx context.Context, cursor uint64, match string, count int) (uint64, []admin.Lock, error) {
	next, found, err := o.service.Locks(ctx, cursor, match, count)
	locks := make([]admin.Lock, 0, len(found))
	for _, l := range found {
		locks = append(locks, admin.Lock{Key: l.Key, Owner: l.Owner, Fence: l.Fence, Held: l.Held, TTL: l.TTL, Age: l.Age, Waiting: l.Waiting})
	}
	return next, locks, err
}

// dialKind is the kind of a failed dial, for metrics; empty if it did not fail, or its client left.
func dialKind(err error) string {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "closed"
	}
	if _, ok := errors.AsType[*upstream.ReplyError](err); ok {
		return "auth"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "dns"
	}
	if strings.Contains(err.Error(), "handshake: ") {
		return "tls"
	}
	return "other"
}
