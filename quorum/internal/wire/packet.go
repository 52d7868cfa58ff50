package wire

import (
	"strings"
	"time"
)

// CodeNotAdmitted is the code of the error that takes the place of an operation's result where the
// record differs.
const CodeNotAdmitted = "NOTADMITTED"

// PacketReply is the reply to a packet.
type PacketReply struct {
	Admitted bool          // the master has the record of the packet
	Clock    time.Duration // the master's time since 1970
	Results  []Reply       // one for each operation, in order; elements of the reply it was read from
}

// ParsePacket reads the reply to a packet of n operations. ok is false for anything else: an
// error of the whole packet, of which nothing was carried out then, or the reply to another
// question.
//
//	< *4\r\n:1\r\n:1700000000\r\n:123456\r\n:42\r\n
func ParsePacket(r *Reply, n int) (p PacketReply, ok bool) {
	if r.Kind != '*' || len(r.Elems) != n+3 {
		return p, false
	}
	admitted, seconds, micros := &r.Elems[0], &r.Elems[1], &r.Elems[2]
	if !admitted.Is(0) && !admitted.Is(1) || seconds.Kind != ':' || micros.Kind != ':' {
		return p, false
	}
	return PacketReply{admitted.Is(1), clock(seconds.Int, micros.Int), r.Elems[3:]}, true
}

// clock is a master's time since 1970. What no Duration holds, it cuts to the years 1970 to 2242.
func clock(seconds, micros int64) time.Duration {
	seconds, micros = min(max(seconds, 0), 1<<33), min(max(micros, 0), 999_999)
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
}

// Granted reports whether an Acquire was granted, and the fence, which is 0 without fencing.
func Granted(r *Reply) (fence uint64, ok bool) {
	if r.Kind != ':' || r.Int < 0 {
		return 0, false
	}
	return uint64(r.Int), true
}

// Refused reports whether an Acquire found another key, and how long that lives on: negative for
// ever.
func Refused(r *Reply) (left time.Duration, ok bool) {
	if r.Kind != ':' || r.Int >= 0 {
		return 0, false
	}
	return millis(-2 - r.Int), true
}

// Extended reports whether an Extend found its token, and what stands behind the secret in the
// value, for BehindSecret.
func Extended(r *Reply) (tail string, ok bool) {
	if r.Kind != '$' || r.Null {
		return "", false
	}
	return r.Text, true
}

// Inspected is what an Inspect found.
type Inspected struct {
	Found bool          // something stands at the key
	Other bool          // it is not a string
	Left  time.Duration // of a string: how long it lives on, negative for ever
	Value string        // of a string: its first 256 bytes
}

// ParseInspect reads the result of an Inspect.
//
//	< $-1\r\n                  nothing
//	< $15\r\n5000 some value\r\n
//	< +OTHER\r\n               no string
func ParseInspect(r *Reply) (found Inspected, ok bool) {
	switch {
	case r.Kind == '+':
		return Inspected{Found: true, Other: true}, r.Text == "OTHER"
	case r.Kind != '$':
		return found, false
	case r.Null:
		return found, true
	}
	left, value, ok := strings.Cut(r.Text, " ")
	ms, err := parseInt([]byte(left))
	if !ok || err != nil {
		return found, false
	}
	return Inspected{Found: true, Left: millis(ms), Value: value}, true
}

// millis is so many milliseconds, or -1 for a negative number. It does not overflow.
func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	const most = int64((1<<63 - 1) / time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}
