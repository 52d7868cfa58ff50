package plain

import (
	"math"
	"strconv"
	"time"
)

// Duration returns d as people write it, in a form that settings and commands read: 10ms, 60s,
// 15m, 1h. It drops parts of a millisecond.
func Duration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		from time.Duration
		name string
	}{{time.Hour, time.Hour, "h"}, {time.Minute, 10 * time.Minute, "m"}, {time.Second, time.Second, "s"}} {
		if d >= u.from && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	if d == 0 {
		return "0s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// units are the units of ParseMillis, in milliseconds, in the order in which they follow each
// other.
var units = []struct {
	name   string
	millis int64
}{{"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1}}

// ParseMillis parses a time: decimal digits, which are milliseconds, or digits with h, m, s or ms,
// or several of these with falling units, each once at most: 1m30s. There is no sign, fraction or
// blank. A time of more milliseconds than an int64 holds becomes the maximum.
func ParseMillis[T ~string | ~[]byte](text T) (ms int64, ok bool) {
	next := 0 // in units
	for at := 0; at < len(text) || at == 0; {
		n, end := parseDigits(text, at)
		if end == at {
			return 0, false
		}
		if end == len(text) {
			return n, at == 0
		}
		unit, length := unitAt(text, end, next)
		if unit < 0 {
			return 0, false
		}
		ms = add(ms, n, units[unit].millis)
		at, next = end+length, unit+1
	}
	return ms, true
}

// parseDigits returns the number that begins at text[at], and the offset of its end.
func parseDigits[T ~string | ~[]byte](text T, at int) (n int64, end int) {
	for end = at; end < len(text) && '0' <= text[end] && text[end] <= '9'; end++ {
		n = add(int64(text[end]-'0'), n, 10)
	}
	return n, end
}

// unitAt returns the unit at text[at], from units[next] on, and its length; -1 if there is none.
func unitAt[T ~string | ~[]byte](text T, at, next int) (unit, length int) {
	end := at
	for end < len(text) && (text[end] < '0' || text[end] > '9') {
		end++
	}
	for i := next; i < len(units); i++ {
		if string(text[at:end]) == units[i].name {
			return i, end - at
		}
	}
	return -1, 0
}

// add returns sum + n * by, or the maximum. None of them is negative.
func add(sum, n, by int64) int64 {
	if n > (math.MaxInt64-sum)/by {
		return math.MaxInt64
	}
	return sum + n*by
}
