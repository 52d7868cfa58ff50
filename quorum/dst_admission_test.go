package quorum

import (
	"testing"
	"time"
)

// No master that could vote and was emptied votes again before everything it may have granted has run out, in whatever order
// two proxies see and admit three masters of a new deployment.
func TestAdmissionModel(t *testing.T) {
	worked := processorTime()
	r := newAdmissionRun(1 << 20)
	r.visit(aState{flushes: 1})
	t.Logf("%d states, %v at work", len(r.seen), (processorTime() - worked).Round(time.Millisecond))
	if r.found != "" {
		t.Errorf("a master votes too early: %s", r.found)
	}
	if len(r.seen) == r.limit {
		t.Errorf("more than %d states", r.limit)
	}
}
