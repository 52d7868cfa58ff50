package quorum

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// valkeyInfo is the beginning of what Valkey 9.1.2 answers to INFO.
const valkeyInfo = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nvalkey_release_stage:ga\r\n" +
	"server_mode:MODE\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"

// TestValkeyInCluster: INFO of Valkey calls the mode of the server by another name.
func TestValkeyInCluster(t *testing.T) {
	for mode, want := range map[string]error{"standalone": nil, "cluster": errClusterMode, "sentinel": errNotRedis} {
		var f facts
		f.readInfo(strings.ReplaceAll(valkeyInfo, "MODE", mode))
		if err := f.refusal(); !errors.Is(err, want) {
			t.Errorf("%s: refused with %v, want %v", mode, err, want)
		}
	}
}

// TestDescribeNamesTheServer: people see which server they run, not which Redis it is compatible with.
func TestDescribeNamesTheServer(t *testing.T) {
	for info, want := range map[string]string{valkeyInfo: "valkey 9.1.2", "redis_version:7.0.15\r\n": "redis 7.0.15", "role:master\r\n": ""} {
		var f facts
		f.readInfo(info)
		core, logs := observer.New(zap.InfoLevel)
		l := &lane{names: []string{"m"}, enc: &encoder{}, log: zap.New(core)}
		l.describe(&f)
		if got := logs.All()[0].ContextMap()["version"]; got != want {
			t.Errorf("%q: logged %q, want %q", info, got, want)
		}
	}
}
