package sim

import (
	"strconv"
	"time"

	"lockproxy/quorum"
)

// answerErrors makes a master answer every command with an error, until the function returned is
// called.
func (f *faulter) answerErrors(m *simMaster) (end func()) {
	f.w.trace.note(m.index, "is loading")
	f.w.net.setTrouble(m, troubles[0], 1)
	return func() {
		f.w.trace.note(m.index, "has loaded")
		f.w.net.setTrouble(m, "", 0)
	}
}

// part cuts the way from a proxy's place to a master, until the function returned is called.
func (f *faulter) part(place int, m *simMaster, dirs ...direction) (end func()) {
	p := f.w.net.paths[place][f.w.net.addressOf(m)]
	f.w.trace.note(m.index, "cut from proxy place %d, %v", place, dirs)
	for _, dir := range dirs {
		f.w.net.cut(p, dir)
	}
	return func() {
		f.w.trace.note(m.index, "healed from proxy place %d", place)
		for _, dir := range dirs {
			f.w.net.heal(p, dir)
		}
	}
}

// shuffled are all masters, in some order.
func (f *faulter) shuffled() []*simMaster {
	at := f.w.servers()
	all := make([]*simMaster, 0, len(at))
	for _, i := range f.random.Perm(len(at)) {
		all = append(all, at[i])
	}
	return all
}

// until waits until something is so, a few milliseconds at a time; false if the run ends before.
func (f *faulter) until(so func() bool) bool {
	for !so() {
		if !f.w.wait(f.moment(5 * time.Millisecond)) {
			return false
		}
	}
	return true
}

// quarantine is how long a master stays out that has lost its memory.
func (f *faulter) quarantine() time.Duration { return f.w.plan.quarantine() }

// forgetInTurn: one master is away while locks are taken, so that its counters are too low. Then
// it is back, another is emptied, and the third is away: either until the quarantine should have
// ended, or from then on, if no client has locked meanwhile. Neither the first nor the second
// knows the numbers that were given out.
func (f *faulter) forgetInTurn() {
	if !f.until(f.w.healthy) || !f.clocksRight() || !f.until(f.w.healthy) {
		return
	}
	all := f.shuffled()
	back := f.answerErrors(all[0])
	f.w.wait(f.moment(200 * time.Millisecond))
	switch f.random.IntN(3) {
	case 0: // the third is away until the quarantine should have ended
		back()
		f.w.wait(f.moment(2 * time.Millisecond))
		f.lose(all[1], losesFlush)
		back = f.answerErrors(all[2])
		f.w.wait(f.quarantine())
	case 1: // it hears of the quarantine, and is away when that ends; perhaps all are
		f.w.idle.Store(true)
		f.w.wait(f.w.plan.mostHold + f.w.plan.mostWait())
		back()
		f.lose(all[1], losesFlush)
		f.w.wait(f.moment(1300 * time.Millisecond))
		back = f.answerErrors(all[2])
		if f.random.IntN(2) == 0 {
			end := f.answerErrors(all[0])
			f.w.wait(f.quarantine())
			end()
		} else {
			f.w.wait(f.quarantine())
		}
		f.w.idle.Store(false)
	default: // it is away from then on
		f.w.idle.Store(true)
		f.w.wait(f.w.plan.mostHold + f.w.plan.mostWait())
		back()
		f.lose(all[1], losesFlush)
		f.w.wait(f.moment(10 * time.Millisecond))
		f.until(f.w.healthy)
		back = f.answerErrors(all[2])
		f.w.idle.Store(false)
	}
	f.w.wait(f.moment(300 * time.Millisecond))
	back()
}

// lateIndex is the number of the client in requestsLate.
const lateIndex = proberIndex + 1

// requestsLate: the SET of a lock is on its way to one master until the lock has ended. Meanwhile
// an EXTEND reaches only one of the masters that granted it, and another client has the lock. Then
// the SET lands, and another EXTEND follows.
func (f *faulter) requestsLate() {
	all, place := f.shuffled(), f.place()
	pr, other := f.w.proxyAt(place), f.w.proxyAt((place+1)%len(f.w.places))
	if !f.until(f.w.healthy) || pr == nil || other == nil {
		return
	}
	c := &simClient{w: f.w, index: lateIndex, random: f.random}
	ttl := f.w.plan.clients.ttl[0]
	want := quorum.Request{Key: "late-" + strconv.Itoa(f.moments), TTL: ttl}
	healed, ends := false, []func(){f.part(place, all[0], up)}
	heal := func() {
		for _, end := range ends {
			end()
		}
		healed = true
	}
	cl, err := c.ask(pr, want, false)
	if err == nil && f.w.wait(f.moment(ttl/2)) {
		ends = append(ends, f.part(place, all[1], up))
		f.w.wait(ttl/4 + f.moment(ttl/4))
		c.extend(cl, pr)
		f.w.wait(f.moment(ttl / 2))
		if next, err := c.ask(other, want, false); err == nil {
			f.w.wait(f.moment(5 * time.Millisecond))
			c.release(next, other)
		}
		for range 3 {
			if !healed && f.random.IntN(2) == 0 {
				heal()
			}
			c.extend(cl, pr)
		}
	}
	if !healed {
		heal()
	}
	if err == nil {
		c.release(cl, pr)
	}
}

// forgetDuringRaise: the counter of one master is ahead, because the others were away. It grants
// a lock together with another, whose counter must be raised. The raise is on its way when the
// first is emptied. Then the third is away, so that no client can lock, until the quarantine
// ends; and then the one that was raised.
func (f *faulter) forgetDuringRaise() {
	if !f.until(f.w.healthy) {
		return
	}
	all := f.shuffled()
	ahead, raised, third := all[0], all[1], all[2]
	loaded := f.answerErrors(third)
	back := f.answerErrors(raised)
	f.w.wait(f.moment(100 * time.Millisecond))
	granted := f.w.net.await("acquire", 0, f.w.net.addressOf(raised))
	back()
	select {
	case <-granted:
	case <-f.w.stopped:
		loaded()
		return
	}
	late := f.part(0, raised, up)
	f.w.wait(f.moment(2 * time.Millisecond))
	away := f.part(0, ahead, up, down)
	f.lose(ahead, losesFlush)
	loaded()
	f.w.wait(f.moment(30 * time.Millisecond))
	late()
	f.w.wait(f.moment(2 * time.Millisecond))
	loaded = f.answerErrors(third)
	f.w.wait(f.quarantine() + f.moment(50*time.Millisecond))
	back = f.answerErrors(raised)
	loaded()
	f.w.wait(f.moment(200 * time.Millisecond))
	back()
	away()
}

// forgetMost: while locks are held a majority of the masters is emptied, one after another. Some
// say afterwards that they keep everything on disk, and no proxy is left that knows that they did
// not.
func (f *faulter) forgetMost() {
	since := time.Now()
	// without the guard no record shows it
	recovered := func() bool { return f.w.healthy() || time.Since(since) > 2*f.quarantine() }
	if !f.until(recovered) {
		return
	}
	for _, m := range f.w.masters {
		m.save()
	}
	f.w.wait(f.moment(100 * time.Millisecond))
	way, lies := []losing{losesAll, losesOld, losesFlush}[f.random.IntN(3)], f.random.IntN(2) == 0
	if lies = lies && way == losesOld; lies {
		f.crashAll()
	}
	for _, m := range f.shuffled()[:majority(len(f.w.net.at))] {
		how := way
		if m.durable && how != losesFlush {
			how = losesNone
		}
		if lies && how == losesOld {
			m.Set(m.becomesDurable) // from now on
		}
		f.lose(m, how)
		f.w.wait(f.moment(5 * time.Millisecond))
	}
	for place := range f.w.places {
		if lies {
			f.w.start(place)
		}
	}
	f.w.wait(f.moment(300 * time.Millisecond))
}

// stepTogether: while locks are held the clocks of a majority of the masters jump ahead.
func (f *faulter) stepTogether() {
	if !f.until(f.w.healthy) {
		return
	}
	f.w.wait(f.moment(100 * time.Millisecond))
	for _, m := range f.shuffled()[:majority(len(f.w.net.at))] {
		if by := f.w.stepsBy(m, f.moment(3*time.Second)); by != 0 {
			f.w.trace.note(m.index, "clock steps by %v", by)
			f.w.step(m, by)
		}
	}
	f.w.wait(f.moment(300 * time.Millisecond))
}

// crashAll ends all proxies, and returns them.
func (f *faulter) crashAll() (gone []*simProxy) {
	for place := range f.w.places {
		if pr := f.w.takeDown(place); pr != nil {
			gone = append(gone, pr)
		}
	}
	for _, pr := range gone {
		f.w.trace.add(event{what: "crash", proxy: pr.serial, master: -1, client: -1})
		f.w.crash(pr)
	}
	return gone
}

// newcomer: all proxies crash, most masters are emptied, and the others, which know of the locks,
// are out of reach for the proxies that come.
func (f *faulter) newcomer() {
	if !f.until(f.w.healthy) {
		return
	}
	all := f.shuffled()
	keep := 1 + f.random.IntN(len(all)/2)
	f.crashAll()
	var ends []func()
	for _, m := range all[:keep] {
		for place := range f.w.places {
			if f.random.IntN(4) > 0 {
				ends = append(ends, f.part(place, m, up, down))
			}
		}
	}
	for _, m := range all[keep:] {
		f.lose(m, losing(f.random.IntN(2)*int(losesFlush)))
	}
	for place := range f.w.places {
		f.w.wait(f.moment(200 * time.Millisecond))
		f.w.start(place)
	}
	f.w.wait(f.moment(4 * time.Second))
	for _, end := range ends {
		end()
	}
}

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

// replaceMemory empties a master in one of the ways in which its memory can come back, and
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

// awayAWhile: a master answers no command for a while.
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
	begin := []func(){
		func() { f.w.net.pauseMaster(m) }, func() { both(f.w.net.cut) }, func() { f.w.net.stopMaster(m, false) },
	}
	end := []func(){
		func() { f.w.net.resumeMaster(m) }, func() { both(f.w.net.heal) }, func() { f.w.net.startMaster(m) },
	}
	begin[way]()
	f.w.wait(f.moment(f.w.plan.faults.last))
	end[way]()
	f.w.trace.note(addr, "is back")
}
