package main

import (
	"net"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/cmd/lockproxy/internal/logs"
	"lockproxy/cmd/lockproxy/internal/telemetry"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
	"lockproxy/upstream"
)

// The options of each part, made from the settings.

func logOptions(cfg conf.Config) logs.Options {
	return logs.Options{Level: cfg.LogLevel, Format: cfg.LogFormat, Audit: cfg.AuditLog}
}

func listenOptions(cfg conf.Config, files *files) listen.Options {
	return listen.Options{Addresses: cfg.Listen, Adopt: cfg.AdoptListen, UnixMode: cfg.UnixMode, ReusePort: cfg.ReusePort,
		ProxyProtocol: cfg.ProxyProtocol, Headers: proxyHeaders(maxFiles()), TLS: files.listenTLS()}
}

func upstreamOptions(cfg conf.Config, memory *embedded.Servers, files *files, log *zap.Logger) upstream.Options {
	if memory != nil {
		return upstream.Options{Name: memory.Upstream.Name, Addr: memory.Upstream.Name, Dial: memory.Upstream.Dial,
			DialTimeout: cfg.UpstreamDialTimeout}
	}
	a := cfg.Upstream
	opts := upstream.Options{Name: a.Name(), Network: a.Network, Addr: a.Addr, User: a.User, Password: a.Password,
		DB:  a.DB,
		TLS: files.clientTLS(a, "upstream", cfg.UpstreamTLS), DialTimeout: cfg.UpstreamDialTimeout, Log: log}
	if a.Password == "" {
		opts.Login = files.login("upstream", cfg.UpstreamLogin)
	}
	if a.Sentinel != "" {
		opts.Sentinel = &upstream.SentinelOptions{Master: a.Sentinel, Addrs: a.Sentinels(),
			Login: files.login("sentinel", cfg.SentinelLogin)}
	}
	return opts
}

// guards are the values of restart-guard.
var guards = map[string]quorum.GuardMode{"on": quorum.GuardOn, "strict": quorum.GuardStrict, "off": quorum.GuardOff}

// embeddedTimeout is the least master-timeout before masters in memory.
const embeddedTimeout = time.Second

func quorumOptions(cfg conf.Config, memory *embedded.Servers, files *files, loops *resp.Loops,
	log *zap.Logger) quorum.Options {
	opts := quorum.Options{KeyPrefix: cfg.KeyPrefix, MasterTimeout: cfg.MasterTimeout, MaxTTL: cfg.MaxTTL,
		QueueTimeout: cfg.QueueTimeout,
		Adopt:        adoptBy(loops), Fencing: cfg.Fencing, Guard: guards[cfg.RestartGuard],
		AllowEviction: cfg.AllowEviction, Log: log}
	for _, a := range cfg.Masters {
		m := quorum.MasterOptions{Name: a.Name(), ID: a.ID, Network: a.Network, Addr: a.Addr,
			User: a.User, Password: a.Password, DB: a.DB, TLS: files.clientTLS(a, "masters", cfg.MastersTLS)}
		if a.Password == "" {
			m.Login = files.login("masters", cfg.MastersLogin)
		}
		opts.Masters = append(opts.Masters, m)
	}
	if memory != nil { // none of them is ever silent, but the machine may be busy
		opts.MasterTimeout = max(opts.MasterTimeout, embeddedTimeout)
	}
	for _, m := range memory.Masters() {
		opts.Masters = append(opts.Masters, quorum.MasterOptions{Name: m.Name, Network: "tcp", Addr: m.Name, Dial: m.Dial})
	}
	return opts
}

// adoptBy makes the loops that serve clients read the masters' replies, too.
func adoptBy(loops *resp.Loops) func(net.Conn) (quorum.PolledConn, bool) {
	return func(conn net.Conn) (quorum.PolledConn, bool) { return loops.Adopt(conn) }
}

func commandOptions(cfg conf.Config, up *upstream.Upstream, q *quorum.Quorum, gate *upstream.Gate,
	permission commands.Rights, relay *relay, figures *figures, name string,
	done func(stat.Event), log *zap.Logger) commands.Options {
	return commands.Options{Locker: q, Watcher: q, Inspector: q, Gate: gate, Permission: permission,
		Adopt: adoptOptions(cfg, q, up), KeyPrefix: cfg.KeyPrefix, MaxTTL: cfg.MaxTTL,
		Tunable: tunable(cfg), Name: name, Holders: figures.holders(), Version: versionText(),
		Connections: relay.connections, MaxClients: relay.maxClients,
		Reason: upstream.Reason, Report: done, Log: log}
}

// tunable returns the options of the commands that can change while they run.
func tunable(cfg conf.Config) commands.Tunable {
	return commands.Tunable{MinTTL: cfg.MinTTL, MaxWaiters: cfg.MaxWaiters, SessionMaxHold: cfg.SessionMaxHold,
		SessionLockDelay: cfg.SessionLockDelay,
		SessionTimeout:   cfg.SessionTimeout, ShowMasters: cfg.ShowMasters, AdminCommands: cfg.AdminCommands}
}

func relayOptions(cfg conf.Config, up *upstream.Upstream, q *quorum.Quorum, service *commands.Service,
	loops *resp.Loops,
	figures *figures, sent *telemetry.Telemetry, log *zap.Logger) resp.Options {
	mux := redcon.NewServeMux()
	service.Register(mux)
	var hints []resp.Hint
	if cfg.CommandHints {
		hints = commands.Hints()
	}
	return resp.Options{Handler: mux, Begin: service.Begin, Hints: hints, Loops: loops, Dial: figures.dial(up.Dial),
		DialReason: upstream.Reason, UpstreamName: up.Name(), UpstreamLogin: up.Trusted(), UpstreamUser: up.User(),
		Facts: relayFacts(up), SlowClientTimeout: cfg.SlowClientTimeout,
		MaxClients: cfg.MaxClients,
		AskUser:    cfg.LockACL || cfg.AuditLog != "off" || sent.WantsSpans(), Timed: figures.timed(), Log: log}
}

// relayFacts returns the last known facts about the upstream that the relay needs.
func relayFacts(up *upstream.Upstream) func() resp.Facts {
	return func() resp.Facts {
		facts := up.LastFacts()
		return resp.Facts{AuthRequired: facts.AuthRequired, GuestsLimited: facts.GuestsLimited && !up.Trusted(),
			Resets: facts.Resets}
	}
}
