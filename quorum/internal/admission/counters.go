package admission

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

const (
	// floorShift makes room below the milliseconds of the wall clock: counters rise slower than
	// that many a millisecond, and stay under 2^53 until the year 2109.
	floorShift = 11
	// maxFloor bounds what is written as a floor. There is room above it for what counters rise.
	maxFloor = 1<<53 - 1<<40
	// recount is the time between two readings of all counters, where the first did not help.
	recount = time.Second
	// maxAhead is how far a clock may be from the median before it does not count.
	maxAhead = 24 * time.Hour
)

// clockFloor is a fencing number above all that were given out so far, as far as the clocks can
// tell: the largest time of this proxy and of every master that answers, without those that are
// far from the median. 0 without fencing, and where no clock can be right.
func (g *Guard) clockFloor(now time.Time) uint64 {
	if !g.o.Fencing {
		return 0
	}
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

// floor is clockFloor, and not under what this proxy has issued or seen: a clock that was ahead
// then may have been set right.
func (g *Guard) floor(now time.Time) uint64 {
	floor := g.clockFloor(now)
	if top := g.o.Floors.top(); top < maxFloor && g.o.Fencing {
		floor = max(floor, top)
	}
	return floor
}

// counters are the fencing counters of one or more masters, the largest of each.
type counters [wire.Slots]uint64

var errUnparsable = errors.New("answered something that is no list of counters")

func (a *counters) read(text string) error {
	words := strings.Fields(text)
	if len(words)%2 != 0 {
		return errUnparsable
	}
	for i := 0; i < len(words); i += 2 {
		field, err := strconv.ParseUint(words[i], 10, 64)
		number, err2 := strconv.ParseUint(words[i+1], 10, 64)
		if err != nil || err2 != nil || field >= wire.Slots {
			return errUnparsable
		}
		a[field] = max(a[field], number)
	}
	return nil
}

// String is 'field number field number ...' of those that are not 0.
func (a *counters) String() string {
	var b strings.Builder
	for field, n := range a {
		if n > 0 {
			fmt.Fprintf(&b, "%d %d ", field, n)
		}
	}
	return strings.TrimSuffix(b.String(), " ")
}

// countersKept reports whether the counters of a master are whole.
func (m *master) countersKept() bool { return m.votes() || m.marked() && m.rec.kept }

// hasLost reports whether a master has no counters that are whole: it is marked, or was found
// without its record. The second counts where it is found so again, and cannot be marked.
func (m *master) hasLost() bool {
	return m.marked() && !m.rec.kept || !m.votes() && m.mark.admission == (admission{}) && !m.mark.since.IsZero()
}

// majorityLost reports whether there was a time, since a master is in quarantine, when so many
// masters are known to have lost their memory that the others were no majority. A master counts as
// one of them from when its mark was first observed, or could not be written, until it was last
// found so. What became of the master after that nobody knows.
func (e *evaluation) majorityLost(i int) bool {
	for at := range e.g.masters {
		then, lost := e.g.masters[at].mark.since, 0
		for j := range e.g.masters {
			m := &e.g.masters[j]
			if m.hasLost() && !m.mark.since.After(then) && !m.o.Sent.Before(then) {
				lost++
			}
		}
		if len(e.g.masters)-lost < e.g.majority() && !then.Before(e.g.masters[i].mark.since) {
			return true
		}
	}
	return false
}

// intact are the masters that can be asked for their counters. One that kept all through a
// restart is among them even if no mark can be written that says so.
func (e *evaluation) intact() (all []Asked) {
	for i := range e.g.masters {
		if m := &e.g.masters[i]; m.up && (m.countersKept() && !(m.votes() && e.older(i)) || e.survived(i)) {
			all = append(all, Asked{i, m.o.Conn, m.o.Record})
		}
	}
	return all
}

// awaited reports whether a quarantine that has lasted long enough goes on until other masters
// have given their counters. It does while enough of these may still exist. reason tells which are
// missing.
func (e *evaluation) awaited(i int, reason *Quarantine) bool {
	needed := e.g.majority() - len(e.intact())
	if needed <= 0 || e.g.masters[i].mark.noMajority {
		return false
	}
	reason.waits, reason.needed, reason.missing = waitsForCounters, needed, nil
	for i := range e.g.masters {
		if !e.g.masters[i].up {
			reason.missing = append(reason.missing, i)
		}
	}
	return true
}

// count has the counters of intact masters read. That is done now, when nothing that was granted
// before the quarantine can still change them.
func (e *evaluation) count() {
	isNew := func(i int) bool { return !slices.Contains(e.g.countedFor, i) }
	if again := e.g.counted.Add(recount); e.now.Before(again) && !slices.ContainsFunc(e.due, isNew) {
		e.again(again)
		return
	}
	e.g.countedFor = e.due
	a := Action{Kind: ActCount, Due: e.due, Known: e.g.knownText(e.known())}
	if e.g.o.Fencing && e.g.o.Mode != Off {
		a.Ask = e.intact()
	}
	e.g.counting = true
	e.actions = append(e.actions, a)
}

// Counted takes what the masters of an ActCount answered, in the order of its Ask, and admits
// those whose quarantine is over. Their counters are raised first to the largest on the others.
func (g *Guard) Counted(a *Action, answers []Counted, now time.Time) []Action {
	g.counting, g.counted = false, now
	var found counters
	intact := 0
	for k, c := range answers {
		if m := &g.masters[a.Ask[k].Master]; c.Known != "" && a.Ask[k].Conn == m.o.Conn {
			m.known = g.parseKnown(c.Known)
		}
		if c.Err == nil && found.read(c.Counters) == nil {
			intact++
		}
	}
	e := &evaluation{g: g, now: now}
	for _, i := range a.Due {
		e.evaluate(i)
	}
	for _, i := range e.due {
		e.end(i, found, intact)
	}
	return append(e.actions, e.votes...)
}

// end ends the quarantine of one master. Where a majority has lost its counters the clock takes
// their place, unless a counter is ahead of it: then others that were lost may have been, too.
func (e *evaluation) end(i int, found counters, intact int) {
	g, m := e.g, &e.g.masters[i]
	c := g.admit(i, m.rec.admission, e.known())
	if g.o.Mode == Off {
		c.To, c.Known, c.Durable = record{kind: recordOff, fingerprint: g.fingerprint}.String(), keep, ""
	}
	if g.o.Mode == Off || !g.o.Fencing {
		e.change(i, c)
		return
	}
	if intact < g.majority() {
		floor := g.clockFloor(e.now)
		top := g.highestUnknown(&found)
		reason := &Quarantine{Cause: m.rec.cause, Since: m.mark.since, master: i, names: g.o.Names}
		switch {
		case m.rec.override:
			floor = max(floor, slices.Max(found[:]))
		case !m.mark.noMajority && len(e.intact()) >= g.majority():
			return // one of those did not answer, or has changed: they are asked again
		case e.awaited(i, reason):
			e.wait(i, reason, false)
			return
		case top > floor:
			reason.waits = waitsForClock
			e.wait(i, reason, false)
			e.alarm(i, top, floor)
			return
		}
		c.Floor = max(floor, g.floor(e.now))
		c.warning = "too many masters have lost their fencing counters: the clock takes their place"
	}
	for field := range found {
		g.o.Floors.Raise(uint16(field), found[field])
		found[field] = g.o.Floors.At(uint16(field))
	}
	c.Counters = found.String()
	e.change(i, c)
}

// highestUnknown is the largest of the counters found that are above what this proxy issued, saw
// or wrote itself. What it knows is no sign that others were higher.
func (g *Guard) highestUnknown(found *counters) (top uint64) {
	for field, n := range found {
		if n > g.o.Floors.At(uint16(field)) {
			top = max(top, n)
		}
	}
	return top
}

// alarm has it logged, once for each quarantine, that only the operator can end it.
func (e *evaluation) alarm(i int, top, floor uint64) {
	if m := &e.g.masters[i]; m.alarmed != m.rec.admission {
		m.alarmed = m.rec.admission
		e.do(i, Action{Kind: ActAlarm, Alarm: fmt.Sprintf("%s has a fencing counter of %d, ahead of the clock at %d: "+
			"set the clocks right, or LOCKPROXY ADMIT it", e.g.o.Names[i], top, floor)})
	}
}
