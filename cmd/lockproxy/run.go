package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/cmd/lockproxy/internal/logs"
	"lockproxy/cmd/lockproxy/internal/telemetry"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/upstream"
)

// run runs lockproxy. It returns when ctx is done and every part has stopped, or with the error
// that kept it from running.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	cfg, err := conf.Load(args, environ)
	switch {
	case cfg.Action == conf.Help:
		_, err = io.WriteString(stdout, conf.Usage(tool.Usage()))
		return err
	case cfg.Action == conf.Version:
		_, err = fmt.Fprintln(stdout, "lockproxy", versionText())
		return err
	case err != nil:
		return settingsError(err)
	}
	files, err := openFiles(cfg)
	if err = errors.Join(err, logs.CheckAudit(cfg.AuditLog), checkAdoptKeys(cfg)); err != nil {
		return settingsError(err)
	}
	if cfg.Action == conf.Check {
		return printCheck(stdout, cfg)
	}
	if err := checkFiles(cfg, maxFiles()); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // losing the reader of the log must not end the process
	logs, err := logs.New(stderr, logOptions(cfg))
	if err != nil {
		return err
	}
	defer logs.Close()
	log := logs.Logger

	reload := &reloader{args: args, environ: environ, cfg: cfg, files: files, log: logs}
	defer reload.onHangup()()

	opened, err := listen.All(ctx, listenOptions(cfg, files), log)
	if err != nil {
		return err
	}
	on := openListeners{main: opened[:len(cfg.Listen)], adopt: opened[len(cfg.Listen):]}
	var memory *embedded.Servers
	if cfg.Embedded() {
		if memory, err = embedded.New(log); err != nil {
			listen.CloseAll(opened)
			return err
		}
		defer memory.Close()
	}
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	return serve(ctx, reload, memory, on, logs)
}

// settingsError puts each fault on a line of its own.
func settingsError(err error) error {
	return errors.New("settings:\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

func printCheck(w io.Writer, cfg conf.Config) error {
	for _, warning := range cfg.Warnings() {
		fmt.Fprintln(w, "warning:", warning)
	}
	if len(cfg.AdoptListen) > 0 {
		fmt.Fprintf(w, "lock listener: %s, adopt-keys %s\n", cfg.Values()["adopt-listen"], cfg.LockKeys())
	}
	_, err := fmt.Fprintln(w, "the settings are valid")
	return err
}

// serve makes the parts, wires them and runs them until ctx is done. It closes the listeners.
func serve(ctx context.Context, reload *reloader, memory *embedded.Servers, on openListeners,
	logs *logs.Logs) error {
	log, cfg, files := logs.Logger, reload.config(), reload.files
	defer keepHeapRoom()()
	defer listen.CloseAll(on.all())
	operators, err := openOperators(ctx, cfg, memory, files, log)
	if err != nil {
		return err
	}
	sent := telemetry.New(os.Getenv, version, log)
	defer sent.Close(ctx)
	figures := newFigures(cfg, operators != nil || sent.WantsMetrics())
	defer figures.close()
	defer operators.close(ctx)

	relay := newRelay()
	up := upstream.New(upstreamOptions(cfg, memory, files, log))
	defer follow(ctx, up, relay.retire)()
	if err := greetUpstream(ctx, cfg, up, on, log); err != nil {
		return err
	}

	loops := resp.NewLoops()
	defer loops.Close() // after all connections that they read
	q, err := quorum.New(quorumOptions(cfg, memory, files, loops, log))
	if err != nil {
		return fmt.Errorf("masters: %w", err)
	}
	loops.AfterBatch(q.Flush)
	waitReady(ctx, q, memory, log)
	gate, closeGate := openGate(ctx, cfg, up, q)
	defer closeGate()
	permission, closePermission := lockPermission(ctx, cfg, files, log)
	defer closePermission()

	service := commands.New(commandOptions(cfg, up, q, gate, permission, relay, figures, proxyName(on),
		figures.done(logs.Audit, sent), log))
	relay.start(newServers(relayOptions(cfg, up, q, service, loops, figures, sent, log), cfg, service, relay))
	clients := clientLimit{log: log}
	reload.attach(func(cfg conf.Config) {
		service.Change(tunable(cfg))
		relay.setMaxClients(clients.of(cfg, maxFiles()))
	})
	figures.start(ctx, up, service, relay)
	operators.start(figures, files.adminToken, logs.LevelHandler(), names(on.all()))
	sent.Start(figures.registry)
	logAdopt(cfg, names(on.adopt), log)
	log.Info("ready", zap.Strings("listen", names(on.main)), zap.String("upstream", up.Name()),
		zap.Int("masters", max(len(cfg.Masters), len(memory.Masters()))), zap.Any("settings", cfg.Changed()))
	if memory != nil { // last, so that it is not scrolled away
		embedded.WriteNotice(logs.Lines, on.main[0].Addr(), operators.page())
	}
	reload.notifyReady()
	defer feedWatchdog(func() { relay.connections() }, log)()
	return relay.serve(ctx, on, log, func() {
		end(ctx, reload.config().DrainTimeout, relay, service, q, sent, log)
	})
}

// end stops everything within drain: first new connections, then running commands and their
// connections, then repairs, then the lanes. Telemetry of all that gets what time is left.
func end(ctx context.Context, drain time.Duration, relay *relay, service *commands.Service, q *quorum.Quorum,
	sent *telemetry.Telemetry, log *zap.Logger) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), drain, errors.New("drain-timeout passed"))
	defer cancel()
	// Clients must leave some time for the releases.
	clients, cancelClients := context.WithTimeoutCause(ctx, drain-min(drain/10, time.Second),
		errors.New("drain-timeout passed"))
	defer cancelClients()
	service.Drain()
	if err := relay.shutdown(clients); err != nil {
		log.Warn("connections were cut off", zap.Error(err))
	}
	service.Close()
	if err := q.Close(ctx); err != nil {
		log.Warn("releases were left to their ttl", zap.Error(err))
	}
	sent.Close(ctx)
}
