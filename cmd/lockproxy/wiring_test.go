package main

import (
	"testing"

	"go.uber.org/zap"

	"lockproxy/conf"
	"lockproxy/quorum"
)

// TestQuorumOptions: what decides who votes reaches package quorum.
func TestQuorumOptions(t *testing.T) {
	for word, want := range map[string]quorum.Guard{"on": quorum.GuardOn, "strict": quorum.GuardStrict, "off": quorum.GuardOff} {
		cfg, err := conf.Load([]string{"--masters=m1@redis://u:p@h:1/2,unix:///x,c:1", "--allow-eviction", "--restart-guard", word}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := quorumOptions(cfg, nil, filesOf(t, cfg), nil, zap.NewNop())
		if o.Guard != want || !o.AllowEviction {
			t.Errorf("restart-guard %s is %d, allow-eviction %v", word, o.Guard, o.AllowEviction)
		}
		first, second := o.Masters[0], o.Masters[1]
		if first.ID != "m1" || first.Name != "m1@h:1" || first.Addr != "h:1" || first.User != "u" || first.Password != "p" || first.DB != 2 {
			t.Errorf("got %+v", first)
		}
		if second.ID != "" || second.Name != "unix:///x" || second.Addr != "/x" || second.Network != "unix" {
			t.Errorf("got %+v", second)
		}
	}
	cfg, err := conf.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := quorumOptions(cfg, nil, filesOf(t, cfg), nil, zap.NewNop()); o.Guard != quorum.GuardOn || o.AllowEviction {
		t.Errorf("the default has guard %d, allow-eviction %v", o.Guard, o.AllowEviction)
	}
}

// TestUpstreamID: what proxies on other machines may reach has one name everywhere, and
// credentials are in none.
func TestUpstreamID(t *testing.T) {
	for upstream, want := range map[string]string{
		"redis://u:secret@10.0.0.9:6379/3":                   "10.0.0.9:6379",
		"rediss://:secret@redis.example:6379":                "redis.example:6379",
		"127.0.0.1:6379":                                     "box 127.0.0.1:6379",
		"unix:///run/redis.sock":                             "box unix:///run/redis.sock",
		"redis+sentinel://u:secret@10.0.0.1:26379/mymaster":  "redis+sentinel://10.0.0.1:26379/mymaster",
		"redis+sentinel://u:secret@127.0.0.1:26379/mymaster": "redis+sentinel://127.0.0.1:26379/mymaster",
	} {
		cfg, err := conf.Load([]string{"--masters=a:1", "--upstream", upstream}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := upstreamID(cfg.Upstream, "box"); got != want {
			t.Errorf("%s: got %q, want %q", upstream, got, want)
		}
	}
}

// filesOf reads the files of the settings.
func filesOf(t *testing.T, cfg conf.Config) *files {
	t.Helper()
	f, err := openFiles(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
