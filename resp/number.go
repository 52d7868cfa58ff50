package resp

import "math"

// Limits of a request as Redis sets them (networking.c): a multibulk count fits an int, a header line that has no end is refused,
// an inline command ends within 64 KB. maxNumber is the longest text that string2ll accepts.
const (
	maxArgs   = math.MaxInt32
	maxInline = 64 << 10
	maxNumber = 20
)

// number reads decimal digits exactly as Redis' string2ll does: an optional minus, no plus, no leading zero,
// no blank, nothing behind it, and it fits an int64.
func number(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > maxNumber {
		return 0, false
	}
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	switch {
	case negative && v <= 1<<63:
		return -int64(v), true // 1<<63 wraps to the smallest int64, which is right
	case !negative && v <= math.MaxInt64:
		return int64(v), true
	}
	return 0, false
}

// header reads a line such as "*3\r\n" or "$5\r\n" at the start of b; b[0] is its type. It returns the number and the length of
// the line. more is true while the line may still become one. Redis looks for the \r and skips whatever byte follows it.
func header(b []byte) (v int64, n int, more, ok bool) {
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
