package quorum

import (
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// oldestTested is the oldest Redis that the scripts and the lane are tried on.
var oldestTested = [2]int{6, 0}

// describe logs what kind of server a master is, and what that means for locks: once for each run of it.
func (l *lane) describe(f *facts) {
	master, version := zap.String("master", l.names[l.index]), zap.String("version", f.software())
	log := l.log.Info
	if f.version != "" && olderThan(f.version, oldestTested) {
		l.log.Warn("master runs a Redis older than lockproxy is tested with", master, version)
	}
	if f.mayEvict() {
		l.log.Warn("master has a memory limit and may evict locks: set maxmemory-policy noeviction", master, zap.String("maxmemory_policy", f.policy))
	}
	switch {
	case l.enc.unguarded:
		log("master reached", master, version)
	case f.durable():
		log("master reached: every write is on disk before its reply, after a restart it votes at once", master, version)
	case f.aof && f.notAsked:
		log("master reached: its persistence cannot be asked for (CONFIG GET is refused), after a restart it does not vote for max-ttl",
			master, version, zap.Duration("max_ttl", l.maxTTL))
	default:
		log("master reached: a restart may lose locks, after one it does not vote for max-ttl", master, version, zap.Duration("max_ttl", l.maxTTL))
	}
}

// olderThan compares "7.0.15" with a major and a minor number.
func olderThan(version string, than [2]int) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err != nil || err2 != nil {
		return false
	}
	return a < than[0] || a == than[0] && b < than[1]
}

// meet takes the facts of the server that a new connection leads to.
func (l *lane) meet(server facts) {
	l.mu.Lock()
	another := l.facts.runID != server.runID
	if another {
		l.evictedBefore, l.stepped = server.evicted, false
		l.offset.follow(server.runID)
	}
	l.facts = server
	l.status.RunID = server.runID
	landed := l.owed.handedOver(time.Now())
	l.mu.Unlock()
	for _, k := range landed {
		l.host.toppedUp(k, 0, time.Time{})
	}
	if another {
		l.describe(&server)
	}
}
