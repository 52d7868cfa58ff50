package main

import (
	"fmt"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
)

const (
	// clockWarn and clockFail are differences between two clocks. Fencing counters begin with the
	// clock: one that is a day ahead is an error.
	clockWarn = 5 * time.Second
	clockFail = 12 * time.Hour
	// longWait is a max-ttl from which the wait of a restarted master deserves a warning.
	longWait = 10 * time.Minute
)

// checkMaster checks one master by what was found.
func (d *doctor) checkMaster(name string, e *quorum.Examination) {
	switch {
	case e.Err != nil:
		d.note(levelFail, name, "reach", "start it, open the network to it, or correct its address and login in masters",
			"%v", e.Err)
		return
	case e.Refusal != nil:
		d.note(levelFail, name, "role", "name a master that stands alone: no replica, no cluster, no Sentinel", "%v",
			e.Refusal)
		return
	}
	d.ok(name, "reach", "%s", e.Software)
	d.checkRoundTrip(name, e.RTT)
	d.checkEviction(name, e)
	d.checkPersistence(name, e)
	d.checkRights(name, e)
	d.checkRecord(name, e)
	d.checkClock(name, e)
}

func (d *doctor) checkRoundTrip(name string, rtt time.Duration) {
	timeout := d.cfg.MasterTimeout
	remedy := "set master-timeout to 4 times that at least, or use a master that is nearer"
	found := fmt.Sprintf("%.2fms, master-timeout %s", float64(rtt.Microseconds())/1000, plain.Duration(timeout))
	switch {
	case rtt >= timeout:
		d.note(levelFail, name, "round trip", remedy, "%s", found)
	case rtt >= timeout/4:
		d.note(levelWarn, name, "round trip", remedy, "%s", found)
	default:
		d.ok(name, "round trip", "%s", found)
	}
}

func (d *doctor) checkEviction(name string, e *quorum.Examination) {
	const remedy = "CONFIG SET maxmemory-policy noeviction"
	switch {
	case e.MayEvict && d.cfg.AllowEviction:
		d.note(levelWarn, name, "eviction", remedy, "maxmemory-policy %s may drop locks, allow-eviction is true", e.Policy)
	case e.MayEvict:
		d.note(levelFail, name, "eviction", remedy, "maxmemory-policy %s may drop locks, so it does not vote", e.Policy)
	case e.Limited:
		d.ok(name, "eviction", "maxmemory-policy %s", e.Policy)
	default:
		d.ok(name, "eviction", "no memory limit")
	}
}

func (d *doctor) checkPersistence(name string, e *quorum.Examination) {
	const durable = "appendonly yes, appendfsync always, no-appendfsync-on-rewrite no"
	maxTTL := plain.Duration(d.cfg.MaxTTL)
	switch {
	case e.Durable:
		d.ok(name, "persistence", "every write is on disk before its reply: after a restart it votes at once")
	case d.cfg.RestartGuard == "off":
		d.note(levelWarn, name, "persistence", durable+", or restart-guard on",
			"a restart may lose locks, and restart-guard is off: a lock may be granted twice")
	case e.Unknown:
		d.note(levelWarn, name, "persistence", "allow +config|get to lockproxy's user",
			"its settings cannot be read: after a restart it does not vote for max-ttl %s", maxTTL)
	case d.cfg.MaxTTL >= longWait:
		d.note(levelWarn, name, "persistence", durable+", or a shorter max-ttl",
			"a restart may lose locks: after one it does not vote for max-ttl %s", maxTTL)
	default:
		d.ok(name, "persistence", "a restart may lose locks: after one it does not vote for max-ttl %s", maxTTL)
	}
}

func (d *doctor) checkRights(name string, e *quorum.Examination) {
	const remedy = "ACL SETUSER <lockproxy's user> "
	if len(e.Lacks) > 0 {
		rights := strings.Join(e.Lacks, " ")
		d.note(levelFail, name, "rights", remedy+rights, "its user lacks %s", rights)
	}
	if len(e.Misses) > 0 {
		rights := strings.Join(e.Misses, " ")
		d.note(levelWarn, name, "rights", remedy+rights,
			"its user lacks %s: clients wait longer, or cannot lock some keys", rights)
	}
	if len(e.Lacks)+len(e.Misses) == 0 {
		d.ok(name, "rights", "its user has all that lockproxy needs")
	}
}

func (d *doctor) checkRecord(name string, e *quorum.Examination) {
	switch {
	case !e.ClockKnown: // without rights
	case e.Differs != "":
		d.note(levelFail, name, "record",
			"set the same here, or move the master: docs/operations.md, Changing max-ttl and Growing from 3 to 5",
			"it belongs to proxies with %s", e.Differs)
	default:
		d.ok(name, "record", "%s", e.State)
	}
}

func (d *doctor) checkClock(name string, e *quorum.Examination) {
	if !e.ClockKnown {
		return
	}
	d.compareClocks(name, "clock", e.Ahead, e.RTT, "ours")
}

// compareClocks judges how far a clock is ahead of another. The measurement is exact to within.
func (d *doctor) compareClocks(server, check string, ahead, within time.Duration, other string) {
	off := max(ahead.Abs()-within, 0)
	side, remedy := "ahead of", "run NTP (chrony) on all machines"
	if ahead < 0 {
		side = "behind"
	}
	found := fmt.Sprintf("%.3fs %s %s", ahead.Abs().Seconds(), side, other)
	switch {
	case off >= clockFail:
		d.note(levelFail, server, check, remedy, "%s", found)
	case off >= clockWarn:
		d.note(levelWarn, server, check, remedy, "%s", found)
	default:
		d.ok(server, check, "%s", found)
	}
}

// checkTogether compares the masters with each other.
func (d *doctor) checkTogether(masters []quorum.MasterOptions, all []quorum.Examination) {
	first := map[string]string{} // by run_id
	slow, fast := -1, -1
	for i := range all {
		e, name := &all[i], masters[i].NameOf()
		if e.Err != nil || e.RunID == "" {
			continue
		}
		if other, twice := first[e.RunID]; twice {
			d.note(levelFail, name, "identity", "name each server once, and each master a server of its own",
				"it is the same server as %s", other)
		} else {
			first[e.RunID] = name
		}
		if !e.ClockKnown {
			continue
		}
		if slow < 0 || e.Ahead < all[slow].Ahead {
			slow = i
		}
		if fast < 0 || e.Ahead > all[fast].Ahead {
			fast = i
		}
	}
	if slow != fast {
		d.compareClocks(masters[fast].NameOf(), "clocks of the masters", all[fast].Ahead-all[slow].Ahead,
			all[fast].RTT+all[slow].RTT, masters[slow].NameOf())
	}
}
