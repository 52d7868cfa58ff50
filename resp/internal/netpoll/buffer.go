package netpoll

import "sync"

// ChunkSize is how many bytes one read takes from a socket at most.
const ChunkSize = 64 << 10

var pool = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

// Buffer holds bytes read from a connection until they are processed. It has memory only while it
// holds bytes, so that an idle connection costs none. The zero value is empty. Not safe for
// concurrent use.
type Buffer struct {
	mem    []byte
	pooled *[ChunkSize]byte // mem, if it came from the pool
	r, w   int              // mem[r:w] is not processed yet
}

// Bytes returns the bytes that are not processed yet. They are valid until the next call of Room,
// Hold or Release; Skip leaves them in place.
func (x *Buffer) Bytes() []byte { return x.mem[x.r:x.w] }

// Skip takes away the first n bytes.
func (x *Buffer) Skip(n int) { x.r += n }

// Room returns memory to read into, after the bytes that are there. It is never empty: a buffer
// that is full of bytes doubles.
func (x *Buffer) Room() []byte {
	switch {
	case x.mem == nil:
		x.pooled = pool.Get().(*[ChunkSize]byte)
		x.mem = x.pooled[:]
	case x.r == x.w:
		x.r, x.w = 0, 0
	case x.w == len(x.mem) && x.r > 0:
		x.w = copy(x.mem, x.mem[x.r:x.w])
		x.r = 0
	case x.w == len(x.mem):
		mem := make([]byte, 2*len(x.mem))
		copy(mem, x.mem)
		x.free()
		x.mem = mem
	}
	return x.mem[x.w:]
}

// Grew adds the first n bytes of Room to the buffer.
func (x *Buffer) Grew(n int) { x.w += n }

// Hold appends the bytes of y. It takes over the memory of y.
func (x *Buffer) Hold(y Buffer) {
	if x.r == x.w {
		x.free()
		*x = y
		return
	}
	x.add(y.Bytes())
	y.free()
}

// add appends a copy of b.
func (x *Buffer) add(b []byte) {
	for len(b) > 0 {
		n := copy(x.Room(), b)
		x.w += n
		b = b[n:]
	}
}

// Release gives the memory back if there are no bytes in it.
func (x *Buffer) Release() {
	if x.r == x.w {
		x.free()
		x.mem, x.r, x.w = nil, 0, 0
	}
}

func (x *Buffer) free() {
	if x.pooled != nil {
		pool.Put(x.pooled)
		x.pooled = nil
	}
}
