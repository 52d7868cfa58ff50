package quorum

import (
	"strconv"
	"strings"
)

// facts are what INFO and CONFIG say of a server, as far as it decides about voting.
type facts struct {
	runID, version, mode, role string
	valkey                     string // its version where the server is Valkey, whose redis_version is that of the Redis it is compatible with

	limited bool   // it has a memory limit
	policy  string // maxmemory-policy
	evicted int64  // keys evicted since it started

	aof      bool // appendonly is on
	written  bool // the last write to it was fine
	rewrites bool // it is being rewritten, or about to
	alone    bool // there is no replica that could take its place without the last writes
	always   bool // appendfsync always and no-appendfsync-on-rewrite no, as CONFIG said last
	asked    bool // CONFIG has answered; without it always means nothing
	notAsked bool // CONFIG is refused
}

// readInfo takes what INFO says; what CONFIG said stays.
func (f *facts) readInfo(text string) {
	var maxmemory string
	rewrites := false
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			continue
		}
		switch name {
		case "run_id":
			f.runID = value
		case "redis_version":
			f.version = value
		case "valkey_version":
			f.valkey = value
		case "redis_mode", "server_mode": // the second is Valkey's name for it
			f.mode = value
		case "role":
			f.role = value
		case "connected_slaves":
			f.alone = value == "0"
		case "maxmemory":
			maxmemory = value
		case "maxmemory_policy":
			f.policy = value
		case "evicted_keys":
			f.evicted, _ = strconv.ParseInt(value, 10, 64)
		case "aof_enabled":
			f.aof = value == "1"
		case "aof_rewrite_in_progress":
			rewrites = rewrites || value != "0"
		case "aof_rewrite_scheduled": // after CONFIG SET appendonly yes: until it is done nothing is written
			rewrites = rewrites || value != "0"
		case "aof_last_write_status":
			f.written = value == "ok"
		}
	}
	f.limited, f.rewrites = maxmemory != "" && maxmemory != "0", rewrites
	if !f.aof {
		f.asked = false
	}
}

// software is the server's name and version for people, "valkey 9.1.2"; empty where it tells none.
func (f *facts) software() string {
	switch {
	case f.valkey != "":
		return "valkey " + f.valkey
	case f.version != "":
		return "redis " + f.version
	}
	return ""
}

// readConfig takes the reply to CONFIG GET *append*.
func (f *facts) readConfig(r *reply) {
	f.asked, f.notAsked = r.kind == '*', r.forbidden()
	value := map[string]string{}
	for i := 0; i+1 < len(r.texts); i += 2 {
		value[r.texts[i]] = r.texts[i+1]
	}
	f.always = value["appendonly"] == "yes" && value["appendfsync"] == "always" && value["no-appendfsync-on-rewrite"] == "no"
}

// durable reports whether every write is on disk before its reply, and cannot live on elsewhere without it.
func (f *facts) durable() bool {
	return f.aof && f.asked && f.always && f.written && f.alone && !f.rewrites
}

// perishable reports whether the opposite is known.
func (f *facts) perishable() bool {
	return !f.aof || f.asked && !f.always || !f.written || !f.alone
}

// mayEvict reports whether the server would rather lose locks than run out of memory.
func (f *facts) mayEvict() bool { return f.limited && f.policy != "noeviction" }
