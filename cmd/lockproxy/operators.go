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
	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/cmd/lockproxy/internal/logs"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/resp"
	"lockproxy/stat"
	"lockproxy/upstream"
)

// operators is the HTTP server of admin-listen. The methods of nil, which stands for no such
// server, do nothing.
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

// demoPage is where the page is served beside servers in memory, where that port is free.
var demoPage = conf.Address{Network: "tcp", Addr: "127.0.0.1:9380"}

// openOperators is listenOperators. Beside servers in memory, where admin-listen is not set, it opens
// a listener on loopback, or none if that is not to be had.
func openOperators(ctx context.Context, cfg conf.Config, memory *embedded.Servers, files *files, log *zap.Logger) (*operators, error) {
	if memory == nil || cfg.AdminListen != (conf.Address{}) {
		return listenOperators(ctx, cfg, files, log)
	}
	cfg.ReusePort = false // another demo keeps its page
	for _, addr := range []string{demoPage.Addr, "127.0.0.1:0"} {
		cfg.AdminListen = demoPage
		cfg.AdminListen.Addr = addr
		if o, err := listenOperators(ctx, cfg, files, log); err == nil {
			return o, nil
		}
	}
	return nil, nil
}

// page returns the address of the page for a browser on this machine, or "".
func (o *operators) page() string {
	if o == nil || o.cfg.AdminListen.Network == "unix" {
		return ""
	}
	scheme := "http://"
	if o.cfg.AdminListen.TLS {
		scheme = "https://"
	}
	return scheme + o.listener.Addr().String() + "/"
}

// dial returns next, and counts its calls, time and errors.
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

// timed returns a function that receives the duration of relayed commands, or nil.
func (o *operators) timed() func(group string, took time.Duration) {
	if o == nil {
		return nil
	}
	return o.meter.Relayed
}

// done returns a function that receives events, for metrics and the audit log, or nil.
func (o *operators) done(audit *logs.Audit) func(stat.Event) {
	if o == nil && audit == nil {
		return nil
	}
	return func(e stat.Event) {
		if o != nil {
			o.meter.Note(&e)
		}
		if audit != nil {
			audit.Record(e)
		}
	}
}

// start serves until close. Operators must show token, unless it is "". listen is where clients
// connect.
func (o *operators) start(ctx context.Context, up *upstream.Upstream, service *commands.Service,
	relay *resp.Server, token func() string, level http.Handler, listen []string) {
	if o == nil {
		return
	}
	o.service, o.relay, o.probe = service, relay, newProbe(up.Dial)
	probing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	context.AfterFunc(ctx, func() { o.draining.Store(true) })
	tcp, network := o.listener.Addr().(*net.TCPAddr)
	local := network && tcp.IP.IsLoopback()
	host, _ := os.Hostname()
	o.server = admin.New(admin.Options{Meter: o.meter, Version: versionText(), Started: o.started, State: o.state,
		Host: host, Listen: listen, Waiting: service.Waiting, Locks: service.Locks,
		MayRelease: o.mayRelease, Release: o.release, Explain: service.Explain, Token: token,
		Local: local, Unix: !network, LogLevel: level, Log: o.log})
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

func (o *operators) mayRelease(by admin.Operator) error {
	return o.service.MayRelease(commands.Operator(by))
}

func (o *operators) release(ctx context.Context, by admin.Operator, key string,
	fence uint64) (bool, error) {
	return o.service.ReleaseShown(ctx, commands.Operator(by), key, fence)
}

// close stops serving, within a second. It may be called without start.
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

// state returns what the HTTP server shows.
func (o *operators) state() admin.State {
	counts := o.service.Counts()
	s := admin.State{Draining: o.draining.Load(), Waiters: counts.Waiters, WaitedKeys: counts.WaitedKeys,
		Followers: counts.Followers, SessionLocks: counts.SessionLocks, Traffic: o.relay.Stats(), Masters: o.service.Masters()}
	s.Upstream.Name = o.upstreamName()
	s.Upstream.Up, s.Upstream.Reason, s.Upstream.RTT = o.probe.last()
	return s
}

// upstreamName returns the name of the upstream, unless the upstream is a master and show-masters
// is off.
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

// dialKind returns the kind of a failed dial for metrics, or "" if it succeeded or its client
// disconnected.
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
