package sim

import (
	"strings"
	"time"

	"lockproxy/quorum"
	"lockproxy/quorum/internal/wire"
)

// becomesDurable makes the master keep everything on disk before it answers.
func (m *simMaster) becomesDurable() {
	m.durable = true
	m.Facts["aof_enabled"] = "1"
	m.Config["appendonly"], m.Config["appendfsync"] = "yes", "always"
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
	m.Set(func() {
		if how != losesNone {
			m.lost = time.Now()
		}
		if how != losesFlush {
			m.renameLocked()
		}
		switch how {
		case losesAll, losesFlush:
			m.FlushLocked()
		case losesOld:
			m.LoadLocked(m.saved)
		}
	})
}

// save writes the RDB with which the master may come back later.
func (m *simMaster) save() { m.Set(func() { m.saved = m.SaveLocked() }) }

// recordOf is the record that the master has now.
func (m *simMaster) recordOf() (record string) {
	m.Set(func() { record = m.State("record") })
	return record
}

// sortedKeysLocked are the names of all keys.
func (m *simMaster) sortedKeysLocked() []string { return m.Names() }

func (m *simMaster) sortedKeys() (keys []string) {
	m.Set(func() { keys = m.sortedKeysLocked() })
	return keys
}

// wasAdmitted notes that a record has been written.
func (m *simMaster) wasAdmitted() {
	m.Set(func() {
		if m.admittedLocked() {
			m.admitted = time.Now()
		}
	})
}

// remembers reports whether the master shows that the deployment is not new.
func (m *simMaster) remembers() bool {
	r := m.recordOf()
	return !m.Down() && (strings.HasPrefix(r, "A") || strings.HasPrefix(r, "Q"))
}

// admittedLocked reports whether the master has the record of its run.
func (m *simMaster) admittedLocked() bool {
	return strings.HasPrefix(m.State("record"), "A "+m.RunID+" ")
}

// keptCounters reports whether the master has not lost its counters since it was admitted: it
// votes, it says so in its mark, or it restarted with all that it had on disk.
func (m *simMaster) keptCounters() (kept bool) {
	m.Set(func() {
		word := strings.Fields(m.State("record"))
		survived := len(word) == 4 && word[0] == "A" && m.State("durable") == word[1]
		kept = m.admittedLocked() || survived || len(word) == 7 && word[0] == "Q" && strings.Contains(word[4], "k")
	})
	return kept
}

// counterAheadLocked reports whether a counter exceeds the limit that the scripts set by the
// clock.
func (m *simMaster) counterAheadLocked() bool {
	for _, n := range m.Counters() {
		if n > wire.FenceLimit(m.NowLocked()) {
			return true
		}
	}
	return false
}

// votes reports whether the master votes, if its record is right.
func (m *simMaster) votes() (yes bool) {
	m.Set(func() { yes = m.admittedLocked() })
	return yes && !m.Down()
}

// server is the one at an address.
func (w *world) server(addr int) *simMaster {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	return w.net.at[addr]
}

// servers returns the servers that have an address.
func (w *world) servers() []*simMaster {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	return append([]*simMaster(nil), w.net.at...)
}

// mayForget reports whether m may lose all it has. With GuardOn at least one other master must
// remember: masters that are all empty are taken for new.
func (w *world) mayForget(m *simMaster) bool {
	if w.plan.guard != quorum.GuardOn || w.plan.wipes || w.plan.remembered {
		return true
	}
	for _, other := range w.servers() {
		if other != m && other.remembers() {
			return true
		}
	}
	return false
}

// stepTolerance and stepRate are those of package admission.
const (
	stepTolerance = 100 * time.Millisecond
	stepRate      = 100
)

// stepsBy is how far a clock may step so that every proxy must notice with the next vote: each
// must have heard the clock before, and knows it to within an interval. 0: not at all now.
func (w *world) stepsBy(m *simMaster, wish time.Duration) time.Duration {
	addr, record := w.net.addressOf(m), m.recordOf()
	if addr < 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	least := time.Duration(0)
	for _, pr := range w.places {
		if pr == nil {
			return 0
		}
		h := w.net.heard[pr.place][addr]
		if h.serial != pr.serial || h.server != m || h.record != record {
			return 0
		}
		least = max(least, h.width+stepTolerance+time.Since(h.at)/stepRate+w.plan.mostWait()+10*time.Millisecond)
	}
	if wish < 0 {
		return wish - least
	}
	return wish + least
}

// step makes a clock jump. Until it has been noticed no proxy starts that has never heard the
// clock.
func (w *world) step(m *simMaster, by time.Duration) {
	m.Set(func() {
		m.Ahead += by
		m.unnoticed = m.State("record")
		m.lost = time.Now()
	})
}

// noticed reports whether no proxy counts on a clock that has stepped.
func (w *world) noticed() bool {
	for _, m := range w.masters {
		waits := false
		m.Set(func() {
			waits = m.unnoticed != "" && m.unnoticed == m.State("record") && strings.HasPrefix(m.unnoticed, "A")
		})
		if waits {
			return false
		}
	}
	return true
}

// healthy reports whether all masters vote, if their records are right.
func (w *world) healthy() bool {
	for _, m := range w.servers() {
		if !m.votes() {
			return false
		}
	}
	return true
}

// forget makes one or more masters lose their memory within a short while, each in a way that ways
// names. Mostly it waits until all have recovered from the time before: masters in quarantine have
// little to lose.
func (f *faulter) forget(ways ...losing) {
	if f.w.plan.census && f.w.losses > 0 || !f.w.healthy() && f.random.IntN(10) > 0 {
		return
	}
	count := 1
	if f.random.IntN(2) == 0 {
		count += f.random.IntN(len(f.w.net.at))
	}
	for _, i := range f.random.Perm(len(f.w.net.at))[:count] {
		m, how := f.w.server(i), ways[f.random.IntN(len(ways))]
		if m.durable && how != losesFlush {
			how = losesNone
		}
		f.master().save()
		if how != losesNone && !f.w.mayForget(m) {
			return
		}
		f.lose(m, how)
		if !f.w.wait(f.moment(f.w.plan.faults.last / 8)) {
			return
		}
	}
}

// lose makes a master lose its memory, and starts it again if that ends the process.
func (f *faulter) lose(m *simMaster, how losing) {
	f.w.losses++
	if how == losesOld && f.random.IntN(3) == 0 {
		m.Set(m.becomesDurable) // from now on: its answer after the restart is no proof
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
		f.w.net.startMaster(m)
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
	for _, i := range f.random.Perm(len(f.w.net.at)) {
		m, how := f.w.server(i), losing(f.random.IntN(2))
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
