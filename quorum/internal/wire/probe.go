package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ProbeReply is what Probe answers: the master's time, and what its state hash holds beside the
// counters. Missing parts are empty.
type ProbeReply struct {
	Clock    time.Duration // since 1970
	Fields   int           // of the hash, counters included
	Record   string
	Settings string
	Known    string
	Durable  string // run_id in which every write was on disk before its reply
	Writes   uint64 // packets counted while it was
}

// ParseProbe reads the reply of Probe; ok is false for any other reply.
//
//	< $29\r\n1700000000 123456 1\nA ...\n\n\n\n\r\n
func ParseProbe(r *Reply) (p ProbeReply, ok bool) {
	if r.Kind != '$' || r.Null {
		return p, false
	}
	line := strings.Split(r.Text, "\n")
	var seconds, micros int64
	if n, _ := fmt.Sscan(line[0], &seconds, &micros, &p.Fields); n != 3 || len(line) != 6 {
		return p, false
	}
	p.Clock, p.Record, p.Settings, p.Known, p.Durable = clock(seconds, micros), line[1], line[2], line[3], line[4]
	p.Writes, _ = strconv.ParseUint(line[5], 10, 64)
	return p, true
}
