package admission

import (
	"errors"
	"strconv"
	"strings"
)

// Why a server cannot be a master.
var (
	ErrReplica     = errors.New("is a replica")
	ErrClusterMode = errors.New("runs in cluster mode")
	ErrSentinel    = errors.New("runs in sentinel mode")
	ErrNoRunID     = errors.New("has no run_id")
	ErrNoRole      = errors.New("does not say whether it is a replica")
)

// InfoSections are the sections of INFO that ReadInfo needs, each for a command of its own: Redis
// 6 takes one at a time, and the whole of INFO may be megabytes.
var InfoSections = []string{"server", "replication", "memory", "stats", "persistence"}

// ServerInfo holds the fields of INFO and CONFIG that decide about voting.
type ServerInfo struct {
	RunID   string
	Version string // redis_version
	Valkey  string // its version if the server is Valkey; Version is then that of a compatible Redis
	Mode    string // standalone, cluster or sentinel
	Role    string // master or slave

	Limited bool   // it has a memory limit
	Policy  string // maxmemory-policy
	Evicted int64  // keys evicted since it started, or since CONFIG RESETSTAT

	AOF              bool // appendonly is on
	LastWriteOK      bool // the last write to it was fine
	Rewriting        bool // it is being rewritten
	RewriteScheduled bool // it is about to be: after CONFIG SET appendonly yes the file is empty until that is done
	NoReplicas       bool // there is no replica that could take its place without the last writes
	FsyncAlways      bool // appendfsync always and no-appendfsync-on-rewrite no when CONFIG last answered
	ConfigKnown      bool // CONFIG has answered; without it FsyncAlways is unknown
	ConfigRefused    bool // CONFIG GET is refused: it need not be asked again
}

// ReadInfo takes one section of INFO, or several. What no line speaks of stays.
func (f *ServerInfo) ReadInfo(text string) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok {
			f.readLine(name, value)
		}
	}
	if !f.AOF {
		f.ConfigKnown = false
	}
}

func (f *ServerInfo) readLine(name, value string) {
	switch name {
	case "run_id":
		f.RunID = value
	case "redis_version":
		f.Version = value
	case "valkey_version":
		f.Valkey = value
	case "redis_mode", "server_mode": // the second is Valkey's name for it
		f.Mode = value
	case "role":
		f.Role = value
	case "connected_slaves":
		f.NoReplicas = value == "0"
	case "maxmemory":
		f.Limited = value != "" && value != "0"
	case "maxmemory_policy":
		f.Policy = value
	case "evicted_keys":
		f.Evicted, _ = strconv.ParseInt(value, 10, 64)
	case "aof_enabled":
		f.AOF = value == "1"
	case "aof_last_write_status":
		f.LastWriteOK = value == "ok"
	case "aof_rewrite_in_progress":
		f.Rewriting = value != "0"
	case "aof_rewrite_scheduled":
		f.RewriteScheduled = value != "0"
	}
}

// ReadConfig takes the reply to CONFIG GET *append*: names and values in turn. answered is false
// for an error, forbidden says that the error will stay.
func (f *ServerInfo) ReadConfig(pairs []string, answered, forbidden bool) {
	f.ConfigKnown, f.ConfigRefused = answered, forbidden
	value := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		value[pairs[i]] = pairs[i+1]
	}
	f.FsyncAlways = value["appendonly"] == "yes" && value["appendfsync"] == "always" &&
		value["no-appendfsync-on-rewrite"] == "no"
}

// Software is the server's name and version for people, "valkey 9.1.2"; empty if unknown.
func (f *ServerInfo) Software() string {
	switch {
	case f.Valkey != "":
		return "valkey " + f.Valkey
	case f.Version != "":
		return "redis " + f.Version
	}
	return ""
}

// Refusal says why such a server is no master of ours; nil if it may be one.
func (f *ServerInfo) Refusal() error {
	switch {
	case f.Mode == "cluster":
		return ErrClusterMode
	case f.Mode == "sentinel":
		return ErrSentinel
	case f.RunID == "":
		return ErrNoRunID
	case f.Role == "":
		return ErrNoRole
	case f.Role != "master":
		return ErrReplica
	}
	return nil
}

// Durable reports whether every write is on disk before its reply, and cannot live on elsewhere
// without it.
func (f *ServerInfo) Durable() bool {
	return f.AOF && f.ConfigKnown && f.FsyncAlways && f.LastWriteOK && f.NoReplicas && !f.Rewriting && !f.RewriteScheduled
}

// Perishable reports whether the opposite of Durable is known.
func (f *ServerInfo) Perishable() bool {
	return !f.AOF || f.ConfigKnown && !f.FsyncAlways || !f.LastWriteOK || !f.NoReplicas
}

// MayEvict reports whether the server would rather lose locks than run out of memory.
func (f *ServerInfo) MayEvict() bool { return f.Limited && f.Policy != "noeviction" }
