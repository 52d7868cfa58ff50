package quorum

import (
	"container/heap"
	"sync"
	"time"
)

// deadline is a function that runs at a time, unless it is cancelled earlier. It belongs to one
// queue, whose mu guards it. The zero value is not set.
type deadline struct {
	at     time.Time
	expire func() // called without locks
	index  int    // in the queue, from 1; 0: not in it
}

// deadlines is a queue in order of time with one timer. Safe for concurrent use.
//
// The timer stays set when the first deadline is cancelled, which is the case of nearly every one:
// it then finds no deadline that is due and is set for the next. So it runs about once in the
// duration of a deadline, for any number of deadlines.
type deadlines struct {
	mu         sync.Mutex
	queue      deadlineHeap
	timer      *time.Timer            // nil before the first
	wake       time.Time              // when the timer runs; zero: it does not
	after      func()                 // called after expired deadlines, without locks
	wasLate    func(by time.Duration) // called without locks; may be nil
	catchingUp bool                   // the timer was overdue, and runs again after catchUp
	closed     bool
}

// set makes d expire at the time, once.
func (q *deadlines) set(d *deadline, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeLocked(d)
	if q.closed {
		return
	}
	d.at = at
	heap.Push(&q.queue, d)
	if d.index == 1 {
		q.armLocked()
	}
}

// within makes d expire at the time at the latest.
func (q *deadlines) within(d *deadline, at time.Time) {
	q.mu.Lock()
	inTime := d.index > 0 && !d.at.After(at)
	q.mu.Unlock()
	if !inTime {
		q.set(d, at)
	}
}

// cancel takes d out. Its expire may be running already.
func (q *deadlines) cancel(d *deadline) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeLocked(d)
}

func (q *deadlines) removeLocked(d *deadline) {
	if d.index > 0 {
		heap.Remove(&q.queue, d.index-1)
	}
}

// armLocked sets the timer for the first deadline, unless it runs before that anyway, or was late.
func (q *deadlines) armLocked() {
	if len(q.queue) == 0 || q.catchingUp {
		return
	}
	first := q.queue[0].at
	if !q.wake.IsZero() && !q.wake.After(first) {
		return
	}
	q.wake = first
	left := max(time.Until(first), 1) // Reset(0) crashes Go's race detector in simulated time
	if q.timer == nil {
		q.timer = time.AfterFunc(left, q.run)
		return
	}
	q.timer.Reset(left)
}

// If the timer runs later than it should by overdue, this process did not get the processor. It
// may not have read the answers of masters yet, so it waits for catchUp before any deadline
// expires.
const (
	overdue = 5 * time.Millisecond
	catchUp = 10 * time.Millisecond
)

// run is called by the timer.
func (q *deadlines) run() {
	now := time.Now()
	again, by := q.takeOverdue(now)
	if by > 0 && q.wasLate != nil {
		q.wasLate(by)
	}
	if again {
		return
	}
	ran := false
	for {
		d := q.next(now)
		if d == nil {
			break
		}
		d.expire()
		ran = true
	}
	if ran {
		q.after()
	}
}

// takeOverdue returns by how much the timer runs late. again: for the first time by overdue, so it
// was set for catchUp and no deadline expires before.
func (q *deadlines) takeOverdue(now time.Time) (again bool, by time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.catchingUp && now.Before(q.wake) {
		return true, 0
	}
	if q.closed || q.catchingUp || q.wake.IsZero() {
		q.catchingUp = false
		return false, 0
	}
	if by = now.Sub(q.wake); by < overdue {
		return false, by
	}
	q.catchingUp, q.wake = true, now.Add(catchUp)
	q.timer.Reset(catchUp)
	return true, by
}

// next takes out the first deadline that is due; without one it sets the timer.
func (q *deadlines) next(now time.Time) *deadline {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) > 0 && !q.queue[0].at.After(now) {
		return heap.Pop(&q.queue).(*deadline)
	}
	q.wake = time.Time{}
	q.armLocked()
	return nil
}

// deadlineHeap implements heap.Interface.
type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *deadlineHeap) Push(d any) {
	*h = append(*h, d.(*deadline))
	d.(*deadline).index = len(*h)
}

func (h *deadlineHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	d.index = 0
	return d
}

// close stops the timer and expires all deadlines now, so that no caller waits any longer. A
// deadline that is set after that never expires.
func (q *deadlines) close() {
	q.mu.Lock()
	q.closed = true
	left := q.queue
	q.queue = nil
	for _, d := range left {
		d.index = 0
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	for _, d := range left {
		d.expire()
	}
}
