package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/upstream"
)

// readyWait bounds how long the start waits for the masters and the upstream. It goes ahead without them: a
// master that comes later joins, and until then LOCK says what is missing.
const readyWait = time.Second

// greetUpstream learns what the upstream lets unauthenticated connections do, and refuses the start where other
// machines could use it without a password of their own.
func greetUpstream(ctx context.Context, cfg conf.Config, up *upstream.Upstream, listeners []net.Listener, log *zap.Logger) error {
	open := openToOthers(listeners)
	wait := readyWait
	if open != nil && !cfg.AllowOpen {
		wait = cfg.UpstreamDialTimeout // the start depends on the answer
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	serves, err := up.ServesWithoutAuth(ctx)
	switch {
	case open != nil && err != nil && !cfg.AllowOpen:
		return fmt.Errorf("listen %s: cannot ask upstream %s whether it needs a password (%s); start it first, listen on loopback, "+
			"or set allow-open true", open, up.Name(), upstream.Reason(err))
	case open != nil && serves && !cfg.AllowOpen:
		return fmt.Errorf("listen %s lets other machines use upstream %s without a password of their own; give it a password, "+
			"listen on loopback, or set allow-open true", open, up.Name())
	case err != nil:
		log.Warn("upstream gives no answer", zap.String("upstream", up.Name()), zap.String("reason", upstream.Reason(err)))
	case open != nil && serves:
		log.Warn("other machines may use the upstream without a password", zap.Stringer("listen", open))
	}
	return nil
}

// masterMemory keeps with the masters whether an upstream wants a password.
type masterMemory struct {
	masters *quorum.Quorum
	about   string // which upstream
}

var _ upstream.Memory = masterMemory{}

// Keep gives value to the masters that are connected.
func (m masterMemory) Keep(ctx context.Context, value string) {
	m.masters.Remember(ctx, "upstream", m.about, value)
}

// Recall is what each master has.
func (m masterMemory) Recall(ctx context.Context) []string {
	return m.masters.Recall(ctx, "upstream", m.about)
}

// upstreamID names the upstream for all proxies of the masters, without credentials. What only this machine can reach may be another server elsewhere,
// so the name of the machine goes with it, unless the operator has given the server a name.
func upstreamID(a conf.Address, machine string) string {
	switch {
	case a.Sentinel != "":
		return a.String()
	case a.Loopback() && a.ID == "":
		return machine + " " + a.Name()
	}
	return a.Name()
}

// openGate makes the gate of up, which learns and tells with the masters until end is called.
func openGate(ctx context.Context, cfg conf.Config, up *upstream.Upstream, q *quorum.Quorum) (gate *upstream.Gate, end func()) {
	machine, _ := os.Hostname()
	gate = upstream.NewGate(up, masterMemory{q, upstreamID(cfg.Upstream, machine)})
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { gate.Run(ctx) })
	return gate, func() {
		cancel()
		wg.Wait()
	}
}

// embeddedWait is readyWait for the embedded masters, which are sure to come: a busy machine may take its time.
const embeddedWait = 15 * time.Second

// waitReady gives the masters a moment, so that the first LOCK after the ready line finds them connected.
func waitReady(ctx context.Context, q *quorum.Quorum, memory *embedded, log *zap.Logger) {
	wait := readyWait
	if memory != nil {
		wait = embeddedWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := q.WaitReady(ctx); err != nil {
		log.Warn("no majority of the masters can vote yet", zap.Error(err))
	}
}

func upstreamOptions(cfg conf.Config, memory *embedded, files *files, log *zap.Logger) upstream.Options {
	if memory != nil {
		return upstream.Options{Name: memory.upstream.name, Addr: memory.upstream.name, Dial: memory.upstream.Dial,
			DialTimeout: cfg.UpstreamDialTimeout}
	}
	a := cfg.Upstream
	opts := upstream.Options{Name: a.Name(), Network: a.Network, Addr: a.Addr, User: a.User, Password: a.Password, DB: a.DB,
		TLS: files.clientTLS(a, "upstream", cfg.UpstreamTLS), DialTimeout: cfg.UpstreamDialTimeout, Log: log}
	if a.Password == "" {
		opts.Login = files.login("upstream", cfg.UpstreamLogin)
	}
	if a.Sentinel != "" {
		opts.Sentinel = &upstream.SentinelOptions{Master: a.Sentinel, Addrs: a.Sentinels(), Login: files.login("sentinel", cfg.SentinelLogin)}
	}
	return opts
}

// relayFacts returns what the relay is to know of the upstream, by the last known answers.
func relayFacts(up *upstream.Upstream) func() resp.Facts {
	return func() resp.Facts {
		facts := up.LastFacts()
		return resp.Facts{AuthRequired: facts.AuthRequired, GuestsLimited: facts.GuestsLimited && !up.Trusted(), Resets: facts.Resets}
	}
}

// lockPermission makes what asks the upstream who may lock, and tries it: a warning says why nobody may, as long as that is
// so. Nil without lock-acl. The caller closes it.
func lockPermission(ctx context.Context, cfg conf.Config, files *files, log *zap.Logger) *upstream.Permission {
	if !cfg.LockACL {
		return nil
	}
	if !cfg.LockACLUpstream.IsZero() {
		cfg.Upstream = cfg.LockACLUpstream
	}
	up := upstream.New(upstreamOptions(cfg, nil, files, log))
	permission := upstream.NewPermission(up)
	if err := permission.Check(ctx); err != nil {
		log.Warn("lock-acl: the upstream cannot be asked who may lock, so nobody may; it takes Redis 7 or newer, and credentials that may run ACL DRYRUN",
			zap.String("upstream", up.Name()), zap.String("reason", upstream.Reason(err)))
	}
	return permission
}

// tunable are the settings of the commands that can change while they run.
func tunable(cfg conf.Config) commands.Tunable {
	return commands.Tunable{MinTTL: cfg.MinTTL, MaxWaiters: cfg.MaxWaiters, SessionMaxHold: cfg.SessionMaxHold, SessionLockDelay: cfg.SessionLockDelay,
		SessionTimeout: cfg.SessionTimeout, ShowMasters: cfg.ShowMasters, AdminCommands: cfg.AdminCommands}
}

// guards are the words of restart-guard.
var guards = map[string]quorum.Guard{"on": quorum.GuardOn, "strict": quorum.GuardStrict, "off": quorum.GuardOff}

func quorumOptions(cfg conf.Config, memory *embedded, files *files, log *zap.Logger) quorum.Options {
	opts := quorum.Options{KeyPrefix: cfg.KeyPrefix, MasterTimeout: cfg.MasterTimeout, MaxTTL: cfg.MaxTTL,
		Fencing: cfg.Fencing, Guard: guards[cfg.RestartGuard], AllowEviction: cfg.AllowEviction, Log: log}
	for _, a := range cfg.Masters {
		m := quorum.MasterOptions{Name: a.Name(), ID: a.ID, Network: a.Network, Addr: a.Addr,
			User: a.User, Password: a.Password, DB: a.DB, TLS: files.clientTLS(a, "masters", cfg.MastersTLS)}
		if a.Password == "" {
			m.Login = files.login("masters", cfg.MastersLogin)
		}
		opts.Masters = append(opts.Masters, m)
	}
	for _, m := range memory.all() {
		opts.Masters = append(opts.Masters, quorum.MasterOptions{Name: m.name, Network: "tcp", Addr: m.name, Dial: m.Dial})
	}
	return opts
}

// adoptBy lets the loops that serve the clients read the replies of masters.
func adoptBy(loops *resp.Loops) func(net.Conn) (quorum.Polled, bool) {
	return func(conn net.Conn) (quorum.Polled, bool) { return loops.Adopt(conn) }
}

func names(listeners []net.Listener) []string {
	var names []string
	for _, listener := range listeners {
		names = append(names, listener.Addr().String())
	}
	return names
}
