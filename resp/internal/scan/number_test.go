package scan

import (
	"math"
	"strconv"
	"testing"
)

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"7", 7, true}, {"-1", -1, true}, {"536870912", 536870912, true},
		{"9223372036854775807", math.MaxInt64, true}, {"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false}, {"18446744073709551619", 0, false},
		{"99999999999999999999", 0, false}, {"184467440737095516160", 0, false},
		{"", 0, false}, {"-", 0, false}, {"+1", 0, false}, {"01", 0, false}, {"-0", 0, false}, {"-01", 0, false},
		{" 1", 0, false}, {"1 ", 0, false}, {"1a", 0, false}, {"0x1", 0, false}, {"00", 0, false},
	} {
		t.Run(strconv.Quote(tt.in), func(t *testing.T) {
			if got, ok := number([]byte(tt.in)); got != tt.want || ok != tt.ok {
				t.Errorf("number(%q) = %d, %v; want %d, %v", tt.in, got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestHeader(t *testing.T) {
	for _, tt := range []struct {
		in       string
		v        int64
		n        int
		more, ok bool
	}{
		{"*3\r\n", 3, 4, false, true}, {"$-1\r\nxx", -1, 5, false, true},
		{"*3\rX", 3, 4, false, true}, // Redis does not look at the byte after \r
		{"*", 0, 0, true, false}, {"*3", 0, 0, true, false}, {"*3\r", 0, 0, true, false},
		{"*\r\n", 0, 3, false, false}, {"*3x", 0, 0, false, false}, {"*+1\r\n", 0, 0, false, false},
		{"* 1\r\n", 0, 0, false, false},
		{"*\x001\r\n", 0, 0, false, false}, {"*1234567890123456789012", 0, 0, false, false},
	} {
		t.Run(strconv.Quote(tt.in), func(t *testing.T) {
			v, n, more, ok := header([]byte(tt.in))
			if ok != tt.ok || more != tt.more || ok && (v != tt.v || n != tt.n) {
				t.Errorf("header(%q) = %d, %d, %v, %v; want %d, %d, %v, %v", tt.in, v, n, more, ok, tt.v, tt.n, tt.more, tt.ok)
			}
		})
	}
}
