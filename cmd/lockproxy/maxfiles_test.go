package main

import (
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/admin"
	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/conf"
)

// TestOpenFilesLimitClients: clients share the remaining open files, two each, and one log line
// reports each new pair of numbers.
func TestOpenFilesLimitClients(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	limit := clientLimit{log: zap.New(core)}
	cfg := conf.Config{MaxClients: 100, Masters: make([]conf.Address, 3), Upstream: conf.Address{Addr: "h:1"},
		Listen: make([]conf.Address, 1)}
	reserved := reservedFiles(cfg, 1000)
	want := func(what string, allowed uint64, clients, lines int) {
		t.Helper()
		if got := limit.of(cfg, allowed); got != clients || logs.Len() != lines {
			t.Errorf("%s: %d clients and %d lines, want %d and %d", what, got, logs.Len(), clients, lines)
		}
	}
	want("enough", reserved+200, 100, 0)
	want("one short", reserved+199, 99, 1)
	want("the same again", reserved+199, 99, 1)
	line := logs.All()[0].ContextMap()
	if line["max_clients"] != int64(100) || line["lowered_to"] != int64(99) || line["files_allowed"] != reserved+199 ||
		line["files_reserved"] != reserved {
		t.Errorf("the line says %v", line)
	}
	want("less", reserved+50, 25, 2)
	cfg.MaxClients = 200
	want("a reload", reserved+50, 25, 3)
	want("none left", reserved, 1, 4)
	want("a limit that is not known", 0, 200, 4)
	cfg.Upstream = conf.Address{}
	cfg.Masters = nil
	if want := uint64(listenerFiles + admin.MaxConnections); reservedFiles(cfg, 1000)+3*masterFiles != reserved+want {
		t.Errorf("%d files reserved in memory, %d before servers", reservedFiles(cfg, 1000), reserved)
	}
	want("servers in memory", reservedFiles(cfg, 1000)+50, 50, 5)
}

// TestSettingsReserveFiles: what each setting adds.
func TestSettingsReserveFiles(t *testing.T) {
	base := conf.Config{Upstream: conf.Address{Addr: "h:1"}, Listen: make([]conf.Address, 2)}
	sentinels := conf.Address{Addr: "a:1,b:1,c:1", Sentinel: "m"}
	for name, c := range map[string]struct {
		change  func(c *conf.Config)
		allowed uint64
		more    int
	}{
		"masters": {func(c *conf.Config) { c.Masters = make([]conf.Address, 5) }, 0, 5 * masterFiles},
		"admin-listen": {func(c *conf.Config) { c.AdminListen = conf.Address{Addr: "h:2"} }, 0,
			listenerFiles + admin.MaxConnections},
		"adopt-listen": {func(c *conf.Config) { c.AdoptListen = make([]conf.Address, 2) }, 0, 2 * listenerFiles},
		"adopt-listen, proxy-protocol": {func(c *conf.Config) {
			c.AdoptListen, c.ProxyProtocol = make([]conf.Address, 1), true
		}, 1 << 20, listenerFiles + 3*listen.MaxHeaders},
		"sentinels":           {func(c *conf.Config) { c.Upstream = sentinels }, 0, 3 * sentinelFiles},
		"sentinels, lock-acl": {func(c *conf.Config) { c.Upstream, c.LockACL = sentinels, true }, 0, 6 * sentinelFiles},
		"proxy-protocol":      {func(c *conf.Config) { c.ProxyProtocol = true }, 1 << 20, 2 * listen.MaxHeaders},
		"with few files":      {func(c *conf.Config) { c.ProxyProtocol = true }, 1600, 2 * 100},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			c.change(&cfg)
			if got := int(reservedFiles(cfg, c.allowed) - reservedFiles(base, c.allowed)); got != c.more {
				t.Errorf("%s: %d files more, want %d", name, got, c.more)
			}
		})
	}
}

// TestStartNeedsFilesForClients: a proxy starts with room for 16 clients, or for all of
// max-clients.
func TestStartNeedsFilesForClients(t *testing.T) {
	cfg := conf.Config{MaxClients: 100, Upstream: conf.Address{Addr: "h:1"}}
	reserved := reservedFiles(cfg, 0)
	for _, c := range []struct {
		maxClients int
		allowed    uint64
		ok         bool
	}{
		{100, reserved + 32, true}, {100, reserved + 31, false}, {3, reserved + 6, true}, {3, reserved + 5, false},
		{100, 10, false}, {100, 0, true},
	} {
		t.Run(fmt.Sprintf("max-clients=%d, files=%d", c.maxClients, c.allowed), func(t *testing.T) {
			cfg.MaxClients = c.maxClients
			if err := checkFiles(cfg, c.allowed); (err == nil) != c.ok {
				t.Errorf("max-clients %d, %d files: %v", c.maxClients, c.allowed, err)
			}
		})
	}
	if n := maxFiles(); n < 64 {
		t.Errorf("this process may open %d files, it says", n)
	}
}
