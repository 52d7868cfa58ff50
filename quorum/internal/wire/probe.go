package wire

import (
	"strconv"
	"strings"
	"time"
)

// ProbeReply is what Probe answers: the master's time, and what its state hash holds beside the
// counters. What is missing is empty.
type ProbeReply struct {
	Clock    time.Duration // since 1970
	Fields   int           // of the hash, counters included
	Record   string
	Settings string
	Known    string
	Durable  string
}

// ParseProbe reads the reply of Probe; ok is false for any other reply.
//
//	< $28\r\n1700000000 123456 1\nA ...\n\n\n\r\n
func ParseProbe(r *Reply) (p ProbeReply, ok bool) {
	if r.Kind != '$' || r.Null {
		return p, false
	}
	line := strings.Split(r.Text, "\n")
	word := strings.Split(line[0], " ")
	if len(line) != 5 || len(word) != 3 {
		return p, false
	}
	if p.Clock, ok = parseClock(word[0], word[1]); !ok {
		return p, false
	}
	var err error
	if p.Fields, err = strconv.Atoi(word[2]); err != nil {
		return p, false
	}
	p.Record, p.Settings, p.Known, p.Durable = line[1], line[2], line[3], line[4]
	return p, true
}

// parseClock reads what TIME says, in seconds and microseconds.
func parseClock(seconds, micros string) (time.Duration, bool) {
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	if err != nil || err2 != nil {
		return 0, false
	}
	return clock(s, us), true
}
