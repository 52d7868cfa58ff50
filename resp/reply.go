package resp

import "bytes"

// maxDepth bounds how deep the upstream's replies may nest. Redis' own never come near it.
const maxDepth = 1024

// headSize is how much of a reply's beginning is kept when somebody wants to know what it was: enough for
// "*4\r\n$12\r\npunsubscribe\r\n" and for the code of an error.
const headSize = 40

// level is an aggregate that is not complete: left elements are still to come. An attribute is no element of what surrounds it.
type level struct {
	left      int64
	attribute bool
}

// replyScanner finds the replies in an upstream's bytes, RESP2 and RESP3: a reply is one top-level frame, together with the
// attributes in front of it; a frame of type > is a push and no reply. It keeps none of the bytes but the head of a reply.
//
// A frame of a type it does not know is taken for a line. Where a length cannot be read it is lost for good: broken is set, and every
// line counts as a frame from there on, so that an error line can still be found.
//
// The zero value is at the start of a connection. Not safe for concurrent use.
type replyScanner struct {
	stack  []level
	body   int64 // bytes of a blob still to come, its line end included
	inLine bool  // in a line whose content does not matter
	inside bool  // between the start and the end of a top-level frame
	broken bool

	first   byte // type of the current or last top-level frame, attributes aside
	head    [headSize]byte
	headLen int
	lastInt int64 // the last integer in the current or last top-level frame
}

// next reads the front of b, which is not empty, up to the end of a top-level frame or of b, and returns how much that is and whether
// a frame ended there.
func (s *replyScanner) next(b []byte) (n int, ended bool) {
	if !s.inside {
		s.inside, s.first, s.headLen, s.lastInt = true, 0, 0, 0
	}
	for n < len(b) {
		used, done := s.step(b[n:])
		if used == 0 {
			return n, false // an incomplete header line
		}
		n += used
		if done {
			s.inside = false
			return n, true
		}
	}
	return n, false
}

// nullBulk is RESP2's reply for what is not there.
var nullBulk = []byte("$-1\r\n")

// passScalars passes over whole replies of the usual kinds at the front of b, strings and numbers, and returns how long and how many they
// are. What it does not know it leaves to next.
func (s *replyScanner) passScalars(b []byte) (n, replies int) {
	if s.inside || s.broken {
		return 0, 0
	}
	for n < len(b) {
		used := 0
		switch b[n] {
		case '$':
			if size, header := quickHeader(b[n:]); header > 0 && header+size+2 <= len(b)-n {
				used = header + size + 2
			} else if bytes.HasPrefix(b[n:], nullBulk) {
				used = len(nullBulk)
			}
		case ':':
			used = bytes.IndexByte(b[n:], '\n') + 1
			if used > 0 && bytes.IndexByte(b[n:n+used], '\r') != used-2 {
				used = 0 // a header ends behind the first \r, whatever follows it
			}
		case '+':
			used = bytes.IndexByte(b[n:], '\n') + 1
		}
		if used == 0 {
			break
		}
		n += used
		replies++
	}
	return n, replies
}

// record keeps the beginning of the frame for those who ask what it was; b is what next used of it.
func (s *replyScanner) record(b []byte) {
	s.headLen += copy(s.head[s.headLen:], b)
}

// step reads one piece: a part of a blob, a part of a line, or a header. It returns 0 where a header line is not complete.
func (s *replyScanner) step(b []byte) (n int, done bool) {
	switch {
	case s.body > 0:
		n = int(min(s.body, int64(len(b))))
		s.body -= int64(n)
		return n, s.body == 0 && s.elementDone()
	case s.inLine || s.broken:
		end := bytes.IndexByte(b, '\n')
		s.inLine = end < 0
		if end < 0 {
			return len(b), false
		}
		return end + 1, s.broken || s.elementDone()
	}
	t := b[0]
	if len(s.stack) == 0 && t != '|' {
		s.first = t
	}
	switch t {
	case '$', '=', '!', '*', '~', '>', '%', '|':
		return s.sized(b)
	case ':':
		return s.integer(b)
	}
	s.inLine = true
	used, done := s.step(b[1:])
	return used + 1, done
}

// integer reads a line such as ":5\r\n" and remembers the number.
func (s *replyScanner) integer(b []byte) (n int, done bool) {
	v, n, more, ok := header(b)
	if more {
		return 0, false
	}
	if !ok {
		s.inLine = true
		return 1, false
	}
	s.lastInt = v
	return n, s.elementDone()
}

// sized reads the header of a blob or of an aggregate.
func (s *replyScanner) sized(b []byte) (n int, done bool) {
	v, n, more, ok := header(b)
	switch {
	case more:
		return 0, false
	case !ok || v < -1 || v > 1<<62:
		s.broken = true
		return 1, false
	}
	switch b[0] {
	case '$', '=', '!':
		if v < 0 {
			return n, s.elementDone()
		}
		s.body = v + 2
		return n, false
	case '%', '|':
		v *= 2
	}
	if v <= 0 {
		return n, b[0] != '|' && s.elementDone()
	}
	if len(s.stack) == maxDepth {
		s.broken = true
		return n, false
	}
	s.stack = append(s.stack, level{v, b[0] == '|'})
	return n, false
}

// elementDone counts an element of the innermost aggregate and tells whether the top-level frame ended with it.
func (s *replyScanner) elementDone() bool {
	for len(s.stack) > 0 {
		top := &s.stack[len(s.stack)-1]
		if top.left--; top.left > 0 {
			return false
		}
		attribute := top.attribute
		s.stack = s.stack[:len(s.stack)-1]
		if attribute {
			return false // what it belongs to is still to come
		}
	}
	return true
}
