package embedded

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// miniredisVersion is the version of Redis that miniredis shows in HELLO. INFO must agree.
const miniredisVersion = "8.4.0"

// info answers INFO [section ...].
func (s *session) info(args []string) bool {
	if !s.outsideMulti("info") {
		return true
	}
	wanted := map[string]bool{}
	for _, arg := range args {
		wanted[strings.ToLower(arg)] = true
	}
	all := len(wanted) == 0 || wanted["all"] || wanted["everything"] || wanted["default"]
	var b strings.Builder
	for _, section := range s.server.infoSections() {
		if !all && !wanted[strings.ToLower(section.title)] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + section.title + "\r\n")
		for _, line := range section.lines {
			b.WriteString(line + "\r\n")
		}
	}
	s.peer.WriteBulk(b.String())
	return true
}

type infoSection struct {
	title string
	lines []string
}

func (m *Redis) infoSections() []infoSection {
	open, ever := m.connections()
	uptime := int(time.Since(m.started).Seconds())
	return []infoSection{
		{"Server", []string{
			"redis_version:" + miniredisVersion, "redis_mode:standalone", "server_name:" + m.Name,
			"run_id:" + m.runID, "tcp_port:0", fmt.Sprintf("uptime_in_seconds:%d", uptime),
		}},
		{"Clients", []string{fmt.Sprintf("connected_clients:%d", open)}},
		{"Memory", []string{"maxmemory:0", "maxmemory_policy:noeviction"}},
		{"Persistence", []string{"loading:0", "aof_enabled:0", "aof_rewrite_in_progress:0", "aof_last_write_status:ok"}},
		{"Stats", []string{
			fmt.Sprintf("total_connections_received:%d", ever),
			fmt.Sprintf("total_commands_processed:%d", m.srv.TotalCommands()), "evicted_keys:0",
		}},
		{"Replication", []string{"role:master", "connected_slaves:0"}},
		{"Cluster", []string{"cluster_enabled:0"}},
		{"Keyspace", m.keyspace()},
	}
}

// keyspace counts the keys of each database that is not empty.
func (m *Redis) keyspace() []string {
	var lines []string
	for db := range databases {
		if keys := m.mini.DB(db).Keys(); len(keys) > 0 {
			lines = append(lines, fmt.Sprintf("db%d:keys=%d,expires=0,avg_ttl=0", db, len(keys)))
		}
	}
	return slices.Clip(lines)
}
