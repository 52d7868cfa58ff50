package conf

import (
	"fmt"
	"strings"
)

// Usage returns the text of --help: how settings are given, a section of the caller, and a line
// for each setting.
func Usage(section string) string {
	var b strings.Builder
	b.WriteString(`lockproxy is a Redis proxy that adds LOCK and UNLOCK: locks on a majority of independent Redis servers.

usage: lockproxy [--config file] [--name value ...]
       lockproxy COMMAND [--name value ...]

  --config file   read settings from a YAML file (also LOCKPROXY_CONFIG)
  --check         validate the settings and end
  --version       print the version and end
  --help          print this and end

Settings are the same in the file (max-ttl: 60s), the environment (LOCKPROXY_MAX_TTL=60s; empty is not set) and
flags (--max-ttl 60s); later ones win in this order. Times are digits with ms, s, m or h: 500ms, 1m30s. Without any
setting all servers are in memory inside lockproxy, to try it out.

`)
	if section != "" {
		b.WriteString(section + "\n")
	}
	for _, s := range Settings() {
		fmt.Fprintf(&b, "  --%-24s %s (default: %s)\n", s.Name, s.Help, s.Default)
	}
	return b.String()
}
