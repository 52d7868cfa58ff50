package conf

import (
	"slices"
	"testing"
	"time"
)

// TestLockListenerSettings: each source sets them, and "off" is none.
func TestLockListenerSettings(t *testing.T) {
	file := writeFile(t, "masters: h:1\nadopt-listen: [127.0.0.1:1, unix:///s]\nadopt-keys: [\"job:*\", \"*:lock\"]\n"+
		"adopt-ttl: 30s\n")
	all := []string{"127.0.0.1:1", "unix:///s"}
	keys := "job:*,*:lock"
	for _, c := range []struct {
		name          string
		args, environ []string
		listen        []string
		keys          string
		ttl           time.Duration
	}{
		{"default", []string{"--masters=h:1"}, nil, nil, "*", 0},
		{"file", []string{"--config", file}, nil, all, keys, 30 * time.Second},
		{"file, then flags", []string{"--config", file, "--adopt-ttl=off"}, nil, all, keys, 0},
		{"environment", []string{"--masters=h:1"}, []string{"LOCKPROXY_ADOPT_LISTEN=127.0.0.1:1, unix:///s",
			"LOCKPROXY_ADOPT_KEYS=job:*, *:lock", "LOCKPROXY_ADOPT_TTL=30s"}, all, keys, 30 * time.Second},
		{"off", []string{"--masters=h:1", "--adopt-listen=off"}, []string{"LOCKPROXY_ADOPT_LISTEN=127.0.0.1:1"}, nil, "*",
			0},
		{"all keys", []string{"--masters=h:1", "--adopt-listen=127.0.0.1:1", "--adopt-keys=*"}, nil, all[:1], "*", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, c.args, c.environ)
			var listen []string
			for _, a := range cfg.AdoptListen {
				listen = append(listen, a.String())
			}
			if !slices.Equal(listen, c.listen) || cfg.LockKeys() != c.keys || cfg.AdoptTTL != c.ttl {
				t.Errorf("%v, keys %s, ttl %v", listen, cfg.LockKeys(), cfg.AdoptTTL)
			}
		})
	}
}

// TestLockListenerNeedsRestart: a reload changes none of its settings.
func TestLockListenerNeedsRestart(t *testing.T) {
	from := mustLoad(t, []string{"--masters=h:1"}, nil)
	to := mustLoad(t, []string{"--masters=h:1", "--adopt-listen=127.0.0.1:1", "--adopt-keys=a", "--adopt-ttl=1s"}, nil)
	var names []string
	for _, c := range Changes(from, to) {
		names = append(names, c.Name)
		if c.Live {
			t.Errorf("%s changes at a reload", c.Name)
		}
	}
	if !slices.Equal(names, []string{"adopt-listen", "adopt-keys", "adopt-ttl"}) {
		t.Errorf("%v differ", names)
	}
	if cfg, err := from.Take(to); err != nil || cfg.AdoptListen != nil || cfg.AdoptKeys != nil || cfg.AdoptTTL != 0 {
		t.Errorf("took %v %v %v, %v", cfg.AdoptListen, cfg.AdoptKeys, cfg.AdoptTTL, err)
	}
}
