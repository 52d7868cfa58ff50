package quorum

// ring is the commands of a lane that are not answered yet, oldest first. The zero value is empty. It
// grows and never shrinks: the lane bounds it.
type ring struct {
	buf  []command // length zero or a power of two
	head int
	n    int
}

func (r *ring) push(c command) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = c
	r.n++
}

// pop takes out the oldest command; ok is false if there is none.
func (r *ring) pop() (c command, ok bool) {
	if r.n == 0 {
		return command{}, false
	}
	c = r.buf[r.head]
	r.buf[r.head] = command{} // lets go of what it points to
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return c, true
}

func (r *ring) grow() {
	bigger := make([]command, max(64, 2*len(r.buf)))
	for i := range r.n {
		bigger[i] = r.buf[(r.head+i)&(len(r.buf)-1)]
	}
	r.buf, r.head = bigger, 0
}
