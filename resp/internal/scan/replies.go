package scan

import "bytes"

// maxDepth bounds how deep the upstream's replies may nest. A script's reply is bounded by Lua's
// stack, some thousand levels; other replies never come near that.
const maxDepth = 1 << 14

// maxLength bounds the length of a blob and the number of elements. No reply comes near, and twice
// as many, the elements of a map, fit an int64.
const maxLength = 1 << 61

// keptDepth is for how deep replies the memory is kept until the next one.
const keptDepth = 64

// level is an aggregate that is not complete: left elements are still to come. An attribute is no
// element of what surrounds it.
type level struct {
	left      int64
	attribute bool
}

// Replies finds the replies in an upstream's bytes, RESP2 and RESP3: a reply is one top-level
// frame, together with the attributes in front of it; a frame of type > is a push and no reply. It
// keeps none of the bytes.
//
// A frame of an unknown type is taken for a line. If a length cannot be read, Broken is true for
// good, and no later frame is found.
//
// The zero value is at the start of a connection. Not safe for concurrent use.
type Replies struct {
	First byte // type of the current or last top-level frame, attributes aside

	stage stage
	stack []level
	body  int64 // bytes of a blob still to come, its line end included
}

// stage is the kind of place that the next byte has in the frames.
type stage uint8

const (
	outside stage = iota // between two top-level frames
	inFrame              // at the beginning of an element, or in a blob
	inLine               // in a line, whose content does not matter
	broken               // lengths cannot be read any more
)

// Inside reports whether a top-level frame has begun and not ended.
func (s *Replies) Inside() bool { return s.stage == inFrame || s.stage == inLine }

// Depth returns how many aggregates surround the next byte.
func (s *Replies) Depth() int { return len(s.stack) }

// Broken reports whether a length could not be read.
func (s *Replies) Broken() bool { return s.stage == broken }

// Next reads the front of b, which is not empty, up to the end of a top-level frame or of b. It
// returns how much that is, and whether a frame ended there. It returns 0 if the rest of b is
// an incomplete header line, or after Broken.
func (s *Replies) Next(b []byte) (n int, ended bool) {
	for n < len(b) {
		used, ended := s.Step(b[n:])
		n += used
		if ended || used == 0 {
			return n, ended
		}
	}
	return n, false
}

// Step is Next for a single piece: a part of a blob or of a line, or a header.
func (s *Replies) Step(b []byte) (n int, ended bool) {
	switch s.stage {
	case broken:
		return 0, false
	case outside:
		s.stage, s.First = inFrame, 0
	}
	n, ended = s.step(b)
	if ended {
		s.stage = outside
		if cap(s.stack) > keptDepth {
			s.stack = nil
		}
	}
	return n, ended
}

// AtElement reports whether a frame or an element of one begins with the next byte.
func (s *Replies) AtElement() bool { return s.body == 0 && s.stage != inLine }

// nullBulk is RESP2's null reply.
var nullBulk = []byte("$-1\r\n")

// PassScalars passes over whole replies of the usual kinds at the front of b, strings and numbers,
// and returns how long and how many they are. It leaves other replies to Next.
func (s *Replies) PassScalars(b []byte) (n, replies int) {
	if s.stage != outside {
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
		case '+', ':':
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

// step reads one piece: a part of a blob, a part of a line, or a header. It returns 0 if a
// header line is not complete.
func (s *Replies) step(b []byte) (n int, done bool) {
	switch {
	case s.body > 0:
		n = int(min(s.body, int64(len(b))))
		s.body -= int64(n)
		return n, s.body == 0 && s.elementDone()
	case s.stage == inLine:
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return len(b), false
		}
		s.stage = inFrame
		return end + 1, s.elementDone()
	}
	t := b[0]
	if len(s.stack) == 0 && t != '|' {
		s.First = t
	}
	switch t {
	case '$', '=', '!', '*', '~', '>', '%', '|':
		return s.sized(b)
	}
	s.stage = inLine
	if len(b) == 1 {
		return 1, false
	}
	used, done := s.step(b[1:])
	return used + 1, done
}

// sized reads the header of a blob or of an aggregate.
func (s *Replies) sized(b []byte) (n int, done bool) {
	v, n, more, ok := header(b)
	switch {
	case more:
		return 0, false
	case !ok || v < -1 || v > maxLength:
		s.stage = broken
		return 0, false
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
		s.stage = broken
		return 0, false
	}
	s.stack = append(s.stack, level{v, b[0] == '|'})
	return n, false
}

// elementDone counts an element of the innermost aggregate and reports whether the top-level frame
// ended with it.
func (s *Replies) elementDone() bool {
	for len(s.stack) > 0 {
		top := &s.stack[len(s.stack)-1]
		if top.left--; top.left > 0 {
			return false
		}
		attribute := top.attribute
		s.stack = s.stack[:len(s.stack)-1]
		if attribute {
			return false // its element is still to come
		}
	}
	return true
}
