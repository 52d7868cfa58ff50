package quorum

import "time"

const (
	minWindow = 64   // fills a packet: with fewer a master does more work for each lock
	maxWindow = 4096 // of masters far away
	// windowSlack is how much longer than the way to the masters an attempt may take at least: by
	// queues on the way and in the masters. More attempts at a time would only make these longer.
	windowSlack = 20 * time.Millisecond
)

// window is how many attempts run at a time. It follows the capacity of the masters and of this
// process: as long as LOCKs wait, it moves towards the number at which an attempt takes the
// target time. By Little's law that number is the throughput times the target. It takes values
// and returns values; its owner guards it.
type window struct {
	size int

	// The period between two changes of size: the attempts that began after it did.
	since time.Time
	n     int
	sum   time.Duration
	full  bool // LOCKs waited in it
}

// windowTarget is the time that an attempt should take if a majority of the masters is rtt away.
func windowTarget(rtt time.Duration) time.Duration { return rtt + max(rtt, windowSlack) }

// ended reports whether the attempt, which masters decided, ends the period.
func (w *window) ended(begun time.Time, took time.Duration, waits bool) bool {
	if begun.Before(w.since) {
		return false
	}
	w.n++
	w.sum += took
	w.full = w.full || waits
	return w.n >= w.size/2
}

// next begins a period with a new size.
func (w *window) next(now time.Time, target time.Duration) {
	if mean := w.sum / time.Duration(w.n); w.full {
		factor := float64(target) / float64(max(mean, 1))
		w.size = int(float64(w.size) * min(max(factor, 0.7), 1.25))
		w.size = min(max(w.size, minWindow), maxWindow)
	}
	w.since, w.n, w.sum, w.full = now, 0, 0, false
}
