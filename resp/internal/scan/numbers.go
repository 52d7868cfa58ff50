package scan

import (
	"math"
	"strconv"
)

// Limits of a request as Redis sets them (networking.c): a multibulk count fits an int, a header
// line that has no end is refused, an inline command ends within 64 KB. maxSize is the longest
// argument whose line end can still be counted; the upstream has a limit of its own. maxNumber is
// the longest text that string2ll accepts.
const (
	maxArgs   = math.MaxInt32
	maxSize   = math.MaxInt64 - 2
	maxInline = 64 << 10
	maxNumber = 20
)

// number reads decimal digits exactly as Redis' string2ll does: an optional minus, no plus, no
// leading zero, no blank, no byte after it, and it fits an int64.
func number(b []byte) (int64, bool) {
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != string(b) {
		return 0, false
	}
	return v, true
}

// quickHeader is header for the lines that nearly all are: up to eight digits, no sign, no leading
// zero. n is 0 for all others, and for incomplete ones.
func quickHeader(b []byte) (v, n int) {
	if len(b) < 4 {
		return 0, 0
	}
	first := b[1] - '0'
	switch {
	case b[2] == '\r' && first <= 9:
		return int(first), 4
	case first == 0 || first > 9:
		return 0, 0
	}
	v = int(first)
	for i := 2; i < min(len(b)-1, 10); i++ {
		d := b[i] - '0'
		if d > 9 {
			if b[i] == '\r' {
				return v, i + 2
			}
			return 0, 0
		}
		v = v*10 + int(d)
	}
	return 0, 0
}

// header reads a line such as "*3\r\n" or "$5\r\n" at the start of b; b[0] is its type. It returns
// the number and the length of the line. more is true while the line may still become one. Redis
// looks for the \r and skips the byte after it, which may be any.
func header(b []byte) (v int64, n int, more, ok bool) {
	if v, n := quickHeader(b); n > 0 {
		return int64(v), n, false, true
	}
	end := 1
	for end < len(b) && b[end] != '\r' {
		if end > maxNumber {
			return 0, 0, false, false
		}
		if c := b[end]; c != '-' && (c < '0' || c > '9') {
			return 0, 0, false, false
		}
		end++
	}
	if end+1 >= len(b) {
		return 0, 0, end <= maxNumber+1, false
	}
	v, ok = number(b[1:end])
	return v, end + 2, false, ok
}

// multibulkLength reads the header of a request at the front of b, which begins with '*'. more is
// true while the header is not complete. why is Redis' reason for refusing it, or empty. Redis
// ignores a request without arguments.
//
//	> *3\r\n
func multibulkLength(b []byte, most int64) (count int64, n int, more bool, why string) {
	count, n, more, ok := header(b)
	if !more && (!ok || count > most) {
		why = "invalid multibulk length"
	}
	return count, n, more, why
}

// bulkLength reads the header of an argument at the front of b, which is not empty. more and why
// are as those of multibulkLength.
//
//	> $5\r\n
func bulkLength(b []byte, most int64) (size int64, n int, more bool, why string) {
	if b[0] != '$' {
		return 0, 0, false, "expected '$', got '" + printable(b[0]) + "'"
	}
	size, n, more, ok := header(b)
	if !more && (!ok || size < 0 || size > most) {
		why = "invalid bulk length"
	}
	return size, n, more, why
}

// printable is c as one character of an error message.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return "."
	}
	return string(rune(c))
}

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
func wholeRequest(b []byte, kind CommandKind) int {
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
