package respio

import (
	"bytes"
	"strconv"
	"strings"
)

// Limits of the replies that a client accepts. All of them must be set.
type Limits struct {
	Line  int  // bytes of a line, its end included
	Text  int  // bytes of a text whose length is announced
	Elems int  // elements of one list; a map has two for each entry
	Depth int  // levels of lists in lists; an attribute is one, too
	Reply int  // bytes of a whole reply
	RESP3 bool // accept what RESP2 does not have
}

// Parse reads the reply that b begins with into r and returns its length in bytes. It returns 0
// as long as b holds only a part of it; r is of no use then. The error is ErrMalformed,
// ErrTooLarge or nil. r keeps no part of b, and its Elems are used again.
func (l *Limits) Parse(b []byte, r *Reply) (n int, err error) {
	n, err = l.parse(b, r, 0)
	if err != nil {
		return 0, err
	}
	if n > l.Reply || n == 0 && len(b) > l.Reply {
		return 0, ErrTooLarge
	}
	return n, nil
}

func (l *Limits) parse(b []byte, r *Reply, depth int) (n int, err error) {
	line, n, err := l.cutLine(b)
	if n == 0 || err != nil {
		return 0, err
	}
	r.Kind, r.Null, r.Int, r.Text, r.Elems = line[0], false, 0, "", r.Elems[:0]
	switch r.Kind {
	case '+':
		r.Text = string(line[1:])
		return n, nil
	case '-':
		r.Text = errorText(string(line[1:]))
		return n, nil
	case ':':
		r.Int, err = ParseInt(line[1:])
		return n, err
	case '$':
		return l.parseText(b, line, n, r)
	case '*':
		return l.parseElems(b, line, n, r, depth)
	}
	if l.RESP3 {
		return l.parse3(b, line, n, r, depth)
	}
	return 0, ErrMalformed
}

// errorText returns the text of an error without the prefix that Redis up to version 6 puts before
// it if a command in a script is refused: the line of the script.
//
//	< -@user_script: 86: -OOM command not allowed when used memory > 'maxmemory'.\r\n
func errorText(text string) string {
	rest, refused := strings.CutPrefix(text, "@user_script: ")
	if !refused {
		return text
	}
	_, rest, _ = strings.Cut(rest, ": ")
	rest = strings.TrimSpace(rest)
	if word, coded := strings.CutPrefix(rest, "-"); coded {
		return word
	}
	return "ERR " + rest
}

// parse3 reads the rest of a reply that only RESP3 has; n is the length of its first line.
func (l *Limits) parse3(b, line []byte, n int, r *Reply, depth int) (int, error) {
	switch r.Kind {
	case '_':
		r.Null = true
		return n, nil
	case ',', '#', '(':
		r.Text = string(line[1:])
		return n, nil
	case '=':
		return l.parseText(b, line, n, r)
	case '!':
		r.Kind = '-'
		return l.parseText(b, line, n, r)
	case '~', '>', '%':
		return l.parseElems(b, line, n, r, depth)
	case '|': // comes before the reply that it belongs to
		n, err := l.parseElems(b, line, n, r, depth)
		if n == 0 || err != nil {
			return 0, err
		}
		used, err := l.parse(b[n:], r, depth+1)
		if used == 0 || err != nil {
			return 0, err
		}
		return n + used, nil
	}
	return 0, ErrMalformed
}

// cutLine returns the line that b begins with, without its end and at least one byte long, and its
// length with its end; 0 as long as the end is missing.
func (l *Limits) cutLine(b []byte) (line []byte, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), l.Line)], '\n')
	if end < 0 {
		if len(b) >= l.Line {
			return nil, 0, ErrTooLarge
		}
		return nil, 0, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return nil, 0, ErrMalformed
	}
	return b[:end-1], end + 1, nil
}

// parseText reads a text that line announces; head is the length of that line.
//
//	< $5\r\nhello\r\n
//	< $-1\r\n          null
func (l *Limits) parseText(b, line []byte, head int, r *Reply) (n int, err error) {
	size, err := l.size(line)
	if size < 0 || err != nil {
		r.Null = err == nil
		return head, err
	}
	end := head + size
	if len(b) < end+2 {
		return 0, nil
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return 0, ErrMalformed
	}
	r.Text = string(b[head:end])
	return end + 2, nil
}

// parseElems reads the elements of a list that line announces; n is the length of that line.
//
//	< *2\r\n:1\r\n$5\r\nhello\r\n
func (l *Limits) parseElems(b, line []byte, n int, r *Reply, depth int) (int, error) {
	if depth >= l.Depth {
		return 0, ErrTooLarge
	}
	size, err := l.size(line)
	if size < 0 || err != nil {
		r.Null = err == nil
		return n, err
	}
	for range size {
		if len(r.Elems) < cap(r.Elems) {
			r.Elems = r.Elems[:len(r.Elems)+1] // keeps the memory of the element
		} else {
			r.Elems = append(r.Elems, Reply{})
		}
		used, err := l.parse(b[n:], &r.Elems[len(r.Elems)-1], depth+1)
		if used == 0 || err != nil {
			return 0, err
		}
		n += used
	}
	return n, nil
}

// size reads the size in a line that announces a text or a list: bytes of a text, elements of a
// list, or -1 for the nulls of RESP2.
func (l *Limits) size(line []byte) (int, error) {
	size, err := ParseInt(line[1:])
	if err != nil || size < -1 || size < 0 && line[0] != '$' && line[0] != '*' {
		return 0, ErrMalformed
	}
	most := int64(l.Elems)
	switch line[0] {
	case '$', '=', '!':
		most = int64(l.Text)
	case '%', '|':
		most /= 2
	}
	if size > most {
		return 0, ErrTooLarge
	}
	if line[0] == '%' || line[0] == '|' {
		size *= 2
	}
	return int(size), nil
}

// ParseInt reads decimal digits with an optional minus sign. The error is ErrMalformed or nil.
func ParseInt(b []byte) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || b[0] == '+' {
		return 0, ErrMalformed
	}
	return n, nil
}
