package sim

import (
	"container/heap"
	"time"
)

// post carries out letters when they are due, one after another: in the order of time, and at the
// same instant in the order in which they were put in. It is guarded by the network's mu, which
// is held while a letter is carried out.
type post struct {
	queue  letters
	count  uint64
	timer  *time.Timer
	closed chan struct{}
	turns  []*simLink // that a loop is to read
}

// letter is something to be carried out at an instant.
type letter struct {
	due    time.Time
	number uint64
	link   *simLink // either a message of this link is due
	dir    direction
	do     func() // or this
}

type letters []letter

func (q letters) Len() int      { return len(q) }
func (q letters) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q letters) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].number < q[j].number
	}
	return q[i].due.Before(q[j].due)
}
func (q *letters) Push(x any) { *q = append(*q, x.(letter)) }
func (q *letters) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = letter{}
	*q = (*q)[:last]
	return x
}

// open makes the post ready; the caller runs deliver.
func (p *post) open() {
	p.timer = time.NewTimer(time.Hour)
	p.closed = make(chan struct{})
}

// putLocked makes l be carried out when it is due.
func (p *post) putLocked(l letter) {
	p.count++
	l.number = p.count
	heap.Push(&p.queue, l)
	if p.queue[0].number == l.number {
		p.timer.Reset(time.Until(l.due))
	}
}

// deliver carries out letters until the post is closed.
func (n *network) deliver() {
	for {
		select {
		case <-n.post.timer.C:
		case <-n.post.closed:
			return
		}
		n.deliverDue()
	}
}

func (n *network) deliverDue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, now := &n.post, time.Now()
	for len(p.queue) > 0 && !p.queue[0].due.After(now) {
		l := heap.Pop(&p.queue).(letter)
		if l.do != nil {
			l.do()
		} else {
			l.link.pumpLocked(l.dir)
		}
		for len(p.turns) > 0 {
			li := p.turns[0]
			p.turns = p.turns[1:]
			n.mu.Unlock()
			li.turn()
			n.mu.Lock()
		}
	}
	if len(p.queue) > 0 {
		p.timer.Reset(p.queue[0].due.Sub(now))
	}
}
