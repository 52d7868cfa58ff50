package resp

// gathered collects the bytes of b that one write forwards: b[from:to], then b[next:] up to an
// offset that the caller passes. Dropped bytes leave a gap, which drop closes in place. Each byte
// moves once at most.
type gathered struct {
	b              []byte
	from, to, next int
}

// any reports whether there are bytes to forward before offset at.
func (g *gathered) any(at int) bool { return g.to > g.from || at > g.next }

// drop leaves out the n bytes at offset at.
func (g *gathered) drop(at, n int) {
	if g.to < g.next {
		copy(g.b[g.to:], g.b[g.next:at])
	}
	g.to += at - g.next
	g.next = at + n
}

// take returns the bytes to forward before offset at, and starts again there.
func (g *gathered) take(at int) []byte {
	g.drop(at, 0)
	whole := g.b[g.from:g.to]
	g.from, g.to = at, at
	return whole
}
