package main

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/cmd/lockproxy/embedded"
	"lockproxy/conf"
	"lockproxy/quorum"
)

// TestQuorumGetsVotingSettings: what decides who votes reaches package quorum.
func TestQuorumGetsVotingSettings(t *testing.T) {
	for word, want := range map[string]quorum.GuardMode{"on": quorum.GuardOn, "strict": quorum.GuardStrict,
		"off": quorum.GuardOff} {
		t.Run(word, func(t *testing.T) {
			cfg, err := conf.Load([]string{"--masters=m1@redis://u:p@h:1/2,unix:///x,c:1", "--allow-eviction",
				"--queue-timeout=7s", "--restart-guard", word}, nil)
			if err != nil {
				t.Fatal(err)
			}
			o := quorumOptions(cfg, nil, filesOf(t, cfg), nil, zap.NewNop())
			if o.Guard != want || !o.AllowEviction || o.QueueTimeout != 7*time.Second {
				t.Errorf("restart-guard %s is %d, allow-eviction %v, queue-timeout %v", word, o.Guard, o.AllowEviction,
					o.QueueTimeout)
			}
			first, second := o.Masters[0], o.Masters[1]
			if first.ID != "m1" || first.Name != "m1@h:1" || first.Addr != "h:1" || first.User != "u" ||
				first.Password != "p" || first.DB != 2 {
				t.Errorf("got %+v", first)
			}
			if second.ID != "" || second.Name != "unix:///x" || second.Addr != "/x" || second.Network != "unix" {
				t.Errorf("got %+v", second)
			}
		})
	}
	cfg, err := conf.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := quorumOptions(cfg, nil, filesOf(t, cfg), nil, zap.NewNop()); o.Guard != quorum.GuardOn || o.AllowEviction ||
		o.QueueTimeout != 5*time.Second {
		t.Errorf("the default has guard %d, allow-eviction %v, queue-timeout %v", o.Guard, o.AllowEviction, o.QueueTimeout)
	}
}

// TestMissingMajorityIsLogged: the log reports a missing majority exactly if it is missing.
func TestMissingMajorityIsLogged(t *testing.T) {
	type dial = func(context.Context, string, string) (net.Conn, error)
	for name, c := range map[string]struct {
		dials []dial // of the first of five masters
		warns bool
	}{
		"all vote":              {nil, false},
		"a majority, one hangs": {[]dial{dialHangs, dialRefused}, false},
		"three are down":        {[]dial{dialRefused, dialRefused, dialRefused}, true},
		"three hang":            {[]dial{dialHangs, dialHangs, dialHangs}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, err := embedded.New(zap.NewNop())
				if err != nil {
					t.Fatal(err)
				}
				defer memory.Close()
				o := quorumOptions(conf.Config{}, memory, nil, nil, zap.NewNop())
				o.MaxTTL, o.Guard, o.Adopt = time.Minute, quorum.GuardOff, nil
				for i, dial := range c.dials {
					o.Masters[i].Dial = dial
				}
				q, err := quorum.New(o)
				if err != nil {
					t.Fatal(err)
				}
				defer q.Close(t.Context())
				core, logs := observer.New(zap.WarnLevel)
				waitReady(t.Context(), q, nil, zap.New(core))
				if warned := logs.FilterMessage("no majority of the masters can vote yet").Len() > 0; warned != c.warns {
					t.Errorf("warned: %v; masters: %v", warned, q.Masters())
				}
			})
		})
	}
}

// dialHangs dials a master that does not answer.
func dialHangs(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// dialRefused dials a master that is down.
func dialRefused(context.Context, string, string) (net.Conn, error) {
	return nil, syscall.ECONNREFUSED
}

// TestUpstreamIDHasNoCredentials: what proxies on other machines may reach has one name
// everywhere, and credentials are in none.
func TestUpstreamIDHasNoCredentials(t *testing.T) {
	for upstream, want := range map[string]string{
		"redis://u:secret@10.0.0.9:6379/3":                   "10.0.0.9:6379",
		"rediss://:secret@redis.example:6379":                "redis.example:6379",
		"127.0.0.1:6379":                                     "box 127.0.0.1:6379",
		"unix:///run/redis.sock":                             "box unix:///run/redis.sock",
		"redis+sentinel://u:secret@10.0.0.1:26379/mymaster":  "redis+sentinel://10.0.0.1:26379/mymaster",
		"redis+sentinel://u:secret@127.0.0.1:26379/mymaster": "redis+sentinel://127.0.0.1:26379/mymaster",
	} {
		t.Run(upstream, func(t *testing.T) {
			cfg, err := conf.Load([]string{"--masters=a:1", "--upstream", upstream}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := upstreamID(cfg.Upstream, "box"); got != want {
				t.Errorf("%s: got %q, want %q", upstream, got, want)
			}
		})
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
