package scan

// QuitFinder looks for QUIT among the requests that a client sends while a command runs.
type QuitFinder struct {
	q    Requests
	rest []byte // the beginning of a request that is not complete
}

// Feed looks through the next bytes, which it leaves as they are, and reports whether a QUIT has
// come.
func (f *QuitFinder) Feed(b []byte) bool {
	if len(f.rest) > 0 {
		b = append(f.rest, b...)
	}
	for ev := Notable; len(b) > 0 && ev != More && ev != Malformed; {
		read := f.q.Scan
		if f.q.Collecting() {
			read = f.q.Collect
		}
		var n int
		if n, ev = read(b); ev == Notable && f.q.Kind == KindQuit {
			return true
		}
		switch b = b[n:]; ev {
		case Malformed:
			b = nil
		case Drop:
			b = b[f.q.Dropped:]
		}
	}
	f.rest = append(f.rest[:0:0], b...)
	return false
}
