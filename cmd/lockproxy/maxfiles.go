package main

import (
	"go.uber.org/zap"

	"lockproxy/conf"
)

const (
	// clientFiles is how many files a client needs: its own connection and one to the upstream.
	clientFiles = 2
	// masterFiles is how many files a master may need: for the lane, the subscriptions and
	// LOCKPROXY LOCKS.
	masterFiles = 4
	// otherFiles are for listeners, Sentinels, questions to the upstream and the Go runtime.
	otherFiles = 32
)

// warnFiles warns at the start if max-clients exceed the limit on open files, which Go has raised
// as far as it may. Beyond the limit, connections wait to be accepted. allowed is 0 if the limit
// is not known.
func warnFiles(cfg conf.Config, allowed uint64, log *zap.Logger) {
	perClient := uint64(clientFiles)
	if cfg.Embedded() { // it is reached without files
		perClient = 1
	}
	needed := perClient*uint64(cfg.MaxClients) + masterFiles*uint64(len(cfg.Masters)) + otherFiles
	if allowed == 0 || needed <= allowed {
		return
	}
	log.Warn("max-clients do not fit into the limit on open files: raise it (ulimit -n, LimitNOFILE) or lower max-clients",
		zap.Int("max_clients", cfg.MaxClients), zap.Uint64("files_needed", needed), zap.Uint64("files_allowed", allowed))
}
