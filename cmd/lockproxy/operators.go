package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/admin"
	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/conf"
)

// operatorServer is the HTTP server of admin-listen. Without it operators is nil and its methods
// have no effect.
type operatorServer struct {
	cfg      conf.Config
	listener net.Listener
	log      *zap.Logger

	// Set by start.
	server *admin.Site
	wg     sync.WaitGroup
}

// listenOperators opens the listener of admin-listen; nil without that setting.
func listenOperators(ctx context.Context, cfg conf.Config, files *files, log *zap.Logger) (*operatorServer, error) {
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
	return &operatorServer{cfg: cfg, listener: ln, log: log}, nil
}

// demoPage is the address of the page beside servers in memory, if that port is free.
var demoPage = conf.Address{Network: "tcp", Addr: "127.0.0.1:9380"}

// openOperators is listenOperators. Beside servers in memory, where admin-listen is not set, it
// opens a listener on loopback, or none if that is not to be had.
func openOperators(ctx context.Context, cfg conf.Config, memory *embedded.Servers, files *files,
	log *zap.Logger) (*operatorServer, error) {
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
func (o *operatorServer) page() string {
	if o == nil || o.cfg.AdminListen.Network == "unix" {
		return ""
	}
	scheme := "http://"
	if o.cfg.AdminListen.TLS {
		scheme = "https://"
	}
	return scheme + o.listener.Addr().String() + "/"
}

// start serves figures until close. Operators must show token, unless it is "". listen is where
// clients connect.
func (o *operatorServer) start(figures *figures, token func() string, level http.Handler, listen []string) {
	if o == nil {
		return
	}
	service := figures.service
	tcp, network := o.listener.Addr().(*net.TCPAddr)
	local := network && tcp.IP.IsLoopback()
	host, _ := os.Hostname()
	o.server = admin.New(admin.Options{Meter: figures.meter, Version: versionText(), Started: figures.started,
		State: figures.state, Host: host, Listen: listen, Waiting: service.Waiting, Locks: service.Locks, Why: service.Why,
		MayRelease: service.MayRelease, Release: service.ReleaseShown, Explain: service.Explain, Token: token,
		Refusals: refusals(o.cfg, service), Local: local, Unix: !network, LogLevel: level, Log: o.log})
	o.wg.Go(func() {
		if err := o.server.Serve(o.listener); err != nil {
			o.log.Error("admin-listen ended", zap.Error(err))
		}
	})
	o.log.Info("operators are served", zap.Stringer("admin_listen", o.listener.Addr()),
		zap.Bool("tls", o.cfg.AdminListen.TLS), zap.Bool("token", token() != ""))
	if network && !local && token() == "" {
		o.log.Warn("every client of admin-listen sees the locks and may change the log-level",
			zap.Stringer("admin_listen", o.listener.Addr()))
	}
}

// close stops serving, within a second. It may be called without start.
func (o *operatorServer) close(ctx context.Context) {
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
	o.wg.Wait()
}
