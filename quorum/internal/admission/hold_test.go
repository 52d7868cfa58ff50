package admission

import (
	"testing"
	"time"
)

// The documents name these times.
func TestHold(t *testing.T) {
	for maxTTL, want := range map[time.Duration]time.Duration{
		time.Second: 3_329_650 * time.Microsecond,
		time.Minute: 64_287_190 * time.Microsecond,
		time.Hour:   3_675_801_760 * time.Microsecond,
	} {
		if got := hold(maxTTL); got != want {
			t.Errorf("hold(%v) = %v, want %v", maxTTL, got, want)
		}
	}
}
