package plain

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1500ms", time.Minute: "60s", 90 * time.Second: "90s", 15 * time.Minute: "15m",
		2 * time.Hour:          "2h",
		500 * time.Microsecond: "0ms",
	} {
		t.Run(want, func(t *testing.T) {
			if got := Duration(d); got != want {
				t.Errorf("%v: got %s, want %s", d, got, want)
			}
		})
	}
}
