package scan

// QuitFinder looks for QUIT among the requests that a client has sent behind a running command.
type QuitFinder struct {
	q    Requests
	rest []byte // the beginning of a request that is not complete
}

// Feed looks through the next bytes, which it leaves as they are, and reports whether a QUIT has come.
func (f *QuitFinder) Feed(b []byte) bool {
	if len(f.rest) > 0 {
		b = append(f.rest, b...)
	}
	for len(b) > 0 {
		if f.q.collecting {
			n, ev := f.q.Collect(b)
			b = b[n:]
			if ev == More {
				break
			}
			continue
		}
		n, ev := f.q.Scan(b)
		b = b[n:]
		switch {
		case ev == Notable && f.q.Kind == KindQuit:
			return true
		case ev == Malformed:
			b = nil
		}
		if ev == More {
			break
		}
	}
	f.rest = append(f.rest[:0:0], b...)
	return false
}
