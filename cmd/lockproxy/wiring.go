package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/stat"
	"lockproxy/upstream"
)

// readyWait bounds how long the start waits for the masters and the upstream. It goes on without
// them: a master may join later, and until then the reply to LOCK gives the reason.
const readyWait = time.Second

// greetUpstream asks the upstream which commands it accepts without authentication. It refuses the
// start if other machines could use the upstream without a password of their own.
func greetUpstream(ctx context.Context, cfg conf.Config, up *upstream.Upstream, on openListeners,
	log *zap.Logger) error {
	name, open := on.openToOthers()
	wait := readyWait
	if open != nil && !cfg.AllowOpen {
		wait = cfg.UpstreamDialTimeout // the start depends on the answer
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	serves, err := up.ServesWithoutAuth(ctx)
	switch {
	case open != nil && err != nil && !cfg.AllowOpen:
		return fmt.Errorf("%s %s: cannot ask upstream %s whether it needs a password (%s); start it first, listen on "+
			"loopback, or set allow-open true", name, open, up.Name(), upstream.Reason(err))
	case open != nil && serves && !cfg.AllowOpen:
		return fmt.Errorf("%s %s lets other machines use upstream %s without a password of their own; give it a "+
			"password, listen on loopback, or set allow-open true", name, open, up.Name())
	case err != nil:
		log.Warn("upstream gives no answer", zap.String("upstream", up.Name()), zap.String("reason", upstream.Reason(err)))
	case open != nil && serves:
		log.Warn("other machines may use the upstream without a password", zap.Stringer("listen", open))
	}
	return nil
}

// masterMemory stores on the masters whether an upstream wants a password.
type masterMemory struct {
	masters *quorum.Quorum
	about   string // names the upstream
}

var _ upstream.Memory = masterMemory{}

// Keep stores value on the connected masters.
func (m masterMemory) Keep(ctx context.Context, value string) {
	m.masters.Remember(ctx, "upstream", m.about, value)
}

// Recall returns what each master has stored.
func (m masterMemory) Recall(ctx context.Context) []string {
	return m.masters.Recall(ctx, "upstream", m.about)
}

// upstreamID names the upstream for all proxies of the masters, without credentials. A loopback
// address may be another server elsewhere, so it gets the name of the machine, unless the operator
// has named the server.
func upstreamID(a conf.Address, machine string) string {
	switch {
	case a.Sentinel != "":
		return a.String()
	case a.Loopback() && a.ID == "":
		return machine + " " + a.Name()
	}
	return a.Name()
}

// openGate makes the gate of up. It shares the upstream's answers through the masters until end is
// called.
func openGate(ctx context.Context, cfg conf.Config, up *upstream.Upstream, q *quorum.Quorum) (gate *upstream.Gate,
	end func()) {
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

// embeddedWait is readyWait for the embedded masters, which are sure to come, if late on a busy
// machine.
const embeddedWait = 15 * time.Second

// waitReady waits a moment for the masters, so that the first LOCK after the ready line finds them
// connected.
func waitReady(ctx context.Context, q *quorum.Quorum, memory *embedded.Servers, log *zap.Logger) {
	wait := readyWait
	if memory != nil {
		wait = embeddedWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = q.WaitReady(ctx) // the log has the reason for each missing master
	if votes := stat.CountVotes(q.Masters()); !votes.Majority() {
		log.Warn("no majority of the masters can vote yet", zap.Int("voting", votes.Voting),
			zap.Int("needed", votes.Needed()))
	}
}

// lockPermission returns what asks the upstream who may lock, and tries it once. Nil without
// lock-acl: every client that has logged in may. The caller calls end.
func lockPermission(ctx context.Context, cfg conf.Config, files *files,
	log *zap.Logger) (permission commands.Rights, end func()) {
	if !cfg.LockACL {
		return nil, func() {}
	}
	if !cfg.LockACLUpstream.IsZero() {
		cfg.Upstream = cfg.LockACLUpstream
	}
	up := upstream.New(upstreamOptions(cfg, nil, files, log))
	asked := upstream.NewPermission(up)
	if err := asked.Check(ctx); err != nil {
		log.Warn("lock-acl: all locks are refused, because the upstream cannot be asked for permissions; that needs "+
			"Redis 7 or newer, and credentials that may run ACL DRYRUN",
			zap.String("upstream", up.Name()), zap.String("reason", upstream.Reason(err)))
	}
	return asked, func() { asked.Close() }
}

// follow follows the Sentinels of up, also after ctx, until end is called. It calls moved as
// Follow says.
func follow(ctx context.Context, up *upstream.Upstream, moved func(old context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { up.Follow(ctx, moved) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// proxyName returns the name of this proxy for operators: the machine and where clients connect.
func proxyName(on openListeners) string {
	host, _ := os.Hostname()
	return strings.TrimSpace(host + " " + on.main[0].Addr().String())
}

func names(listeners []net.Listener) []string {
	var names []string
	for _, listener := range listeners {
		names = append(names, listener.Addr().String())
	}
	return names
}
