package plain

import (
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"ERR x\r\n-ERR y\x00z":           "ERR x  -ERR y z",
		"  trimmed\n":                    "trimmed",
		"Grüße\u202e\u200b\u2028\u0085.": "Grüße    .",
		strings.Repeat("z", 500):         strings.Repeat("z", maxShort),
	} {
		t.Run(in, func(t *testing.T) {
			if got := Short(in); got != want {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
		})
	}
}
