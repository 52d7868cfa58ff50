package resp

// quitFinder looks for QUIT among the requests that a client has sent behind a running command.
type quitFinder struct {
	q    requestScanner
	rest []byte // the beginning of a request that is not complete
}

// feed looks through the next bytes, which it leaves as they are, and tells whether a QUIT has come.
func (f *quitFinder) feed(b []byte) bool {
	if len(f.rest) > 0 {
		b = append(f.rest, b...)
	}
	for len(b) > 0 {
		if f.q.collecting {
			n, ev := f.q.collect(b)
			b = b[n:]
			if ev == evMore {
				break
			}
			continue
		}
		n, ev := f.q.scan(b)
		b = b[n:]
		switch {
		case ev == evNotable && f.q.kind == kQuit:
			return true
		case ev == evRaw:
			b = nil
		}
		if ev == evMore {
			break
		}
	}
	f.rest = append(f.rest[:0:0], b...)
	return false
}
