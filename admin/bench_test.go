package admin

import (
	"testing"
	"time"
)

// BenchmarkCommand is what each lock command pays for being counted.
func BenchmarkCommand(b *testing.B) {
	m := NewMeter(nil)
	b.ReportAllocs()
	for b.Loop() {
		m.Command("lock", "granted", false, 300*time.Microsecond)
	}
}
