package quorum

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits on what a master may answer. Nothing that is asked comes near them.
const (
	maxReplyLine = 64 << 10
	maxReplyBulk = 1 << 20
	maxReplyInts = 32
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

	failed error // of an error made by fail: the reason

	texts []string // the elements of '*' where one is a bulk string that is no number
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
	r.kind, r.null, r.n, r.text, r.texts, r.failed = line[0], false, 0, "", nil, nil
	switch line[0] {
	case '+', '-':
		r.text = string(line[1:])
	case ':':
		r.ints[0], err = parseInt(line[1:])
	case '$':
		r.text, r.null, err = readBulk(b, line)
	case '*':
		return readElements(b, line, r)
	default:
		return errUnparsable
	}
	return err
}

// readElements reads the elements of an array: integers, or bulk strings, which are decimal digits in what scripts and TIME say
// and any text in what CONFIG GET says.
func readElements(b *bufio.Reader, line []byte, r *reply) error {
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
	var texts []string
	words := false
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
			if texts == nil {
				texts = make([]string, n)
			}
			texts[i] = text
		default:
			return errUnparsable
		}
		if r.ints[i], err = parseInt(digits); err != nil {
			if line[0] == ':' {
				return err
			}
			words = true
		}
	}
	if words {
		r.texts = texts
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

// granted and refused tell what an acquire answered.
func granted(r *reply) bool { return r.kind == '*' && r.n == 4 && r.texts == nil && r.ints[0] == 1 }
func refused(r *reply) bool { return r.kind == '*' && r.n == 4 && r.texts == nil && r.ints[0] == 0 }

// fail turns r into an error reply, for an answer that must not count.
func (r *reply) fail(reason error) {
	r.kind, r.null, r.text, r.failed = '-', false, "", reason
}

// cutClock takes the master's time off what an extension answered, and leaves what stands behind the secret.
func (r *reply) cutClock() (time.Duration, bool) {
	if r.kind != '$' || r.null {
		return 0, false
	}
	seconds, rest, _ := strings.Cut(r.text, " ")
	micros, tail, ok := strings.Cut(rest, " ")
	if !ok {
		return 0, false
	}
	r.text = tail
	return parseClock(seconds, micros)
}
