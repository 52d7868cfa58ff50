package netpoll

import "time"

// When workers start and rest.
const (
	busyPercent = 80                     // of a core: more is busy
	busyTime    = 100 * time.Millisecond // over which that is measured
	restPercent = 50                     // of what one worker fewer could do: less is idle
	restTime    = 500 * time.Millisecond // over which that is measured
	staleTime   = 50 * time.Millisecond  // a worker that gave no sample for so long is not busy
)

// load decides how many workers run: one more when all that run are busy, one fewer when they are idle.
// It has no clock of its own. A worker gives samples only while it runs.
type load struct {
	active  int // workers that run
	workers []workerLoad
	since   time.Time     // when used was 0
	used    time.Duration // processor time of all workers since then
}

// workerLoad is what load knows of one worker.
type workerLoad struct {
	wall, cpu time.Duration // not judged yet: less than busyTime
	busy      bool
	at        time.Time // of the last sample
}

// newLoad returns a load for up to most workers, with one active.
func newLoad(most int) load { return load{active: 1, workers: make([]workerLoad, most)} }

// sample tells that worker i used cpu of processor time in the wall time that ends now. It returns
// how many workers are to run.
func (l *load) sample(i int, now time.Time, wall, cpu time.Duration) (active int) {
	if i >= l.active { // about to rest
		return l.active
	}
	if l.since.IsZero() {
		l.since = now.Add(-wall)
	}
	l.used += cpu
	l.workers[i].sample(now, wall, cpu)
	past := now.Sub(l.since)
	switch {
	case l.active < len(l.workers) && l.allBusy(now):
		l.change(l.active+1, now)
	case past < restTime:
	case l.active > 1 && l.used*100 < past*time.Duration(l.active-1)*restPercent:
		l.change(l.active-1, now)
	default:
		l.since, l.used = now, 0
	}
	return l.active
}

func (w *workerLoad) sample(now time.Time, wall, cpu time.Duration) {
	w.at, w.wall, w.cpu = now, w.wall+wall, w.cpu+cpu
	if w.wall >= busyTime {
		w.busy = w.cpu*100 > w.wall*busyPercent
		w.wall, w.cpu = 0, 0
	}
}

// allBusy reports whether each active worker is busy.
func (l *load) allBusy(now time.Time) bool {
	for _, w := range l.workers[:l.active] {
		if !w.busy || now.Sub(w.at) > staleTime {
			return false
		}
	}
	return true
}

// change begins anew with another number of workers.
func (l *load) change(active int, now time.Time) {
	l.active, l.since, l.used = active, now, 0
	clear(l.workers)
}
