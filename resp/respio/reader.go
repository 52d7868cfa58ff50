package respio

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Reader reads replies from a stream. It reads no byte beyond a reply, and byte by byte if the
// stream is no io.ByteReader: give it a bufio.Reader if it is the only reader of the stream.
type Reader struct {
	in     io.Reader
	single io.ByteReader // the same stream
	limits Limits
	frame  []byte // the memory of the last reply's bytes
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader, limits Limits) *Reader {
	single, ok := in.(io.ByteReader)
	if !ok {
		single = &byByte{in: in}
	}
	return &Reader{in: in, single: single, limits: limits}
}

// byByte is a stream that is read byte by byte.
type byByte struct {
	in   io.Reader
	next [1]byte
}

func (s *byByte) ReadByte() (byte, error) {
	_, err := io.ReadFull(s.in, s.next[:])
	return s.next[0], err
}

// maxSpare is how much memory a Reader keeps from one reply to the next.
const maxSpare = 64 << 10

// Read reads the next reply or push into reply, whose Elems are used again. The error is io.EOF if
// the stream ends before the reply, io.ErrUnexpectedEOF if it ends within, ErrMalformed and
// ErrTooLarge with more words, or another one of the stream. The Reader is of no use after it.
func (r *Reader) Read(reply *Reply) (err error) {
	r.frame, err = r.AppendFrame(r.frame[:0])
	if err != nil {
		return err
	}
	n, err := r.limits.Parse(r.frame, reply)
	if err == nil && n != len(r.frame) {
		err = ErrMalformed
	}
	if err != nil {
		err = malformed(err, r.frame)
	}
	if cap(r.frame) > maxSpare {
		r.frame = nil
	}
	return err
}

// AppendFrame appends the bytes of the next reply or push to b. An attribute comes together with
// its reply. AppendFrame checks lengths, but no other numbers. After an error, which Read
// describes, the result ends with the part of the reply that was read.
func (r *Reader) AppendFrame(b []byte) ([]byte, error) {
	start := len(b)
	b, err := r.append(b, start, 0)
	if len(b) > start && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// append appends a part of the reply whose bytes begin at start: itself, or an element.
func (r *Reader) append(b []byte, start, depth int) ([]byte, error) {
	from := len(b)
	b, err := r.appendLine(b, start)
	if err != nil {
		return b, err
	}
	line := b[from : len(b)-2]
	switch form := r.limits.formOf(line[0]); form {
	case scalar:
		return b, nil
	case text:
		size, err := r.limits.size(line)
		if err != nil {
			return b, malformed(err, line)
		}
		if size < 0 {
			return b, nil
		}
		return r.appendText(b, start, size)
	case list, attribute:
		size, err := r.limits.size(line)
		if err == nil && depth >= r.limits.Depth {
			err = ErrTooLarge
		}
		if err != nil {
			return b, malformed(err, line)
		}
		if form == attribute {
			size++ // the reply that it belongs to
		}
		for range size {
			if b, err = r.append(b, start, depth+1); err != nil {
				return b, err
			}
		}
		return b, nil
	}
	return b, malformed(ErrMalformed, line)
}

// appendLine appends a line, its end included.
func (r *Reader) appendLine(b []byte, start int) ([]byte, error) {
	from := len(b)
	for most := from + min(r.limits.Line, r.limits.Reply-(from-start)); len(b) < most; {
		next, err := r.single.ReadByte()
		if err != nil {
			return b, err
		}
		b = append(b, next)
		if next != '\n' {
			continue
		}
		if n := len(b) - from; n < 3 || b[len(b)-2] != '\r' {
			return b, malformed(ErrMalformed, b[from:])
		}
		return b, nil
	}
	return b, malformed(ErrTooLarge, b[from:])
}

// appendText appends a text of n bytes and its end. It takes memory only as the bytes arrive,
// because a server can announce any length.
func (r *Reader) appendText(b []byte, start, n int) ([]byte, error) {
	n += 2
	if len(b)-start > r.limits.Reply-n {
		return b, malformed(ErrTooLarge, b[start:])
	}
	for n > 0 {
		have := len(b)
		b = slices.Grow(b, min(n, maxSpare))
		b = b[:have+min(n, cap(b)-have)]
		got, err := io.ReadFull(r.in, b[have:])
		b = b[:have+got]
		if err != nil {
			return b, err
		}
		n -= got
	}
	if b[len(b)-2] != '\r' || b[len(b)-1] != '\n' {
		return b, malformed(ErrMalformed, b[start:])
	}
	return b, nil
}

// malformed adds the bytes that broke the protocol, or a limit, to the error.
func malformed(err error, b []byte) error {
	return fmt.Errorf("%w: %.100q", err, b[:min(len(b), 100)])
}

// form is the form of a reply: the parts after its first line.
type form byte

const (
	unknown   form = iota
	scalar         // none
	text           // a text of the announced size
	list           // as many elements
	attribute      // as many elements, and the reply that they belong to
)

func (l *Limits) formOf(kind byte) form {
	switch kind {
	case '+', '-', ':':
		return scalar
	case '$':
		return text
	case '*':
		return list
	}
	if !l.RESP3 {
		return unknown
	}
	switch kind {
	case '_', ',', '#', '(':
		return scalar
	case '=', '!':
		return text
	case '~', '>', '%':
		return list
	case '|':
		return attribute
	}
	return unknown
}
