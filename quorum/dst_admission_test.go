package quorum

import (
	"testing"
	"time"
)

// No master that could vote and was emptied votes again before everything it may have granted has run out, in whatever order
// two proxies see and admit three masters of a new deployment.
//
//	QUORUM_SWIFT=0 lets the changes of both proxies be late, 1 those of one, 2 of none: each takes a third of the time of the one
//	before. Not set: 1, or 2 with the race detector
func TestAdmissionModel(t *testing.T) {
	swift := uint64(1)
	if raceDetector {
		swift = 2
	}
	if n, ok := number64("QUORUM_SWIFT"); ok {
		swift = n
	}
	worked := processorTime()
	r := newAdmissionRun(1<<20, int(swift))
	r.visit(aState{flushes: 1})
	t.Logf("%d states, %v at work", len(r.seen), (processorTime() - worked).Round(time.Millisecond))
	if r.found != "" {
		t.Errorf("a master votes too early: %s", r.found)
	}
	if len(r.seen) == r.limit {
		t.Errorf("more than %d states", r.limit)
	}
}
