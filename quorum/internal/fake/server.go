package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// server is a master's process: its identity, its settings and its clock.
type server struct {
	RunID    string
	Password string
	Role     string            // "master"
	Mode     string            // "standalone"
	Facts    map[string]string // fields of INFO beside run_id, mode and role
	Config   map[string]string // the answer to CONFIG GET *append*
	Ahead    time.Duration     // of the master's clock; ends of keys are by that clock
	Clock    func() time.Time  // instead of the time and Ahead; nil: these
}

func newServer(runID string) server {
	return server{
		RunID: runID, Role: "master", Mode: "standalone",
		Config: map[string]string{"appendonly": "no", "appendfsync": "everysec", "no-appendfsync-on-rewrite": "no"},
		Facts: map[string]string{"redis_version": "7.0.15", "connected_slaves": "0", "maxmemory": "0",
			"maxmemory_policy": "noeviction", "evicted_keys": "0", "aof_enabled": "0",
			"aof_rewrite_in_progress": "0", "aof_last_write_status": "ok"},
	}
}

// NowLocked is the time by the master's clock.
func (s *server) NowLocked() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return time.Now().Add(s.Ahead)
}

// ResetStatLocked is CONFIG RESETSTAT.
func (s *server) ResetStatLocked() { s.Facts["evicted_keys"] = "0" }

// countEvicted counts an evicted key.
func (s *server) countEvicted() {
	n, _ := strconv.Atoi(s.Facts["evicted_keys"])
	s.Facts["evicted_keys"] = strconv.Itoa(n + 1)
}

// config is CONFIG.
func (s *server) config(cmd *Command) wire.Reply {
	switch cmd.Name {
	case "CONFIG GET":
		var elems []wire.Reply
		for name, value := range s.Config {
			elems = append(elems, text(name), text(value))
		}
		return list(elems)
	case "CONFIG RESETSTAT":
		s.ResetStatLocked()
	}
	return done
}

// sectionOf says which section of INFO has a fact.
var sectionOf = map[string]string{
	"redis_version": "server", "redis_mode": "server", "server_mode": "server", "valkey_version": "server",
	"server_name": "server", "run_id": "server",
	"role": "replication", "connected_slaves": "replication",
	"maxmemory": "memory", "maxmemory_policy": "memory",
	"evicted_keys": "stats",
	"aof_enabled":  "persistence", "aof_rewrite_in_progress": "persistence", "aof_rewrite_scheduled": "persistence",
	"aof_last_write_status": "persistence",
}

// info is INFO: one section, or all.
func (s *server) info(section string) string {
	section = strings.ToLower(section)
	var text strings.Builder
	for _, name := range []string{"server", "replication", "memory", "stats", "persistence"} {
		if section != "" && section != name {
			continue
		}
		fmt.Fprintf(&text, "# %s\r\n", name)
		switch name {
		case "server":
			fmt.Fprintf(&text, "redis_mode:%s\r\nrun_id:%s\r\n", s.Mode, s.RunID)
		case "replication":
			fmt.Fprintf(&text, "role:%s\r\n", s.Role)
		}
		for fact, value := range s.Facts {
			if sectionOf[fact] == name || sectionOf[fact] == "" && name == "server" {
				fmt.Fprintf(&text, "%s:%s\r\n", fact, value)
			}
		}
	}
	return text.String()
}
