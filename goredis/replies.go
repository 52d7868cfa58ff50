package goredis

import (
	"bytes"
	"fmt"
	"strconv"
)

// Limits on one reply. The largest that lockproxy asks for is a page of LOCKPROXY LOCKS: SCAN with
// COUNT 1000 and keys of 1,024 bytes, a few MB even while Redis resizes its table.
const (
	maxReply = 16 << 20 // bytes of lines and texts, and elementCost for each element
	maxLine  = 64 << 10
	maxDepth = 8 // HELLO has arrays of modules, with arrays of their arguments
	// maxHeader is the longest line with a length: a sign, 19 digits, type and line end fit.
	maxHeader = 32
	// elementCost is about what go-redis allocates for an element before it has read it, and for an
	// empty one after that.
	elementCost = 64
)

// replyScanner follows the replies of RESP2 in a server's bytes. It keeps none of them but the
// line of a length. The zero value is at the start of a connection.
type replyScanner struct {
	line   [maxHeader]byte // the beginning of the current line
	length int             // of the current line so far
	last   byte            // of it
	body   int             // bytes of a text still to come, with its line end

	size  int           // of the current reply, counted like maxReply
	left  [maxDepth]int // elements still to come, by level
	depth int
}

// check reads b and returns a *BadReplyError if a reply is beyond a limit or is not RESP2. After
// that r is of no use.
func (r *replyScanner) check(b []byte) error {
	for len(b) > 0 {
		if r.body > 0 {
			n := min(r.body, len(b))
			b = b[n:]
			if r.body -= n; r.body == 0 {
				r.elementDone()
			}
			continue
		}
		n := bytes.IndexByte(b, '\n') + 1
		ended := n > 0
		if !ended {
			n = len(b)
		}
		if err := r.addLine(b[:n]); err != nil {
			return err
		}
		if ended {
			if err := r.lineDone(); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// addLine adds a part of a line, not empty, the line end included.
func (r *replyScanner) addLine(part []byte) error {
	if r.length < maxHeader {
		copy(r.line[r.length:], part)
	}
	if r.length += len(part); r.length > maxLine {
		return &BadReplyError{fmt.Sprintf("sends a line of over %d bytes", maxLine)}
	}
	if len(part) > 1 {
		r.last = part[len(part)-2]
	}
	if part[len(part)-1] != '\n' {
		r.last = part[len(part)-1]
	}
	return nil
}

// lineDone reads the line that is complete, and makes room for the next one.
func (r *replyScanner) lineDone() error {
	length := r.length
	r.length = 0
	if length < len("+\r\n") || r.last != '\r' {
		return errMalformed
	}
	if err := r.grow(length, 1, "bytes"); err != nil {
		return err
	}
	switch r.line[0] {
	case '+', '-', ':':
		r.elementDone()
		return nil
	case '$', '*':
	default:
		return errMalformed
	}
	if length > maxHeader {
		return errMalformed
	}
	n, err := strconv.Atoi(string(r.line[1 : length-2]))
	switch {
	case err != nil || n < -1:
		return r.badLength(string(r.line[1 : length-2]))
	case n < 0:
		r.elementDone()
		return nil
	case r.line[0] == '$':
		r.body = n + 2
		return r.grow(n, 1, "bytes")
	}
	return r.open(n)
}

// open begins an array of n elements.
func (r *replyScanner) open(n int) error {
	if err := r.grow(n, elementCost, "elements"); err != nil {
		return err
	}
	if n == 0 {
		r.elementDone()
		return nil
	}
	if r.depth == maxDepth {
		return &BadReplyError{fmt.Sprintf("nests arrays deeper than %d levels", maxDepth)}
	}
	r.left[r.depth] = n
	r.depth++
	return nil
}

// grow adds n bytes or elements, of that cost each, to the size of the reply.
func (r *replyScanner) grow(n, cost int, unit string) error {
	if n > maxReply/cost {
		return &BadReplyError{fmt.Sprintf("announces a reply of %d %s, at most %d are read", n, unit, maxReply/cost)}
	}
	if r.size += n * cost; r.size > maxReply {
		return &BadReplyError{fmt.Sprintf("announces a reply of over %d bytes", maxReply)}
	}
	return nil
}

// badLength says that text is no length.
func (r *replyScanner) badLength(text string) error {
	return &BadReplyError{fmt.Sprintf("announces a reply of length %q", text)}
}

// elementDone counts an element of the innermost array, and all that end with it.
func (r *replyScanner) elementDone() {
	for r.depth > 0 {
		if r.left[r.depth-1]--; r.left[r.depth-1] > 0 {
			return
		}
		r.depth--
	}
	r.size = 0
}
