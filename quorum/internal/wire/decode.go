package wire

import (
	"strconv"
	"time"
)

// PacketCall is a packet as a master gets it.
type PacketCall struct {
	StateKey, Record string
	Fencing          bool // an operation names its counter
	Ops              []Op
}

// DecodePacket reads the KEYS and ARGV that AppendPacket wrote; ok is false for anything else.
// It is for masters made of Go, as tests have them.
func DecodePacket(keys, argv []string) (c PacketCall, ok bool) {
	if len(keys) == 0 || len(argv) < 2 {
		return c, false
	}
	c.StateKey, c.Record, argv = keys[0], argv[0], argv[2:]
	for _, key := range keys[1:] {
		op, used := c.decodeOp(argv)
		if used == 0 {
			return c, false
		}
		op.Key = key
		c.Ops, argv = append(c.Ops, op), argv[used:]
	}
	return c, len(argv) == 0
}

// decodeOp reads the operation that argv begins with, and returns how many arguments it has: 0
// if it is none.
func (c *PacketCall) decodeOp(argv []string) (op Op, used int) {
	if len(argv) == 0 || len(argv[0]) != 1 {
		return op, 0
	}
	letter := argv[0][0]
	if letter == publishLetter {
		op.Publish, letter = true, letters[Release]
	}
	for letters[op.Kind] != letter {
		if op.Kind++; int(op.Kind) == len(letters) {
			return op, 0
		}
	}
	used = arguments[op.Kind]
	if len(argv) < used {
		return op, 0
	}
	if used > 1 {
		op.Secret = argv[1]
	}
	good := true
	switch op.Kind {
	case Acquire:
		op.TTL, op.Slot, op.Owner = decodeMillis(argv[2], &good), c.decodeSlot(argv[3], &good), argv[4]
	case Raise:
		op.Fence, op.Slot = decodeNumber(argv[2], &good), c.decodeSlot(argv[3], &good)
	case TopUp:
		op.TTL, op.Slot = decodeMillis(argv[2], &good), c.decodeSlot(argv[3], &good)
		op.Fence, op.Owner = decodeNumber(argv[4], &good), argv[5]
	case Extend, Fade:
		op.TTL = decodeMillis(argv[2], &good)
	}
	if !good {
		return op, 0
	}
	return op, used
}

func (c *PacketCall) decodeSlot(field string, good *bool) uint16 {
	if field == "" {
		return 0
	}
	c.Fencing = true
	n := decodeNumber(field, good)
	*good = *good && n < Slots
	return uint16(n)
}

func decodeMillis(text string, good *bool) time.Duration {
	return millis(int64(decodeNumber(text, good)))
}

func decodeNumber(text string, good *bool) uint64 {
	n, err := strconv.ParseUint(text, 10, 63)
	*good = *good && err == nil
	return n
}
