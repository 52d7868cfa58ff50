package netpoll

// queue is a list of ready sockets, first in, first out. A Conn is in it at most once: its gate is in
// gateRunning. Whoever uses a queue holds the mutex of its Loops.
type queue struct {
	head, tail *Conn
	n          int
}

// push puts c at the end.
func (q *queue) push(c *Conn) {
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
	q.n++
}

// pushFront puts c before the others.
func (q *queue) pushFront(c *Conn) {
	c.next = q.head
	q.head = c
	if q.tail == nil {
		q.tail = c
	}
	q.n++
}

// pop takes the first out. The queue must not be empty.
func (q *queue) pop() *Conn {
	c := q.head
	q.head, c.next = c.next, nil
	if q.head == nil {
		q.tail = nil
	}
	q.n--
	return c
}
