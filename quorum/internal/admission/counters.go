package admission

import (
	"fmt"
	"slices"
	"time"
)

const (
	// floorShift makes room below the milliseconds of the wall clock: counters rise by less than
	// that many a millisecond, and stay under 2^53 until the year 2109.
	floorShift = 11
	// recount is the time between two readings of the counters of one master.
	recount = time.Second
	// maxAhead is how far a clock may be from the median before it does not count.
	maxAhead = 24 * time.Hour
)

// count is the last answer of a master about its counters.
type count struct {
	top     uint64    // the largest
	asked   time.Time // when it was asked for top
	failed  time.Time // when it was last asked without success
	pending bool
	sent    time.Time // when it was last asked
}

// clockFloor is a fencing number above all that were issued so far, if the clocks are right: the
// latest time of this proxy and of every master that answers, without clocks far from the median.
// 0 if no clock can be right.
func (g *Guard) clockFloor(now time.Time) uint64 {
	clocks := []time.Duration{time.Duration(now.UnixNano())}
	for i := range g.masters {
		if m := &g.masters[i]; m.up {
			clocks = append(clocks, m.o.Clock+now.Sub(m.o.At))
		}
	}
	slices.Sort(clocks)
	median, latest := clocks[(len(clocks)-1)/2], time.Duration(0)
	for _, c := range clocks {
		if c-median <= maxAhead && median-c <= maxAhead {
			latest = c
		}
	}
	if floor := uint64(max(latest.Milliseconds(), 0)) << floorShift; floor < maxFloor {
		return floor
	}
	return 0
}

// readCounters asks all intact masters for their counters, and returns the largest that was read
// after until: locks granted before the quarantine have expired by then and cannot raise it.
// pending reports that some masters have not answered yet.
func (e *evaluation) readCounters(until time.Time) (top uint64, answered int, pending bool) {
	for j := range e.g.masters {
		m := &e.g.masters[j]
		switch c := &m.count; {
		case !e.intact[j] || e.older[j]:
		case !c.asked.IsZero() && !c.asked.Before(until):
			top = max(top, c.top)
			answered++
		default:
			pending = pending || c.failed.IsZero() || c.failed.Before(until)
			if c.pending || m.changing {
				continue
			}
			if again := c.sent.Add(recount); !c.sent.IsZero() && e.now.Before(again) {
				e.again(again)
				continue
			}
			c.pending, c.sent = true, e.now
			e.do(j, Action{Kind: ActLearn, Known: e.g.knownText(e.known()), Record: m.o.Record, Count: true})
		}
	}
	return top, answered, pending
}

// end ends the quarantine of one master. Its counters start at one floor: the largest of all
// counters on a majority with its memory, and this proxy's. If no such majority exists, the clock
// takes its place, unless a counter is ahead of it: then lost ones may have been ahead, too.
func (e *evaluation) end(i int, until time.Time, reason *Quarantine) {
	g, m := e.g, &e.g.masters[i]
	c := e.admission(i, m.rec.nonce)
	if g.o.Mode == Off {
		c.To, c.Known, c.Durable = record{kind: recordOff, fingerprint: g.fingerprint}.String(), keep, ""
	}
	if g.o.Mode == Off || !g.o.Fencing {
		e.change(i, c)
		return
	}
	top, answered, pending := e.readCounters(until)
	if answered < g.majority() {
		clock := g.clockFloor(e.now)
		switch {
		case pending:
			e.wait(i, reason, true)
			return
		case m.rec.override:
		case !m.mark.noMajority:
			reason.waits, reason.needed, reason.missing = waitsForCounters, g.majority()-answered, e.absent(i)
			e.wait(i, reason, false)
			return
		case top > max(clock, g.o.Floor.Top()):
			reason.waits = waitsForClock
			e.wait(i, reason, false)
			e.again(e.now.Add(recount))
			e.alarm(i, top, clock)
			return
		}
		c.Floor = clock
		c.warning = "too many masters have lost their fencing counters: the clock takes their place"
	}
	c.Floor = max(c.Floor, top, g.o.Floor.Top())
	e.change(i, c)
}

// alarm logs, once for each quarantine, that only the operator can end it.
func (e *evaluation) alarm(i int, top, floor uint64) {
	if m := &e.g.masters[i]; m.alarmed != m.rec.admission {
		m.alarmed = m.rec.admission
		e.do(i, Action{Kind: ActAlarm, Alarm: fmt.Sprintf("%s has a fencing counter of %d, ahead of the clock at %d: "+
			"set the clocks right, or LOCKPROXY ADMIT it", e.g.o.Names[i], top, floor)})
	}
}
