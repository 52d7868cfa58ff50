package admission

import "sync/atomic"

// maxFloor bounds the floors that are written, and leaves room for counters to rise.
const maxFloor = 1<<53 - 1<<40

// Floor is the highest fencing number that this proxy knows of: issued, read from a master, or
// written. No counter that it writes is below. Safe for concurrent use; the zero value knows of
// none.
type Floor struct{ top atomic.Uint64 }

// Raise notes that number has been used.
func (f *Floor) Raise(number uint64) {
	for have := f.top.Load(); have < number && number < maxFloor; have = f.top.Load() {
		if f.top.CompareAndSwap(have, number) {
			return
		}
	}
}

// Top returns the highest number.
func (f *Floor) Top() uint64 { return f.top.Load() }
