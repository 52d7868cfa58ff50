package quorum

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// floorShift makes room below the milliseconds of the wall clock: counters rise slower than that many a millisecond, and
// stay under 2^53 until the year 2109.
const floorShift = 11

// clockFloor is a fencing number above all that were given out so far, as far as the clocks can tell: the largest of this
// proxy's time and that of every master that answers. 0 without fencing. The guard's mu is held.
func (g *guard) clockFloor() uint64 {
	if !g.q.opts.Fencing {
		return 0
	}
	now := time.Now()
	latest := time.Duration(now.UnixNano())
	for i := range g.masters {
		if m := &g.masters[i]; m.up {
			latest = max(latest, m.view.clock+now.Sub(m.view.at))
		}
	}
	return uint64(max(latest.Milliseconds(), 0)) << floorShift
}

// allCounters are the fencing counters of one or more masters, the largest of each.
type allCounters [counters]uint64

func (a *allCounters) read(text string) error {
	words := strings.Fields(text)
	if len(words)%2 != 0 {
		return errUnparsable
	}
	for i := 0; i < len(words); i += 2 {
		field, err := strconv.ParseUint(words[i], 10, 64)
		number, err2 := strconv.ParseUint(words[i+1], 10, 64)
		if err != nil || err2 != nil || field >= counters {
			return errUnparsable
		}
		a[field] = max(a[field], number)
	}
	return nil
}

func (a *allCounters) highest() (top uint64) {
	for _, n := range a {
		top = max(top, n)
	}
	return top
}

// String is 'field number field number ...' of those that are not 0.
func (a *allCounters) String() string {
	var b strings.Builder
	for field, n := range a {
		if n > 0 {
			fmt.Fprintf(&b, "%d %d ", field, n)
		}
	}
	return strings.TrimSuffix(b.String(), " ")
}

// endQuarantine admits the masters whose time is over. Their counters are raised first to the largest on N/2+1 masters that
// kept theirs; read now, when nothing that was granted before the quarantine can still change them. As long as
// so many may still exist it waits for them.
func (g *guard) endQuarantine(ctx context.Context, due []int) {
	var found allCounters
	intact, lost := 0, 0
	if g.q.opts.Fencing && g.mode != GuardOff {
		found, intact, lost = g.readCounters(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, i := range due {
		if s := g.judge(i, time.Now()); s.kind == ruledDue {
			g.perform(g.endOne(s, &found, intact, lost))
		}
	}
}

// endOne ends the quarantine of one master. found are the counters of intact masters; lost is how many have lost theirs.
func (g *guard) endOne(s ruling, found *allCounters, intact, lost int) ruling {
	m := &g.masters[s.lane]
	s.kind, s.change = ruledChange, g.admission(m)
	if g.mode == GuardOff {
		s.change.to, s.change.durable = record{kind: recordOff, fingerprint: g.fingerprint}, ""
		return s
	}
	if !g.q.opts.Fencing {
		return s
	}
	n := len(g.masters)
	need := majority(n)
	s.change.counters = found.String()
	if intact >= need {
		return s
	}
	waiting := quarantine{cause: m.record.cause, since: m.mark.since}
	floor, top := g.clockFloor(), found.highest()
	switch {
	case m.record.override:
		floor = max(floor, top)
	case n-lost >= need:
		waiting.waits = fmt.Sprintf("waits for the fencing counters of %d more", need-intact)
	case top > floor:
		waiting.waits = countersAhead
		if m.blamed == m.mark.nonce {
			break
		}
		m.blamed = m.mark.nonce
		g.log.Error("a fencing counter is ahead of the clock: set the clocks right, or LOCKPROXY ADMIT the master",
			zap.String("master", g.q.lanes[s.lane].names[s.lane]), zap.Uint64("counter", top), zap.Uint64("clock", floor))
	}
	if waiting.waits != "" {
		return ruling{kind: ruledHold, lane: s.lane, conn: s.conn, state: StateQuarantined, reason: &waiting}
	}
	s.change.floor = floor
	s.change.says = "too many masters have lost their fencing counters: the clock takes their place"
	return s
}

// readCounters asks every master that kept its counters for them. intact is how many answered, lost how many are known to
// have none.
func (g *guard) readCounters(ctx context.Context) (found allCounters, intact, lost int) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	ask := make([]string, len(g.masters))
	g.mu.Lock()
	for i := range g.masters {
		m := &g.masters[i]
		kept := m.current() && (m.record.kind == recordVotes || m.record.kind == recordMark && m.record.kept)
		switch {
		case m.up && kept:
			ask[i] = m.view.record
		case m.seen && !kept:
			lost++
		}
	}
	g.mu.Unlock()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, record := range ask {
		if record == "" {
			continue
		}
		wg.Go(func() {
			a, err := g.q.lanes[i].ask(ctx, command{op: opCounters, args: []string{record}})
			if err == nil && a.kind != '$' {
				err = errUnparsable
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = found.read(a.text)
			}
			if err == nil {
				intact++
			}
		})
	}
	wg.Wait()
	return found, intact, lost
}
