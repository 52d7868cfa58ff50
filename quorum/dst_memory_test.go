package quorum

import (
	"maps"
	"strings"
	"time"
)

// memory is everything that a master keeps.
type memory struct {
	store    map[string]fakeValue
	counters map[string]uint64
	state    map[string]string
}

func (m *simMaster) copyLocked() *memory {
	return &memory{store: maps.Clone(m.store), counters: maps.Clone(m.counters), state: maps.Clone(m.state)}
}

// becomesDurable makes the master keep everything on disk before it answers.
func (m *simMaster) becomesDurable() {
	m.durable = true
	m.facts["aof_enabled"] = "1"
	m.config["appendonly"], m.config["appendfsync"] = "yes", "always"
}

// losing is a way to lose memory.
type losing uint8

const (
	losesAll   losing = iota // the process starts empty
	losesOld                 // it starts with an RDB that was saved a while ago
	losesNone                // it starts with all it had
	losesFlush               // the process lives on, and is emptied
)

func (l losing) String() string {
	return [...]string{"restarts empty", "restarts with an old RDB", "restarts with all it had", "FLUSHALL"}[l]
}

// lose does it. A process that ends stays down until startMaster.
func (n *network) lose(m *simMaster, how losing, silently bool) {
	if how != losesFlush {
		n.stopMaster(m, silently)
	}
	m.set(func() {
		if how != losesFlush {
			m.renameLocked()
			clear(m.scripts)
		}
		switch how {
		case losesAll, losesFlush:
			m.flushLocked()
		case losesOld:
			old := m.saved
			m.store, m.counters, m.state = maps.Clone(old.store), maps.Clone(old.counters), maps.Clone(old.state)
		}
	})
}

func (m *simMaster) startMaster() { m.set(func() { m.down = false }) }

// save writes the RDB with which the master may come back later.
func (m *simMaster) save() { m.set(func() { m.saved = m.copyLocked() }) }

// remembers reports whether the master can tell that the deployment is not new.
func (m *simMaster) remembers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.down && (strings.HasPrefix(m.state["record"], "A") || strings.HasPrefix(m.state["record"], "Q"))
}

// mayForget reports whether m may lose all it has: with GuardOn at least one other master must remember, as masters that are all
// empty are taken for new.
func (w *world) mayForget(m *simMaster) bool {
	if w.plan.guard != GuardOn || w.plan.wipes {
		return true
	}
	for _, other := range w.masters {
		if other != m && other.remembers() {
			return true
		}
	}
	return false
}

// stepsBy is how far a clock may step so that every proxy must notice with the next vote: each must have heard the clock before,
// and knows it to within an interval. 0: not at all now.
func (w *world) stepsBy(m *simMaster, wish time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.mu.Lock()
	runID := m.runID
	m.mu.Unlock()
	least := time.Duration(0)
	for _, pr := range w.places {
		if pr == nil {
			return 0
		}
		l := pr.q.lanes[m.index]
		l.mu.Lock()
		g, now := l.offset, time.Since(l.epoch)
		l.mu.Unlock()
		if g.runID != runID {
			return 0
		}
		least = max(least, g.hi-g.lo+stepTolerance+(now-g.at)/stepRate+w.plan.mostWait()+10*time.Millisecond)
	}
	if wish < 0 {
		return wish - least
	}
	return wish + least
}

// step makes a clock jump. Until it has been noticed no proxy starts that has never heard the clock.
func (w *world) step(m *simMaster, by time.Duration) {
	m.set(func() {
		m.ahead += by
		m.unnoticed = m.state["record"]
	})
}

// noticed reports whether nobody counts on a clock that has stepped.
func (w *world) noticed() bool {
	for _, m := range w.masters {
		m.mu.Lock()
		waits := m.unnoticed != "" && m.unnoticed == m.state["record"] && strings.HasPrefix(m.unnoticed, "A")
		m.mu.Unlock()
		if waits {
			return false
		}
	}
	return true
}

// healthy reports whether all masters vote, as far as their records say.
func (w *world) healthy() bool {
	for _, m := range w.masters {
		m.mu.Lock()
		votes := !m.down && strings.HasPrefix(m.state["record"], "A "+m.runID+" ")
		m.mu.Unlock()
		if !votes {
			return false
		}
	}
	return true
}

// forget makes one or more masters lose their memory within a short while, each in a way that ways names. Mostly it waits until
// all have recovered from the time before: masters in quarantine have little to lose.
func (f *faulter) forget(ways ...losing) {
	if f.w.plan.census && f.w.losses > 0 || !f.w.healthy() && f.random.IntN(10) > 0 {
		return
	}
	count := 1
	if f.random.IntN(2) == 0 {
		count += f.random.IntN(len(f.w.masters))
	}
	for _, i := range f.random.Perm(len(f.w.masters))[:count] {
		m, how := f.w.masters[i], ways[f.random.IntN(len(ways))]
		if m.durable && how != losesFlush {
			how = losesNone
		}
		f.w.masters[f.random.IntN(len(f.w.masters))].save()
		if how != losesNone && !f.w.mayForget(m) {
			return
		}
		f.lose(m, how)
		if !f.w.wait(f.moment(f.w.plan.faults.last / 8)) {
			return
		}
	}
}

// lose makes a master lose its memory, and starts it again where that ends the process.
func (f *faulter) lose(m *simMaster, how losing) {
	f.w.losses++
	if how == losesOld && f.random.IntN(3) == 0 {
		m.set(m.becomesDurable) // from now on: what it says after the restart proves nothing
	}
	silently := f.random.IntN(3) == 0
	d := f.moment(f.w.plan.faults.last / 2)
	if f.random.IntN(2) == 0 {
		d = f.moment(10 * time.Millisecond)
	}
	f.w.trace.note(m.index, "%v", how)
	f.w.net.lose(m, how, silently)
	if how == losesFlush {
		return
	}
	f.w.group.Go(func() {
		f.w.wait(d)
		f.w.trace.note(m.index, "is up again")
		m.startMaster()
	})
}

func (f *faulter) restart()      { f.forget(losesAll) }
func (f *faulter) restartOld()   { f.forget(losesOld) }
func (f *faulter) flushAll()     { f.forget(losesFlush) }
func (f *faulter) forgetAnyhow() { f.forget(losesAll, losesOld, losesFlush) }

// rollingRestart restarts all masters one after another.
func (f *faulter) rollingRestart() {
	if !f.w.healthy() {
		return
	}
	for _, i := range f.random.Perm(len(f.w.masters)) {
		m, how := f.w.masters[i], losing(f.random.IntN(2))
		if m.durable {
			how = losesNone
		} else if !f.w.mayForget(m) {
			return
		}
		f.lose(m, how)
		if !f.w.wait(f.moment(f.w.plan.faults.last / 2)) {
			return
		}
	}
}

func (f *faulter) stepClock() {
	m := f.master()
	wish := f.moment(4*time.Second) * time.Duration(1-2*f.random.IntN(2))
	if f.w.plan.faults.loses() {
		wish = -max(wish, -wish) // see drawClocks
	}
	if by := f.w.stepsBy(m, wish); by != 0 {
		f.w.trace.note(m.index, "clock steps by %v", by)
		f.w.step(m, by)
	}
}
