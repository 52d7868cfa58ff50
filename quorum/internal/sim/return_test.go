package sim

import (
	"strings"
	"time"
)

// Faults that bring an older state of a master back, or take keys from it, while its process lives
// on.

// spare is a server that has no address now; nil without one.
func (w *world) spare() *simMaster {
	at := w.servers()
	for _, m := range w.masters {
		free := true
		for _, other := range at {
			free = free && other != m
		}
		if free && !m.Down() {
			return m
		}
	}
	return nil
}

// move makes an address lead to another server.
func (f *faulter) move(addr int, to *simMaster) {
	f.w.losses++
	to.Set(func() { to.lost = time.Now() })
	before := f.w.net.move(addr, to, f.random.IntN(2) == 0)
	f.w.trace.note(to.index, "is at the address of master %d, where server %d was", addr, before.index)
}

// moveAddress: an address leads to another server for a while, then to the first one again.
func (f *faulter) moveAddress() {
	if f.w.plan.census && f.w.losses > 0 || !f.w.healthy() && f.random.IntN(10) > 0 {
		return
	}
	addr, to := f.random.IntN(len(f.w.net.at)), f.w.spare()
	before := f.w.server(addr)
	if to == nil || before.durable || !f.w.mayForget(before) {
		return
	}
	f.move(addr, to)
	if f.random.IntN(2) == 0 {
		f.until(func() bool { return to.votes() }) // it grants: the other server knows none of these locks
		if !f.w.wait(f.moment(300 * time.Millisecond)) {
			return
		}
	} else if !f.w.wait(f.moment(2 * f.w.plan.faults.last)) {
		return
	}
	if !before.Down() && f.w.mayForget(to) && f.random.IntN(5) > 0 {
		f.move(addr, before)
	}
}

// swapAddresses: two addresses change their servers, and perhaps change back.
func (f *faulter) swapAddresses() {
	if !f.w.healthy() {
		return
	}
	all := f.random.Perm(len(f.w.net.at))
	a, b := all[0], all[1]
	for range 1 + f.random.IntN(2) {
		one, other := f.w.server(a), f.w.server(b)
		if !f.w.mayForget(one) || !f.w.mayForget(other) {
			return
		}
		f.move(a, other)
		f.w.wait(f.moment(5 * time.Millisecond))
		f.move(b, one)
		if !f.w.wait(f.moment(2 * f.w.plan.faults.last)) {
			return
		}
	}
}

// swapDB: SWAPDB on a master, and after a while back.
func (f *faulter) swapDB() {
	m := f.master()
	if m.durable || !f.w.healthy() && f.random.IntN(10) > 0 || !f.w.mayForget(m) {
		return
	}
	f.w.losses++
	swap := func() {
		f.w.trace.note(m.index, "SWAPDB")
		m.Set(func() { m.SwapLocked(0, 1); m.lost = time.Now() })
	}
	swap()
	if f.random.IntN(2) == 0 {
		f.until(m.votes)
	}
	if f.w.wait(f.moment(2*f.w.plan.faults.last)) && f.w.mayForget(m) {
		swap()
	}
}

// restoreSnapshot: the machine of a master goes back to a snapshot that was taken before the
// master was admitted last. The process, its run_id and the clock go on.
func (f *faulter) restoreSnapshot() {
	m := f.master()
	older := false
	m.Set(func() {
		saved := m.saved.State("record")
		older = strings.HasPrefix(saved, "A "+m.RunID+" ") && strings.HasPrefix(m.State("record"), "A ") &&
			saved != m.State("record")
	})
	switch {
	case m.durable || m.Down():
	case older && f.w.mayForget(m):
		f.w.losses++
		f.w.trace.note(m.index, "an older snapshot is restored")
		m.Set(func() { m.LoadLocked(m.saved); m.lost = time.Now() })
	case f.random.IntN(2) == 0 && m.votes():
		m.save()
		if f.random.IntN(2) == 0 && f.w.healthy() && f.w.mayForget(m) {
			f.lose(m, losesFlush) // so that the snapshot is older than the last admission
		}
	}
}

// evict: a master is given a limit and a policy that evicts. Once the proxies have seen that, it
// evicts, and the policy is set back.
func (f *faulter) evict() {
	m := f.master()
	if m.durable || !m.votes() || !f.w.healthy() && f.random.IntN(10) > 0 {
		return
	}
	f.w.losses++
	policy := func(limit, name string) {
		f.w.trace.note(m.index, "maxmemory %s, %s", limit, name)
		m.Set(func() { m.Facts["maxmemory"], m.Facts["maxmemory_policy"] = limit, name })
	}
	if f.random.IntN(2) == 0 {
		f.w.trace.note(m.index, "CONFIG RESETSTAT")
		m.Set(m.ResetStatLocked)
	}
	var crashed []*simProxy
	if f.random.IntN(3) == 0 {
		crashed = f.crashAll()
	}
	policy("1000000", "allkeys-lru")
	f.w.wait(seenWithin)
	m.Set(func() {
		m.lost = time.Now()
		left := 1 + f.random.IntN(3)
		for _, key := range m.sortedKeysLocked() {
			if left--; left >= 0 {
				m.EvictLocked(key)
			}
		}
		f.w.trace.note(m.index, "evicts: %s in all", m.Facts["evicted_keys"])
	})
	f.w.wait(f.moment(500 * time.Millisecond))
	policy("1000000", "noeviction")
	for _, pr := range crashed {
		f.w.startAgain(pr.place)
	}
	f.w.wait(seenWithin)
}

// seenWithin is how long it takes until every proxy has read INFO again, or does not ask the
// master.
const seenWithin = 2500 * time.Millisecond
