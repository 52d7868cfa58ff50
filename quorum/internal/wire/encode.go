package wire

import (
	"strconv"
	"time"
)

// Encoder writes packets. It never changes, and serves all masters of a Quorum.
type Encoder struct {
	StateKey string // name of the hash with the record and the counters
	Fencing  bool
}

// letters are how a packet names operations; Release has a second one.
var letters = [...]byte{Acquire: 'A', Raise: 'R', Release: 'D', Fade: 'F', TopUp: 'T', Extend: 'E', Check: 'C', Inspect: 'I', Free: 'X'}

const publishLetter = 'P'

// arguments are how many ARGV an operation takes, its letter among them.
var arguments = [...]int{Acquire: 5, Raise: 4, Release: 2, Fade: 3, TopUp: 6, Extend: 3, Check: 2, Inspect: 1, Free: 1}

// AppendPacket writes ops, at most MaxOps, as one call of Packet: EVALSHA, or EVAL with the body
// of the script. record is the one under which the master votes, empty for any.
//
//	> *9\r\n$7\r\nEVALSHA\r\n$40\r\n<sha>\r\n$1\r\n2\r\n
//	  $21\r\nlockproxy:state:lock:\r\n$8\r\nlock:job\r\n
//	  $75\r\nA <run_id> <fingerprint> <nonce>\r\n$19\r\nlockproxy:released:\r\n
//	  $1\r\nP\r\n$40\r\n<secret>\r\n
func (e *Encoder) AppendPacket(b []byte, ops []*Op, record string, body bool) []byte {
	args := 2
	for _, op := range ops {
		args += arguments[op.Kind]
	}
	b = Packet.appendHead(b, body, 1+len(ops), args)
	b = appendBulk(b, e.StateKey)
	for _, op := range ops {
		b = appendBulk(b, op.Key)
	}
	b = appendBulk(b, record)
	b = appendBulk(b, ReleasedPrefix)
	for _, op := range ops {
		b = e.appendOp(b, op)
	}
	return b
}

func (e *Encoder) appendOp(b []byte, op *Op) []byte {
	letter := letters[op.Kind]
	if op.Kind == Release && op.Publish {
		letter = publishLetter
	}
	b = append(b, '$', '1', '\r', '\n', letter, '\r', '\n')
	if op.Kind == Inspect || op.Kind == Free {
		return b
	}
	b = appendBulk(b, op.Secret)
	switch op.Kind {
	case Acquire:
		b = appendMillis(b, op.TTL)
		b = e.appendField(b, op.Slot)
		b = appendBulk(b, op.Owner)
	case Raise:
		b = appendFenceBulk(b, op.Fence)
		b = e.appendField(b, op.Slot)
	case TopUp:
		b = appendMillis(b, op.TTL)
		b = e.appendField(b, op.Slot)
		b = appendFenceBulk(b, op.Fence)
		b = appendBulk(b, op.Owner)
	case Extend, Fade:
		b = appendMillis(b, op.TTL)
	}
	return b
}

// appendMillis writes a duration, rounded down to whole milliseconds. What is less than one
// becomes one: SET refuses 0, and PEXPIRE deletes at 0.
func appendMillis(b []byte, d time.Duration) []byte {
	return appendInt(b, uint64(max(d.Milliseconds(), 1)))
}

// appendField writes the name of a counter, empty without fencing.
func (e *Encoder) appendField(b []byte, slot uint16) []byte {
	if !e.Fencing {
		return append(b, "$0\r\n\r\n"...)
	}
	return appendInt(b, uint64(slot))
}

func appendFenceBulk(b []byte, fence uint64) []byte {
	b = append(b, "$16\r\n"...)
	b = AppendFence(b, fence)
	return append(b, '\r', '\n')
}

// AppendCommand writes any command.
//
//	> *1\r\n$4\r\nPING\r\n
func AppendCommand(b []byte, args ...string) []byte {
	b = appendHeader(b, '*', len(args))
	for _, a := range args {
		b = appendBulk(b, a)
	}
	return b
}

// appendHeader writes the number of an array's elements or of a text's bytes.
func appendHeader(b []byte, kind byte, n int) []byte {
	if n < 10 {
		return append(b, kind, '0'+byte(n), '\r', '\n')
	}
	if n < 100 {
		return append(b, kind, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

func appendBulk(b []byte, s string) []byte {
	b = appendHeader(b, '$', len(s))
	b = append(b, s...)
	return append(b, '\r', '\n')
}

// appendInt writes n as a bulk string.
func appendInt(b []byte, n uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], n, 10)
	b = appendHeader(b, '$', len(text))
	b = append(b, text...)
	return append(b, '\r', '\n')
}
