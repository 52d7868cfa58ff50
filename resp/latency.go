package resp

import (
	"sync/atomic"
	"time"

	"lockproxy/resp/internal/scan"
)

// timedEvery is of how many packets of requests one is timed, the first included.
const timedEvery = 16

// latency measures how long the upstream takes to answer: of some requests, one at a time for each
// connection, so that the cost is negligible.
type latency struct {
	packets uint8         // counted by the pump
	seq     atomic.Uint64 // which reply ends it; 0: none is being timed. The pump sets it, the copier clears it
	start   time.Time     // with group written before seq is set
	group   string
}

// due counts a packet of plain requests. It reports whether the packet should be timed.
func (t *latency) due() bool {
	t.packets++
	return t.packets%timedEvery == 1 && t.seq.Load() == 0
}

// begin times the request at the front of b, which is forwarded next. seq is its number.
func (t *latency) begin(b []byte, seq uint64) {
	name := scan.Name(b)
	if name == nil {
		return
	}
	if t.group = groupOf(name); t.group != "" {
		t.start = time.Now()
		t.seq.Store(seq)
	}
}

// answered ends the timing when received, the number of replies so far, has reached the request.
func (t *latency) answered(received uint64, report func(group string, took time.Duration)) {
	if seq := t.seq.Load(); seq != 0 && received >= seq {
		report(t.group, time.Since(t.start))
		t.seq.Store(0)
	}
}
