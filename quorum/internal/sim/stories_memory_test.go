package sim

import "time"

// returnOlder: the memory of a master gives way to another, in which it is admitted and grants;
// then it comes back. Meanwhile another master was away, and now a third is; the proxies have
// crashed.
func (f *faulter) returnOlder() {
	if !f.until(f.w.healthy) {
		return
	}
	all := f.shuffled()
	m, away, later := all[0], all[1], all[2]
	back := f.replaceMemory(m)
	if back == nil {
		return
	}
	if f.random.IntN(4) > 0 && !f.until(f.w.healthy) {
		return
	}
	ends := f.answerErrors(away)
	f.w.wait(f.moment(300 * time.Millisecond))
	crashed := f.crashAll()
	back()
	ends()
	if f.random.IntN(3) > 0 {
		end := f.answerErrors(later)
		defer end()
	}
	for _, pr := range crashed {
		f.w.startAgain(pr.place)
	}
	f.w.wait(f.moment(time.Second))
}

// replaceMemory empties a master in one of the ways in which what it had can come back, and
// returns how it does; nil if that is not possible now.
func (f *faulter) replaceMemory(m *simMaster) (back func()) {
	if !f.w.mayForget(m) {
		return nil
	}
	f.w.losses++
	lost := func(what string, change func()) {
		f.w.trace.note(m.index, "%s", what)
		m.Set(func() { change(); m.lost = time.Now() })
	}
	switch f.random.IntN(3) {
	case 0:
		swap := func() { m.SwapLocked(0, 1) }
		lost("SWAPDB", swap)
		return func() { lost("SWAPDB", swap) }
	case 1:
		m.save()
		lost("is emptied", m.FlushLocked)
		return func() { lost("an older snapshot is restored", func() { m.LoadLocked(m.saved) }) }
	}
	addr, to := f.w.net.addressOf(m), f.w.spare()
	if to == nil {
		return nil
	}
	f.move(addr, to)
	return func() { f.move(addr, m) }
}

// setRight: a clock that is hours ahead is set right, most masters forget at once, and all of
// them.
func (f *faulter) setRight() {
	if !f.until(f.w.healthy) {
		return
	}
	f.w.wait(f.moment(300 * time.Millisecond))
	if !f.clocksRight() || f.random.IntN(2) == 0 && !f.until(f.w.healthy) {
		return
	}
	way := []losing{losesAll, losesFlush}[f.random.IntN(2)]
	for _, m := range f.shuffled() {
		f.lose(m, way)
		f.w.wait(f.moment(5 * time.Millisecond))
	}
	f.w.wait(f.moment(time.Second))
}

// clocksRight sets clocks right that are hours ahead; false if the run ends before that is
// noticed.
func (f *faulter) clocksRight() bool {
	for _, m := range f.w.servers() {
		if m.Ahead < time.Minute {
			continue
		}
		for f.w.stepsBy(m, -m.Ahead) == 0 {
			if !f.w.wait(f.moment(20 * time.Millisecond)) {
				return false
			}
		}
		f.w.trace.note(m.index, "clock is set right, %v back", m.Ahead)
		f.w.step(m, -m.Ahead)
		if !f.until(f.w.noticed) {
			return false
		}
	}
	return true
}

// awayAWhile: a master answers nothing for a while.
func (f *faulter) awayAWhile() {
	end := f.answerErrors(f.master())
	f.w.wait(f.moment(3 * time.Second))
	end()
}

// oneAway: always the same master is away for a while: paused, cut off, or it refuses connections.
func (f *faulter) oneAway() {
	addr := int(f.w.plan.seed % uint64(len(f.w.net.at)))
	m := f.w.server(addr)
	m.away = true
	both := func(do func(*path, direction)) {
		f.w.net.each(-1, addr, func(p *path) { do(p, up); do(p, down) })
	}
	way := f.random.IntN(3)
	f.w.trace.note(addr, "is away: %s", []string{"paused", "cut off", "refuses connections"}[way])
	begin := []func(){func() { f.w.net.pauseMaster(m) }, func() { both(f.w.net.cut) }, func() { f.w.net.stopMaster(m, false) }}
	end := []func(){func() { f.w.net.resumeMaster(m) }, func() { both(f.w.net.heal) }, func() { f.w.net.startMaster(m) }}
	begin[way]()
	f.w.wait(f.moment(f.w.plan.faults.last))
	end[way]()
	f.w.trace.note(addr, "is back")
}
