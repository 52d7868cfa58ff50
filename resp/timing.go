package resp

import (
	"sync/atomic"
	"time"
)

// timedEvery is of how many packets of requests one is timed, the first included.
const timedEvery = 16

// timing measures how long the upstream takes to answer: of some requests, one at a time for each connection, so that it costs next to nothing.
type timing struct {
	packets uint8         // counted by the pump
	seq     atomic.Uint64 // which reply ends it; 0: none is being timed. The pump sets it, the copier clears it
	start   time.Time     // with group written before seq is set
	group   string
}

// due tells whether the next packet of plain requests is to be timed.
func (t *timing) due() bool {
	t.packets++
	return t.packets%timedEvery == 1 && t.seq.Load() == 0
}

// begin times the request at the front of b, which is about to be forwarded, as the seq-th.
func (t *timing) begin(b []byte, seq uint64) {
	args, at := quickHeader(b)
	if args == 0 || at >= len(b) || b[at] != '$' {
		return
	}
	size, used := quickHeader(b[at:])
	if used == 0 || len(b)-at-used < size {
		return
	}
	if t.group = groupOf(b[at+used : at+used+size]); t.group != "" {
		t.start = time.Now()
		t.seq.Store(seq)
	}
}

// answered is told how many replies have come.
func (t *timing) answered(received uint64, report func(group string, took time.Duration)) {
	if seq := t.seq.Load(); seq != 0 && received >= seq {
		report(t.group, time.Since(t.start))
		t.seq.Store(0)
	}
}
