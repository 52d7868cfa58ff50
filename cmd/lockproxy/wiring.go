package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/upstream"
)

// readyWait bounds how long the start waits for the masters and the upstream. It goes ahead without them: a
// master that comes later joins, and until then LOCK says what is missing.
const readyWait = time.Second

// greetUpstream learns what the upstream lets unauthenticated connections do, and refuses the start where other
// machines could use it without a password of their own.
func greetUpstream(ctx context.Context, cfg conf.Config, up *upstream.Upstream, listeners []net.Listener, log *zap.Logger) error {
	open := listen.OpenToOthers(listeners)
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
func waitReady(ctx context.Context, q *quorum.Quorum, memory *embedded.Servers, log *zap.Logger) {
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

// lockPermission asks the upstream who may lock, and tries that once. Nil without lock-acl: whoever
// has logged in may. The caller calls end.
func lockPermission(ctx context.Context, cfg conf.Config, files *files, log *zap.Logger) (permission commands.Permission, end func()) {
	if !cfg.LockACL {
		return nil, func() {}
	}
	if !cfg.LockACLUpstream.IsZero() {
		cfg.Upstream = cfg.LockACLUpstream
	}
	up := upstream.New(upstreamOptions(cfg, nil, files, log))
	asked := upstream.NewPermission(up)
	if err := asked.Check(ctx); err != nil {
		log.Warn("lock-acl: the upstream cannot be asked who may lock, so nobody may; it takes Redis 7 or newer, and credentials that may run ACL DRYRUN",
			zap.String("upstream", up.Name()), zap.String("reason", upstream.Reason(err)))
	}
	return asked, func() { asked.Close() }
}

// follow keeps up with the Sentinels of up, beyond the end of ctx, until end is called. moved is called as Follow says.
func follow(ctx context.Context, up *upstream.Upstream, moved func(old context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { up.Follow(ctx, moved) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func names(listeners []net.Listener) []string {
	var names []string
	for _, listener := range listeners {
		names = append(names, listener.Addr().String())
	}
	return names
}
