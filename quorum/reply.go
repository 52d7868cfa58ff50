package quorum

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Limits on what a master may answer. Nothing that is asked comes near them.
const (
	maxReplyLine = 64 << 10
	maxReplyBulk = 1 << 20
	maxReplyInts = 16
)

// errUnparsable breaks the lane: after bytes that are no reply, no later one could be told apart.
var errUnparsable = errors.New("answered something that is not Redis' protocol")

// reply is one RESP2 reply of a master, as far as the lane's commands need it.
type reply struct {
	kind byte // '+', '-', ':', '$', '*'; a null is kind '$' or '*' with null set
	null bool
	text string              // of '+', '-' and '$'
	ints [maxReplyInts]int64 // ints[0] of ':'; the elements of '*', integers or decimal bulk strings
	n    int                 // elements of '*'
}

// isError reports whether the master answered an error.
func (r *reply) isError() bool { return r.kind == '-' }

// code is the first word of an error, "" for other replies.
func (r *reply) code() string {
	if r.kind != '-' {
		return ""
	}
	word, _, _ := strings.Cut(r.text, " ")
	return word
}

// is reports whether the reply is the integer n.
func (r *reply) is(n int64) bool { return r.kind == ':' && r.ints[0] == n }

// readReply reads one reply into r. An error is one of the connection or errUnparsable.
func readReply(b *bufio.Reader, r *reply) error {
	line, err := readLine(b)
	if err != nil {
		return err
	}
	r.kind, r.null, r.n, r.text = line[0], false, 0, ""
	switch line[0] {
	case '+', '-':
		r.text = string(line[1:])
	case ':':
		r.ints[0], err = parseInt(line[1:])
	case '$':
		r.text, r.null, err = readBulk(b, line)
	case '*':
		return readInts(b, line, r)
	default:
		return errUnparsable
	}
	return err
}

// readInts reads the elements of an array: integers, or bulk strings of decimal digits as TIME has them.
func readInts(b *bufio.Reader, line []byte, r *reply) error {
	n, err := parseInt(line[1:])
	if err != nil {
		return err
	}
	if n == -1 {
		r.null = true
		return nil
	}
	if n < 0 || n > maxReplyInts {
		return errUnparsable
	}
	for i := range int(n) {
		if line, err = readLine(b); err != nil {
			return err
		}
		digits := line[1:]
		switch line[0] {
		case ':':
		case '$':
			text, null, err := readBulk(b, line)
			if err != nil {
				return err
			}
			if null {
				return errUnparsable
			}
			digits = []byte(text)
		default:
			return errUnparsable
		}
		if r.ints[i], err = parseInt(digits); err != nil {
			return err
		}
	}
	r.n = int(n)
	return nil
}

// readBulk reads the body that line, "$5", announces.
func readBulk(b *bufio.Reader, line []byte) (text string, null bool, err error) {
	n, err := parseInt(line[1:])
	if err != nil {
		return "", false, err
	}
	if n == -1 {
		return "", true, nil
	}
	if n < 0 || n > maxReplyBulk {
		return "", false, errUnparsable
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(b, body); err != nil {
		return "", false, err
	}
	if body[n] != '\r' || body[n+1] != '\n' {
		return "", false, errUnparsable
	}
	return string(body[:n]), false, nil
}

// readLine returns a line without its end, at least one byte long and good until the next read. An overlong
// line does not fit the reader's buffer and is unparsable.
func readLine(b *bufio.Reader) ([]byte, error) {
	line, err := b.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errUnparsable
	}
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errUnparsable
	}
	return line[:len(line)-2], nil
}

// parseInt reads decimal digits with an optional minus sign.
func parseInt(b []byte) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, errUnparsable
	}
	return n, nil
}
