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

// letters are how a packet names operations; Acquire, Raise and Release have others as well.
var letters = [...]byte{Acquire: 'A', Raise: 'R', Release: 'D', Fade: 'F', TopUp: 'T', Extend: 'E', Share: 'H', Check: 'C', Inspect: 'I', Free: 'X'}

// layouts are the arguments of the other operations, by their letter, as packet.lua has them:
// secret, ttl, field, owner, waits, limit, the two slots that are tried (0, 1), mode, fence (#),
// how many keys (n), all their fields (*).
var layouts = [...]string{'S': "stfow", 'L': "stfowl01", 'M': "stnow*", 'R': "s#f", 'N': "s#n*", 'D': "s", 'P': "s", 'Q': "s", 'Z': "s",
	'K': "st", 'F': "st", 'T': "stf#om", 'E': "st", 'H': "stf", 'C': "s", 'I': "", 'X': ""}

// letter is what a packet calls the operation.
func (o *Op) letter() byte {
	switch {
	case o.Kind == Release && o.TTL > 0:
		return 'K'
	case o.Kind == Release && o.Publish:
		return [...]byte{Exclusive: 'P', Shared: 'Q', Limited: 'Z', Kept: 'P'}[o.Mode()]
	case o.Terms == nil:
	case o.Kind == Acquire && o.Terms.Mode != Exclusive:
		return o.Terms.Mode.letter()
	case o.Kind == Acquire && o.Terms.More != nil:
		return 'M'
	case o.Kind == Acquire && o.Terms.Waits > 0:
		return 'W'
	case o.Kind == Raise && o.Terms.More != nil:
		return 'N'
	}
	return letters[o.Kind]
}

// other is what a packet calls the operation where it is one of the others. An acquire is then of
// several keys, though there is only one.
func (o *Op) other() byte {
	if letter := o.letter(); letter != 'A' && letter != 'W' {
		return letter
	}
	return 'M'
}

// arguments are how many ARGV the operation takes where it is one of the others.
func (o *Op) arguments() int { return 1 + len(layouts[o.other()]) + len(o.more()) }

// AppendPacket writes a batch as one call of Packet: EVALSHA, or EVAL with the body of the script.
// record is the one under which the master votes, empty for any.
//
//	> *8\r\n$7\r\nEVALSHA\r\n$40\r\n<sha>\r\n$1\r\n2\r\n
//	  $21\r\nlockproxy:state:lock:\r\n$8\r\nlock:job\r\n
//	  $75\r\nA <run_id> <fingerprint> <nonce>\r\n$4\r\n1000\r\n
//	  $40\r\n<secret>\r\n
func (e *Encoder) AppendPacket(b []byte, batch *Batch, record string, body bool) []byte {
	all := batch.arrange()
	ops := all[:batch.n]
	releases := batch.sizes[groupTell] + batch.sizes[groupRelease]
	acquires := batch.sizes[groupAcquire] + batch.sizes[groupWait]
	keys, args := 1, 2+releases+3*acquires+batch.sizes[groupWait]
	for i, op := range ops {
		keys += 1 + len(op.more())
		if i >= releases+acquires {
			args += op.arguments()
		}
	}
	b = Packet.appendHead(b, body, keys, args)
	b = appendBulk(b, e.StateKey)
	for _, op := range ops {
		b = appendBulk(b, op.Key)
		for _, key := range op.more() {
			b = appendBulk(b, key)
		}
	}
	b = appendBulk(b, record)
	b = append(b, "$4\r\n"...)
	for _, n := range batch.sizes[:groupOther] {
		b = append(b, '0'+byte(n))
	}
	b = append(b, "\r\n"...)
	for _, op := range ops[:releases] {
		b = appendBulk(b, op.Secret)
	}
	b = e.appendAcquires(b, ops[releases:releases+acquires], batch.sizes[groupAcquire])
	for _, op := range ops[releases+acquires:] {
		b = e.appendOp(b, op)
	}
	return b
}

// appendAcquires writes the columns of acquires; those from waiting on are of somebody who waits.
func (e *Encoder) appendAcquires(b []byte, ops []*Op, waiting int) []byte {
	for _, op := range ops {
		b = appendHeader(b, '$', len(op.Secret)+len(op.Owner))
		b = append(append(b, op.Secret...), op.Owner...)
		b = append(b, '\r', '\n')
	}
	for _, op := range ops {
		b = e.appendField(b, op.Slot)
	}
	for _, op := range ops {
		b = appendMillis(b, op.TTL)
	}
	for _, op := range ops[waiting:] {
		b = appendWaits(b, op.Terms)
	}
	return b
}

// appendOp writes one of the other operations.
func (e *Encoder) appendOp(b []byte, op *Op) []byte {
	letter := op.other()
	b = append(b, '$', '1', '\r', '\n', letter, '\r', '\n')
	for _, argument := range []byte(layouts[letter]) {
		switch argument {
		case 's':
			b = appendBulk(b, op.Secret)
		case 't':
			b = appendMillis(b, op.TTL)
		case 'f':
			b = e.appendField(b, op.Slot)
		case 'o':
			b = appendBulk(b, op.Owner)
		case 'w':
			b = appendWaits(b, op.Terms)
		case 'l':
			b = appendInt(b, uint64(op.Terms.Limit))
		case '0', '1':
			b = appendInt(b, uint64(op.Terms.Try[argument-'0']))
		case 'm':
			b = appendMode(b, op.Terms)
		case '#':
			b = append(AppendFence(append(b, "$16\r\n"...), op.Fence), '\r', '\n')
		case 'n':
			b = appendInt(b, uint64(1+len(op.more())))
		case '*':
			b = e.appendFields(b, op)
		}
	}
	return b
}

// appendMode writes how a top-up joins others: S, the slot, or empty for an exclusive lock.
func appendMode(b []byte, t *Terms) []byte {
	switch {
	case t == nil || t.Mode == Exclusive:
		return append(b, "$0\r\n\r\n"...)
	case t.Mode == Shared:
		return appendBulk(b, "S")
	}
	return appendInt(b, uint64(t.Slot))
}

// appendFields writes the names of the counters of all keys.
func (e *Encoder) appendFields(b []byte, op *Op) []byte {
	b = e.appendField(b, op.Slot)
	if op.Terms == nil {
		return b
	}
	for _, slot := range op.Terms.Slots {
		b = e.appendField(b, slot)
	}
	return b
}

// appendWaits writes how long an intent may stand, empty for none.
func appendWaits(b []byte, t *Terms) []byte {
	if t != nil && t.Waits > 0 {
		return appendMillis(b, t.Waits)
	}
	return append(b, "$0\r\n\r\n"...)
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
