package main

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/conf"
)

// TestWarnFiles: one line, with the numbers, as soon as one file is missing.
func TestWarnFiles(t *testing.T) {
	real := conf.Config{MaxClients: 100, Masters: make([]conf.Address, 3), Upstream: conf.Address{Addr: "h:1"}}
	for name, c := range map[string]struct {
		cfg     conf.Config
		allowed uint64
		needed  uint64 // 0: no warning
	}{
		"enough":                {real, 244, 0},
		"one short":             {real, 243, 244},
		"memory":                {conf.Config{MaxClients: 100}, 132, 0},
		"memory, one short":     {conf.Config{MaxClients: 100}, 131, 132},
		"no limit that is told": {real, 0, 0},
	} {
		core, logs := observer.New(zap.WarnLevel)
		warnFiles(c.cfg, c.allowed, zap.New(core))
		if got := logs.Len(); got != min(1, int(c.needed)) {
			t.Errorf("%s: %d lines", name, got)
			continue
		}
		for _, line := range logs.All() {
			if m := line.ContextMap(); m["files_needed"] != c.needed || m["files_allowed"] != c.allowed || m["max_clients"] != int64(100) {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
	if n := maxFiles(); n < 64 {
		t.Errorf("this process may open %d files, it says", n)
	}
}
