package main

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"lockproxy/admin"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/conf"
	"lockproxy/quorum"
)

// Open files that the proxy keeps free of clients.
const (
	// clientFiles is for one client: its own connection and one to the upstream.
	clientFiles = 2
	// masterFiles is for one master: the lane, two connections with subscriptions, one that
	// replaces another, and LOCKPROXY LOCKS.
	masterFiles = 4 + quorum.MaxScans
	// sentinelFiles is for one Sentinel: questions, announcements, and a connection that replaces
	// each.
	sentinelFiles = 4
	// listenerFiles is for one listener: itself, a client that is turned away, and one that an
	// event loop adopts.
	listenerFiles = 3
	// otherFiles is for the logs, the runtime, event loops, name lookups, questions to the
	// upstream, telemetry, files read at a reload, and some to spare.
	otherFiles = 32
	// leastClients is the smallest limit that a proxy starts with, unless max-clients is smaller.
	leastClients = 16
)

// reservedFiles returns how many of the allowed open files are not for clients.
func reservedFiles(cfg conf.Config, allowed uint64) uint64 {
	n := otherFiles + 2*runtime.GOMAXPROCS(0) // each event loop has one, and may be adopting a connection
	n += masterFiles * len(cfg.Masters)
	listeners := len(cfg.Listen) + len(cfg.AdoptListen)
	n += listenerFiles * listeners
	if cfg.ProxyProtocol {
		n += proxyHeaders(allowed) * listeners
	}
	if !cfg.AdminListen.IsZero() || cfg.Embedded() {
		n += listenerFiles + admin.MaxConnections
	}
	sentinels := len(cfg.Upstream.Sentinels())
	if cfg.LockACL { // asks over connections of its own
		sentinels += max(len(cfg.LockACLUpstream.Sentinels()), sentinels)
	}
	return uint64(n + sentinelFiles*sentinels)
}

// proxyHeaders returns how many connections to one listener may be without their PROXY header.
// These are not counted as clients yet.
func proxyHeaders(allowed uint64) int {
	if allowed == 0 {
		return listen.MaxHeaders
	}
	return int(min(listen.MaxHeaders, max(allowed/16, leastClients)))
}

// clientsThatFit returns max-clients, or how many clients fit into the allowed open files if those
// are fewer. allowed is 0 if it is not known.
func clientsThatFit(cfg conf.Config, allowed uint64) int {
	if allowed == 0 {
		return cfg.MaxClients
	}
	each := uint64(clientFiles)
	if cfg.Embedded() { // the upstream is reached without files
		each = 1
	}
	free := allowed - min(allowed, reservedFiles(cfg, allowed))
	return int(min(uint64(cfg.MaxClients), free/each))
}

// checkFiles returns an error if too few clients fit into the allowed open files. Go has raised
// the limit as far as it may.
func checkFiles(cfg conf.Config, allowed uint64) error {
	least := min(cfg.MaxClients, leastClients)
	fit := clientsThatFit(cfg, allowed)
	if fit >= least {
		return nil
	}
	return fmt.Errorf("the limit of %d open files, less %d for masters, listeners and operators, leaves room for %d "+
		"clients, "+
		"at least %d are needed: raise it (ulimit -n, LimitNOFILE)", allowed, reservedFiles(cfg, allowed), fit, least)
}

// clientLimit adapts max-clients to the limit on open files.
type clientLimit struct {
	log  *zap.Logger
	said [2]int // max-clients and the limit that were logged last
}

// of returns how many clients may be connected, at least 1. It logs when that is less than
// max-clients.
func (l *clientLimit) of(cfg conf.Config, allowed uint64) int {
	limit := max(clientsThatFit(cfg, allowed), 1)
	if now := [2]int{cfg.MaxClients, limit}; limit < cfg.MaxClients && now != l.said {
		l.said = now
		l.log.Warn("max-clients is lowered to what fits into the limit on open files: raise that (ulimit -n, "+
			"LimitNOFILE) or lower max-clients",
			zap.Int("max_clients", cfg.MaxClients), zap.Int("lowered_to", limit), zap.Uint64("files_allowed", allowed),
			zap.Uint64("files_reserved", reservedFiles(cfg, allowed)))
	}
	return limit
}
