package scan

// passPlain passes over whole plain requests at the front of b, most of its bytes as a rule, and
// returns how long they are. It knows only the usual forms; the first request that is not one
// of these, or is not complete, is left to begin.
func (q *Requests) passPlain(b []byte) (n int) {
	if q.place != between {
		return 0
	}
	passed := 0
	for n < len(b) && b[n] == '*' {
		used := wholeRequest(b[n:], KindPlain)
		if used == 0 {
			break
		}
		n += used
		passed++
	}
	q.Ended += int64(passed)
	q.Begun += uint64(passed)
	return n
}

// WholeLock reports whether b begins with a lock command that is complete and in the usual form.
// If it returns false, b may begin with one too.
func WholeLock(b []byte) bool { return len(b) > 0 && b[0] == '*' && wholeRequest(b, KindLock) > 0 }

// wholeRequest is the length of the request at the front of b, which begins with '*', if it is of
// the given kind; 0 if that is not certain.
func wholeRequest(b []byte, kind Kind) int {
	args, at := quickHeader(b)
	for arg := range args {
		if at >= len(b) || b[at] != '$' {
			return 0
		}
		size, used := quickHeader(b[at:])
		if used == 0 || len(b)-at-used-2 < size {
			return 0
		}
		at += used
		if arg == 0 && Classify(b[at:at+size]) != kind {
			return 0
		}
		at += size + 2
	}
	if args == 0 {
		return 0
	}
	return at
}

// Name returns the name of the request at the front of b, which begins with '*'; nil where its
// header is not complete or not of the usual form.
func Name(b []byte) []byte {
	args, at := quickHeader(b)
	if args == 0 || at >= len(b) || b[at] != '$' {
		return nil
	}
	size, used := quickHeader(b[at:])
	if used == 0 || len(b)-at-used < size {
		return nil
	}
	return b[at+used : at+used+size]
}
