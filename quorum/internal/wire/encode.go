package wire

import (
	"strconv"
	"time"

	"lockproxy/resp/respio"
)

// Encoder writes packets. It never changes, and serves all masters of a Quorum.
type Encoder struct {
	StateKey string // name of the hash with the record and the counters
	Fencing  bool
}

// operation is how a packet names an operation that has no column, and its arguments in the order
// of packet.lua: secret, ttl, field, owner, waits, limit, the two slots that are tried first (0,
// 1), mode, fence (#), the fields of all keys (*), end (e), within (a).
type operation struct{ name, arguments string }

// operations of each kind. The encoder chooses among those of Acquire, Raise and Release.
var (
	operations = [...]operation{
		Raise: {"raise", "s#f"}, Release: {"release", "s"}, Fade: {"fade", "st"}, TopUp: {"top_up", "stf#oma"},
		Extend: {"extend", "st"}, Share: {"share", "stf"}, Check: {"check", "s"}, Inspect: {"inspect", ""},
		Free: {"free", ""}, Refresh: {"refresh", "ste"},
	}
	acquireShared = operation{"acquire_shared", "stfow"}
	acquireSlot   = operation{"acquire_slot", "stfowl01"}
	acquireKeys   = operation{"acquire_keys", "stow*"}
	raiseKeys     = operation{"raise_keys", "s#*"}
	tellOp        = operation{"tell", "s"}
	leaveOp       = operation{"leave", "s"}
	keepOp        = operation{"keep", "st"}
)

// group returns the columns of a packet to which the operation belongs.
func (o *Op) group() group {
	switch {
	case o.Kind == Release && o.TTL > 0:
		return groupOther
	case o.Kind == Release && o.Publish:
		if o.Mode() == Shared || o.Mode() == Limited {
			return groupOther
		}
		return groupPublish
	case o.Kind == Release:
		return groupRelease
	case o.Kind != Acquire || o.Mode() != Exclusive || o.more() != nil:
		return groupOther
	case o.Terms != nil && o.Terms.Waits > 0:
		return groupWait
	}
	return groupAcquire
}

// operation returns how a packet names the operation if it is in no column. An acquire is then of
// several keys, even if there is only one.
func (o *Op) operation() *operation {
	mode := o.Mode()
	switch {
	case o.Kind == Release && o.TTL > 0:
		return &keepOp
	case o.Kind == Release && o.Publish && (mode == Shared || mode == Limited):
		return &leaveOp
	case o.Kind == Release && o.Publish:
		return &tellOp
	case o.Kind == Acquire && mode == Shared:
		return &acquireShared
	case o.Kind == Acquire && mode == Limited:
		return &acquireSlot
	case o.Kind == Acquire:
		return &acquireKeys
	case o.Kind == Raise && o.more() != nil:
		return &raiseKeys
	}
	return &operations[o.Kind]
}

// counters returns how many counters the operation uses if it is in no column.
func (o *Op) counters() int {
	switch o.Kind {
	case Acquire, Raise, TopUp, Share:
		return 1 + len(o.more())
	}
	return 0
}

// AppendPacket writes a batch as one call of Packet: EVALSHA, or EVAL with the body of the script.
// record is the one under which the master votes, empty for any.
//
//	> *10\r\n$7\r\nEVALSHA\r\n$40\r\n<sha>\r\n$1\r\n2\r\n
//	  $21\r\nlockproxy:state:lock:\r\n$8\r\nlock:job\r\n
//	  $92\r\nA <run_id> <fingerprint> <nonce>\r\n$4\r\n1000\r\n$0\r\n\r\n$0\r\n\r\n
//	  $40\r\n<secret>\r\n
func (e *Encoder) AppendPacket(b []byte, batch *Batch, record string, body bool) []byte {
	all := batch.arrange()
	ops := all[:batch.n]
	releases := batch.sizes[groupPublish] + batch.sizes[groupRelease]
	acquires := batch.sizes[groupAcquire] + batch.sizes[groupWait]
	keys, args, counters := 1, 4+releases+3*acquires+batch.sizes[groupWait], 0
	for i, op := range ops {
		keys += 1 + len(op.more())
		if i >= releases+acquires {
			n := len(op.operation().arguments) + len(op.more())
			args += 2 + n + op.counters()
			counters += op.counters()
		}
	}
	b = Packet.appendHead(b, body, keys, args)
	b = respio.AppendBulk(b, e.StateKey)
	for _, op := range ops {
		b = respio.AppendBulk(b, op.Key)
		for _, key := range op.more() {
			b = respio.AppendBulk(b, key)
		}
	}
	b = respio.AppendBulk(b, record)
	b = appendCounts(b, batch, counters)
	b = appendAges(b, ops[releases:])
	for _, op := range ops[:releases] {
		b = respio.AppendBulk(b, op.Secret)
	}
	b = e.appendAcquires(b, ops[releases:releases+acquires], ops[releases+acquires:], batch.sizes[groupAcquire])
	for _, op := range ops[releases+acquires:] {
		b = e.appendOp(b, op)
	}
	return b
}

// appendCounts writes how many operations each group of columns has, and how many counters the
// operations without columns use.
//
//	> $5\r\n10203\r\n
func appendCounts(b []byte, batch *Batch, counters int) []byte {
	var digits [8]byte
	text := digits[:0]
	if counters > 0 {
		text = strconv.AppendInt(text, int64(counters), 10)
	}
	b = respio.AppendHeader(b, '$', int(groupOther)+len(text))
	for _, n := range batch.sizes[:groupOther] {
		b = append(b, '0'+byte(n))
	}
	return append(append(b, text...), '\r', '\n')
}

// appendAges writes when the first of the operations that set keys is too late, and when the first
// of them was asked for: in microseconds, rounded down. Both are empty if none of them may be too
// late.
//
//	> $16\r\n1700000019800000\r\n$16\r\n1700000000000000\r\n
func appendAges(b []byte, ops []*Op) []byte {
	var late, begun time.Duration
	for _, op := range ops {
		at := op.tooLate()
		switch {
		case at == 0:
		case late == 0:
			late, begun = at, op.Begun
		default:
			late, begun = min(late, at), min(begun, op.Begun)
		}
	}
	if late == 0 {
		return append(b, "$0\r\n\r\n$0\r\n\r\n"...)
	}
	b = respio.AppendDigits(b, uint64(max(late.Microseconds(), 0)))
	return respio.AppendDigits(b, uint64(max(begun.Microseconds(), 0)))
}

// appendAcquires writes the columns of acquires, of which those from waiting on are of clients
// that wait, and the counters of the others.
func (e *Encoder) appendAcquires(b []byte, ops, others []*Op, waiting int) []byte {
	for _, op := range ops {
		b = respio.AppendHeader(b, '$', len(op.Secret)+len(op.Owner))
		b = append(append(b, op.Secret...), op.Owner...)
		b = append(b, '\r', '\n')
	}
	for _, op := range ops {
		b = e.appendField(b, op.Counter)
	}
	for _, op := range others {
		if op.counters() > 0 {
			b = e.appendFields(b, op)
		}
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
	o := op.operation()
	n := len(o.arguments) + len(op.more())
	b = respio.AppendDigits(respio.AppendBulk(b, o.name), uint64(n))
	for _, argument := range []byte(o.arguments) {
		switch argument {
		case 's':
			b = respio.AppendBulk(b, op.Secret)
		case 't':
			b = appendMillis(b, op.TTL)
		case 'f':
			b = e.appendField(b, op.Counter)
		case 'o':
			b = respio.AppendBulk(b, op.Owner)
		case 'w':
			b = appendWaits(b, op.Terms)
		case 'l':
			b = respio.AppendDigits(b, uint64(op.Terms.Limit))
		case '0', '1':
			b = respio.AppendDigits(b, uint64(op.Terms.Try[argument-'0']))
		case 'a':
			b = appendMillis(b, op.Within)
		case 'e':
			b = appendEnd(b, op.End)
		case 'm':
			b = appendMode(b, op.Terms)
		case '#':
			b = append(AppendFence(append(b, "$16\r\n"...), op.Fence), '\r', '\n')
		case '*':
			b = e.appendFields(b, op)
		}
	}
	return b
}

// appendMode writes the mode of a top-up, or its slot.
func appendMode(b []byte, t *Terms) []byte {
	switch {
	case t == nil || t.Mode == Exclusive:
		return respio.AppendBulk(b, "exclusive")
	case t.Mode == Shared:
		return respio.AppendBulk(b, "shared")
	}
	return respio.AppendDigits(b, uint64(t.Slot))
}

// appendFields writes the names of the counters of all keys.
func (e *Encoder) appendFields(b []byte, op *Op) []byte {
	b = e.appendField(b, op.Counter)
	if op.more() != nil {
		for _, counter := range op.Terms.Counters {
			b = e.appendField(b, counter)
		}
	}
	return b
}

// appendWaits writes the lifetime of an intent, empty for none.
func appendWaits(b []byte, t *Terms) []byte {
	if t != nil && t.Waits > 0 {
		return appendMillis(b, t.Waits)
	}
	return append(b, "$0\r\n\r\n"...)
}

// appendMillis writes a duration, rounded down to whole milliseconds. A duration of less than one
// becomes one: SET refuses 0, and PEXPIRE deletes at 0.
func appendMillis(b []byte, d time.Duration) []byte {
	return respio.AppendDigits(b, uint64(max(d.Milliseconds(), 1)))
}

// appendEnd writes the end of a lock, which may be negative.
func appendEnd(b []byte, end int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], end, 10)
	b = append(respio.AppendHeader(b, '$', len(text)), text...)
	return append(b, '\r', '\n')
}

// appendField writes the name of a counter, empty without fencing.
func (e *Encoder) appendField(b []byte, slot uint16) []byte {
	if !e.Fencing {
		return append(b, "$0\r\n\r\n"...)
	}
	return respio.AppendDigits(b, uint64(slot))
}

// AppendCommand writes any command.
func AppendCommand(b []byte, args ...string) []byte { return respio.AppendCommand(b, args...) }
