package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/upstream"
)

// run is lockproxy from its arguments to its end. It returns when ctx is done and everything has come to rest, or
// with the error that kept it from starting or running on.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	cfg, err := conf.Load(args, environ)
	switch {
	case cfg.Action == conf.Help:
		_, err = io.WriteString(stdout, conf.Usage(toolUsage()))
		return err
	case cfg.Action == conf.Version:
		_, err = fmt.Fprintln(stdout, versionText())
		return err
	case err != nil:
		return settingsError(err)
	}
	files, err := openFiles(cfg)
	switch {
	case err != nil:
		return settingsError(err)
	case cfg.Action == conf.Check:
		return printCheck(stdout, cfg)
	}
	signal.Ignore(syscall.SIGPIPE) // a log that nobody reads any more is no reason to end
	logs, err := newLogs(stderr, cfg)
	if err != nil {
		return err
	}
	defer logs.close()
	log := logs.Logger

	reload := &reloader{args: args, environ: environ, cfg: cfg, files: files, log: logs}
	defer reload.onHangup()()

	listeners, err := listenAll(ctx, cfg, files, log)
	if err != nil {
		return err
	}
	var memory *embedded
	if cfg.Embedded() {
		if memory, err = newEmbedded(log); err != nil {
			closeAll(listeners)
			return err
		}
		defer memory.Close()
		writeNotice(logs.lines, listeners[0])
	}
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	warnFiles(cfg, maxFiles(), log)
	return serve(ctx, reload, memory, listeners, logs)
}

// settingsError puts each fault on a line of its own, so that all can be mended at once.
func settingsError(err error) error {
	return errors.New("settings:\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

func printCheck(w io.Writer, cfg conf.Config) error {
	for _, warning := range cfg.Warnings() {
		fmt.Fprintln(w, "warning:", warning)
	}
	_, err := fmt.Fprintln(w, "the settings are valid")
	return err
}

// serve connects the parts and runs them until ctx is done. It closes the listeners.
func serve(ctx context.Context, reload *reloader, memory *embedded, listeners []net.Listener, logs *logs) error {
	log := logs.Logger
	cfg, files := reload.config(), reload.files
	defer keepHeapRoom()()
	defer closeAll(listeners)
	operators, err := listenOperators(ctx, cfg, files, log)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		operators.close(ctx)
	}()
	up := upstream.New(upstreamOptions(cfg, memory, files, log))
	var server *resp.Server
	serving := make(chan struct{}) // closed when server is set
	defer follow(ctx, up, func(old context.Context) {
		select {
		case <-serving:
		case <-old.Done():
			select {
			case <-serving:
			default:
				return
			}
		}
		server.Retire(old)
	})()
	if err := greetUpstream(ctx, cfg, up, listeners, log); err != nil {
		return err
	}
	loops := resp.NewLoops()
	defer loops.Close() // behind everything that they watch
	masters := quorumOptions(cfg, memory, files, log)
	masters.Adopt = adoptBy(loops)
	q, err := quorum.New(masters)
	if err != nil {
		return fmt.Errorf("masters: %w", err)
	}
	loops.OnTurnEnd(q.Flush)
	waitReady(ctx, q, memory, log)
	gate, closeGate := openGate(ctx, cfg, up, q)
	defer closeGate()

	mux := redcon.NewServeMux()
	options := commands.Options{
		Locker: q, Gate: gate, KeyPrefix: cfg.KeyPrefix, MinTTL: cfg.MinTTL, MaxTTL: cfg.MaxTTL,
		MaxWaiters: cfg.MaxWaiters, SessionMaxHold: cfg.SessionMaxHold, SessionLockDelay: cfg.SessionLockDelay, SessionTimeout: cfg.SessionTimeout,
		ShowMasters: cfg.ShowMasters, AdminCommands: cfg.AdminCommands, Version: strings.TrimPrefix(versionText(), "lockproxy "),
		Connections: func() int { return server.Connections() }, Reason: upstream.Reason, Done: operators.done(logs.audit), Log: log,
	}
	if permission := lockPermission(ctx, cfg, files, log); permission != nil {
		defer permission.Close()
		options.Permission = permission
	}
	service := commands.New(options)
	service.Register(mux)
	server = resp.NewServer(resp.Options{
		Handler: mux, Begin: service.Begin, Loops: loops, Dial: operators.dial(up.Dial), DialReason: upstream.Reason, UpstreamName: up.Name(), UpstreamLogin: up.Trusted(), UpstreamUser: up.User(),
		SlowClientTimeout: cfg.SlowClientTimeout, Timed: operators.timed(),
		AskUser: cfg.LockACL || cfg.AuditLog != "", Facts: relayFacts(up), Reencode: memory != nil, MaxClients: cfg.MaxClients, Log: log,
	})
	close(serving)
	reload.attach(func(cfg conf.Config) {
		service.Change(tunable(cfg))
		server.SetMaxClients(cfg.MaxClients)
	})
	operators.start(ctx, up, service, server, files.adminToken, logs.level)
	log.Info("ready", zap.Strings("listen", names(listeners)), zap.String("upstream", up.Name()),
		zap.Int("masters", max(len(cfg.Masters), len(memory.all()))), zap.Any("settings", cfg.Values()))
	reload.tellReady()
	defer feedWatchdog(func() { server.Connections() }, log)()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listeners...) }()
	var serveErr error
	select {
	case <-ctx.Done():
		log.Info("ending", zap.NamedError("cause", context.Cause(ctx)), zap.Int("clients", server.Connections()))
	case serveErr = <-failed:
		log.Error("serving ended", zap.Error(serveErr))
		failed <- serveErr
	}
	notifyStopping()
	end(ctx, reload.config().DrainTimeout, server, service, q, log)
	<-failed
	log.Info("ended")
	return serveErr
}

// end brings everything to rest within drain: no new connections, running commands and their connections, then
// the releases that are still owed, then the lanes.
func end(ctx context.Context, drain time.Duration, server *resp.Server, service *commands.Service, q *quorum.Quorum, log *zap.Logger) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), drain, errors.New("drain-timeout passed"))
	defer cancel()
	// What clients take of the time must leave some for the releases.
	clients, cancelClients := context.WithTimeoutCause(ctx, drain-min(drain/10, time.Second), errors.New("drain-timeout passed"))
	defer cancelClients()
	service.Drain()
	if err := server.Shutdown(clients); err != nil {
		log.Warn("connections were cut off", zap.Error(err))
	}
	service.Close()
	if err := q.Close(ctx); err != nil {
		log.Warn("releases were left to their ttl", zap.Error(err))
	}
}
