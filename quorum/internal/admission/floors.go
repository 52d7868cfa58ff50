package admission

import (
	"sync/atomic"

	"lockproxy/quorum/internal/wire"
)

// Floors are the highest fencing numbers that this proxy knows of, one for each counter: what it
// issued, read from a master, or wrote. Every counter that it writes is at least that. Safe for
// concurrent use; the zero value knows of none.
type Floors struct{ n [wire.Slots]atomic.Uint64 }

// Raise notes that number has been used with the counter.
func (f *Floors) Raise(counter uint16, number uint64) {
	at := &f.n[counter%wire.Slots]
	for have := at.Load(); have < number; have = at.Load() {
		if at.CompareAndSwap(have, number) {
			return
		}
	}
}

// At returns the floor of one counter.
func (f *Floors) At(counter uint16) uint64 { return f.n[counter%wire.Slots].Load() }

// top returns the highest of all.
func (f *Floors) top() (top uint64) {
	for i := range f.n {
		top = max(top, f.n[i].Load())
	}
	return top
}

// counters returns all of them.
func (f *Floors) counters() (all counters) {
	for i := range f.n {
		all[i] = f.n[i].Load()
	}
	return all
}
