package plain

import (
	"math"
	"testing"
)

func TestParseMillis(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "5000": 5000, "500ms": 500, "30s": 30_000, "1m": 60_000, "1h": 3_600_000, "1m30s": 90_000, "1m0s": 60_000,
		"1h2m3s": 3_723_000, "1h2m3s4ms": 3_723_004, "2h5ms": 7_200_005, "0h0m": 0, "1m90s": 150_000, "007s": 7000,
		"9223372036854775807": math.MaxInt64, "9223372036854775808": math.MaxInt64, "2562047788015h": 9223372036854000000,
		"2562047788016h": math.MaxInt64, "9223372036854775807ms": math.MaxInt64, "9223372036854775807h1ms": math.MaxInt64,
		"1h9223372036854775807ms": math.MaxInt64, "99999999999999999999999999999999s": math.MaxInt64,

		"": -1, "s": -1, "ms": -1, "m30s": -1, "1m30": -1, "30s1m": -1, "1m1m": -1, "1ms1s": -1, "1s500": -1, "-1s": -1,
		"+1": -1, "1.5s": -1, "1m 30s": -1, " 1s": -1, "1s ": -1, "1S": -1, "1sm": -1, "1hs": -1, "1mms": -1, "1d": -1,
		"1us": -1, "1_000": -1, "0x10": -1, "1e3": -1, "१s": -1, "1\x00s": -1, "1m\n30s": -1,
	} {
		t.Run(text, func(t *testing.T) {
			got, ok := ParseMillis(text)
			if ok != (want >= 0) || ok && got != want {
				t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
			}
			if same, sameOK := ParseMillis([]byte(text)); same != got || sameOK != ok {
				t.Errorf("%q: as bytes %d, %v, as a string %d, %v", text, same, sameOK, got, ok)
			}
		})
	}
}
