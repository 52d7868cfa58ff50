package wire

import (
	"bytes"
	"strconv"
	"strings"
)

// Limits on the answer of a master. No request of lockproxy comes near them.
const (
	maxLine  = 64 << 10
	maxBulk  = 1 << 20
	maxElems = 3 + 3*MaxLimit // of an Inspect
	maxDepth = 2              // arrays in arrays
	maxReply = 4 << 20        // all in all, which bounds the memory of a reader
)

// Parse reads the reply that b begins with into r and returns its length in bytes. It returns 0
// as long as b holds only a part of it; r is of no use then. The error is ErrUnparsable or nil.
// r keeps no part of b.
func Parse(b []byte, r *Reply) (n int, err error) {
	n, err = parse(b, r, 0)
	if err != nil || n > maxReply || n == 0 && len(b) > maxReply {
		return 0, ErrUnparsable
	}
	return n, nil
}

func parse(b []byte, r *Reply, depth int) (n int, err error) {
	line, n, err := cutLine(b)
	if n == 0 || err != nil {
		return 0, err
	}
	r.Kind, r.Null, r.Int, r.Text, r.Elems = line[0], false, 0, "", r.Elems[:0]
	switch line[0] {
	case '+':
		r.Text = string(line[1:])
		return n, nil
	case '-':
		r.Text = errorText(string(line[1:]))
		return n, nil
	case ':':
		r.Int, err = parseInt(line[1:])
		return n, err
	case '$':
		return parseBulk(b, line, n, r)
	case '*':
		if depth < maxDepth {
			return parseElems(b, line, n, r, depth)
		}
	}
	return 0, ErrUnparsable
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

// cutLine returns the line that b begins with, without its end and at least one byte long, and its
// length with its end; 0 as long as the end is missing.
func cutLine(b []byte) (line []byte, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	if end < 0 {
		if len(b) >= maxLine {
			return nil, 0, ErrUnparsable
		}
		return nil, 0, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return nil, 0, ErrUnparsable
	}
	return b[:end-1], end + 1, nil
}

// parseBulk reads a text that line announces; head is the length of that line.
//
//	< $5\r\nhello\r\n
//	< $-1\r\n          null
func parseBulk(b, line []byte, head int, r *Reply) (n int, err error) {
	size, err := parseSize(line, maxBulk)
	if size < 0 || err != nil {
		r.Null = err == nil
		return head, err
	}
	end := head + size
	if len(b) < end+2 {
		return 0, nil
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return 0, ErrUnparsable
	}
	r.Text = string(b[head:end])
	return end + 2, nil
}

// parseElems reads the elements of an array that line announces; n is the length of that line.
//
//	< *2\r\n:1\r\n$5\r\nhello\r\n
func parseElems(b, line []byte, n int, r *Reply, depth int) (int, error) {
	size, err := parseSize(line, maxElems)
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
		used, err := parse(b[n:], &r.Elems[len(r.Elems)-1], depth+1)
		if used == 0 || err != nil {
			return 0, err
		}
		n += used
	}
	return n, nil
}

// parseInt reads decimal digits with an optional minus sign.
func parseInt(b []byte) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || b[0] == '+' {
		return 0, ErrUnparsable
	}
	return n, nil
}

// parseSize reads the size in the line that announces a text or an array; -1 for null.
func parseSize(line []byte, most int64) (int, error) {
	size, err := parseInt(line[1:])
	if err != nil || size < -1 || size > most {
		return 0, ErrUnparsable
	}
	return int(size), nil
}
