package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// valkeyInfo is the beginning of what Valkey 9.1.2 answers to INFO.
const valkeyInfo = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nvalkey_release_stage:ga\r\n" +
	"server_mode:MODE\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"

// TestValkeyInCluster: INFO of Valkey calls the mode of the server by another name.
func TestValkeyInCluster(t *testing.T) {
	for mode, want := range map[string]error{"standalone": nil, "cluster": ErrClusterMode, "sentinel": ErrSentinel} {
		t.Run(mode, func(t *testing.T) {
			var f ServerInfo
			f.ReadInfo(strings.ReplaceAll(valkeyInfo, "MODE", mode))
			if err := f.Refusal(); !errors.Is(err, want) {
				t.Errorf("%s: refused with %v, want %v", mode, err, want)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	for info, want := range map[string]error{
		"":                                    ErrNoRunID,
		"run_id:x\r\n":                        ErrNoRole,
		"run_id:x\r\nrole:slave\r\n":          ErrReplica,
		"run_id:x\r\nrole:master\r\nodd line": nil,
	} {
		t.Run(fmt.Sprintf("%q", info), func(t *testing.T) {
			var f ServerInfo
			f.ReadInfo(info)
			if err := f.Refusal(); !errors.Is(err, want) {
				t.Errorf("%q: refused with %v, want %v", info, err, want)
			}
		})
	}
}

// People see which server they run, not which Redis it is compatible with.
func TestSoftware(t *testing.T) {
	for info, want := range map[string]string{valkeyInfo: "valkey 9.1.2", "redis_version:7.0.15\r\n": "redis 7.0.15",
		"role:master\r\n": ""} {
		t.Run(want, func(t *testing.T) {
			var f ServerInfo
			f.ReadInfo(info)
			if got := f.Software(); got != want {
				t.Errorf("%q: %q, want %q", info, got, want)
			}
		})
	}
}

// INFO comes by sections, each with a reply of its own.
func TestInfoBySections(t *testing.T) {
	var f ServerInfo
	for _, section := range []string{
		"# Server\r\nrun_id:x\r\n", "# Memory\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n",
		"# Stats\r\nevicted_keys:3\r\n",
		"# Persistence\r\naof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:1\r\naof_last_write_status:ok\r\n",
		"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
	} {
		f.ReadInfo(section)
	}
	if want := (ServerInfo{RunID: "x", Limited: true, Policy: "allkeys-lru", Evicted: 3, AOF: true,
		RewriteScheduled: true, LastWriteOK: true, Role: "master",
		NoReplicas: true}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	if f.ReadInfo("maxmemory:0\r\n"); f.MayEvict() {
		t.Error("may evict without a limit")
	}
}

func TestDurableFacts(t *testing.T) {
	info := func(lines string) string {
		return "aof_enabled:1\r\naof_last_write_status:ok\r\nconnected_slaves:0\r\n" + lines
	}
	config := []string{"appendonly", "yes", "appendfsync", "always", "no-appendfsync-on-rewrite", "no"}
	var f ServerInfo
	f.ReadInfo(info(""))
	if f.Durable() {
		t.Error("durable before CONFIG was asked")
	}
	f.ReadConfig(config, true, false)
	if !f.Durable() || f.Perishable() {
		t.Errorf("not durable: %+v", f)
	}
	// CONFIG SET appendonly yes while a snapshot is written: no write goes to the file until the
	// rewrite that waits for it.
	f.ReadInfo(info("aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:1\r\n"))
	if f.Durable() {
		t.Error("durable while the first rewrite waits")
	}
	// An answer of CONFIG from before the file was switched off is no proof when it is on again.
	f.ReadInfo("aof_enabled:0\r\n")
	f.ReadInfo(info("aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n"))
	if f.Durable() {
		t.Error("durable before CONFIG was asked anew")
	}
	f.ReadConfig(nil, false, false)
	if f.Durable() || f.ConfigRefused {
		t.Errorf("CONFIG is given up after BUSY: %+v", f)
	}
	if f.ReadConfig(nil, false, true); !f.ConfigRefused {
		t.Error("asked again after NOPERM")
	}
	durable := ServerInfo{AOF: true, ConfigKnown: true, FsyncAlways: true, LastWriteOK: true, NoReplicas: true}
	for _, spoil := range []func(*ServerInfo){
		func(f *ServerInfo) { f.AOF = false }, func(f *ServerInfo) { f.ConfigKnown = false },
		func(f *ServerInfo) { f.FsyncAlways = false },
		func(f *ServerInfo) { f.LastWriteOK = false }, func(f *ServerInfo) { f.NoReplicas = false },
		func(f *ServerInfo) { f.Rewriting = true },
		func(f *ServerInfo) { f.RewriteScheduled = true },
	} {
		f := durable
		if spoil(&f); f.Durable() || !durable.Durable() {
			t.Errorf("%+v is durable", f)
		}
	}
}
