package main

import (
	"go.uber.org/zap"

	"lockproxy/conf"
)

const (
	// clientFiles is how many files a client takes: its own connection and, once needed, one to the upstream.
	clientFiles = 2
	// masterFiles is how many a master may take: the lane, the connection that hears releases, and those of LOCKPROXY LOCKS.
	masterFiles = 4
	// otherFiles are left for listeners, Sentinels, questions to the upstream and what the runtime opens.
	otherFiles = 32
)

// warnFiles says at the start if max-clients do not fit into the limit that the system sets this process, which Go has raised as far as it
// may be. Beyond it the proxy goes on, and connections wait to be accepted. An allowed of 0 is not known.
func warnFiles(cfg conf.Config, allowed uint64, log *zap.Logger) {
	perClient := uint64(clientFiles)
	if cfg.Embedded() { // its servers are reached without
		perClient = 1
	}
	needed := perClient*uint64(cfg.MaxClients) + masterFiles*uint64(len(cfg.Masters)) + otherFiles
	if allowed == 0 || needed <= allowed {
		return
	}
	log.Warn("max-clients do not fit into the limit on open files: raise it (ulimit -n, LimitNOFILE) or lower max-clients",
		zap.Int("max_clients", cfg.MaxClients), zap.Uint64("files_needed", needed), zap.Uint64("files_allowed", allowed))
}
