package wire

import (
	"math"
	"strings"
	"time"
)

// CodeNotAdmitted is the code of the error that takes the place of an operation's result where the
// record differs.
const CodeNotAdmitted = "NOTADMITTED"

// CodeWrongMode is the code of the error of a Share that finds a slot.
const CodeWrongMode = "WRONGMODE"

// PacketReply is the reply to a packet.
type PacketReply struct {
	Admitted bool          // the master has the record of the packet
	Writes   uint64        // packets that a durable master has counted; else 0
	Clock    time.Duration // the master's time since 1970
	Results  []Reply       // one for each operation, see Batch.Place; elements of the reply it was read from
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
	if admitted.Kind != ':' || admitted.Int < 0 || seconds.Kind != ':' || micros.Kind != ':' {
		return p, false
	}
	return PacketReply{admitted.Int > 0, uint64(max(admitted.Int-1, 0)), clock(seconds.Int, micros.Int), r.Elems[3:]}, true
}

// clock is a master's time since 1970. What no Duration holds, it cuts to the years 1970 to 2242.
func clock(seconds, micros int64) time.Duration {
	seconds, micros = min(max(seconds, 0), 1<<33), min(max(micros, 0), 999_999)
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
}

// Granted reports whether an Acquire was granted, the fence, which is 0 without fencing, and of
// Limited the slot.
//
//	< :42\r\n
//	< $18\r\n3 0000000000000042\r\n  the slot, the fence
func Granted(r *Reply) (fence uint64, slot int, ok bool) {
	switch {
	case r.Kind == ':' && r.Int >= 0:
		return uint64(r.Int), 0, true
	case r.Kind != '$' || r.Null:
		return 0, 0, false
	}
	slot, text, ok := cutSlot(r.Text)
	if !ok {
		return 0, 0, false
	}
	fence, _, ok = BehindSecret(text)
	return fence, slot, ok
}

// cutSlot cuts the slot in front of a value off.
func cutSlot(text string) (slot int, rest string, ok bool) {
	digits, rest, ok := strings.Cut(text, " ")
	n, err := parseInt([]byte(digits))
	return int(n), rest, ok && err == nil && n >= 0 && n < MaxLimit
}

// Refused reports whether an Acquire found another key, and how long that lives on: negative for
// ever.
func Refused(r *Reply) (left time.Duration, ok bool) {
	if r.Kind != ':' || r.Int >= 0 {
		return 0, false
	}
	return millis(-2 - r.Int), true
}

// Extended reports whether an Extend found its token, and in what mode the token holds the lock.
// Of the holder it tells slot, fence and owner.
//
//	< $16\r\n0000000000000042\r\n
//	< $17\r\nS0000000000000042\r\n    of a reader
//	< $19\r\nL3 0000000000000042\r\n  of slot 3
func Extended(r *Reply) (mode Mode, h Holder, ok bool) {
	if r.Kind != '$' || r.Null {
		return mode, h, false
	}
	text, ok := r.Text, true
	switch {
	case strings.HasPrefix(text, "S"):
		mode, text = Shared, text[1:]
	case strings.HasPrefix(text, "L"):
		mode = Limited
		h.Slot, text, ok = cutSlot(text[1:])
	}
	h.Fence, h.Owner, _ = BehindSecret(text)
	return mode, h, ok
}

// Inspected is what an Inspect found. The zero value is nothing, or something that is no lock.
type Inspected struct {
	Mode    Mode     // Exclusive for every string
	Count   int      // how many hold it, which may be more than Holders
	Holders []Holder // one of a string; of Shared and Limited at most MaxLimit
}

// Holder is one who holds a lock, or a place that was left closed.
type Holder struct {
	ID     string        // what two values of one token have in common: the secret, or all that another library wrote
	Slot   int           // of Limited
	Left   time.Duration // how long this holder lives on, or Forever
	Fence  uint64
	Owner  string
	Closed bool // by KEEP
}

// Forever is how long a key without expiry lives.
const Forever = time.Duration(math.MaxInt64)

// holder reads a value, of which a string tells its first 256 bytes.
func holder(value string, ms int64) Holder {
	h := Holder{ID: value, Left: millis(ms)}
	if ms < 0 {
		h.Left = Forever
	}
	if value == "" {
		h.ID = "\x00" // an empty string is a value too
	}
	if len(value) >= SecretLen {
		if fence, owner, ok := BehindSecret(value[SecretLen:]); ok {
			h.ID, h.Fence, h.Owner = value[:SecretLen], fence, owner
			h.Closed = strings.HasPrefix(h.ID, "kept")
		}
	}
	return h
}

// ParseInspect reads the result of an Inspect.
//
//	< $-1\r\n                  nothing
//	< $15\r\n5000 some value\r\n
//	< +OTHER\r\n               no lock
//	< *5\r\n$6\r\nshared\r\n:5000\r\n:1\r\n$60\r\n<value>\r\n:5000\r\n
func ParseInspect(r *Reply) (found Inspected, ok bool) {
	switch {
	case r.Kind == '+':
		return found, r.Text == "OTHER"
	case r.Kind == '*' && len(r.Elems) >= 3:
		return parseHolders(r.Elems)
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
	return Inspected{Count: 1, Holders: []Holder{holder(value, ms)}}, true
}

// parseHolders reads what was found of a lock that several may hold.
func parseHolders(elems []Reply) (found Inspected, ok bool) {
	found = Inspected{Mode: Shared, Count: int(elems[2].Int)}
	if elems[0].Text == Limited.String() {
		found.Mode = Limited
	}
	for at := 3; at+1 < len(elems); at += 2 {
		value, slot := elems[at].Text, 0
		if found.Mode == Limited {
			if slot, value, ok = cutSlot(value); !ok {
				return Inspected{}, false
			}
		}
		h := holder(value, elems[at+1].Int)
		h.Slot = slot
		found.Holders = append(found.Holders, h)
	}
	return found, elems[0].Text == found.Mode.String() && elems[1].Kind == ':' && elems[2].Kind == ':'
}

// millis is so many milliseconds, or -1 for a negative number. It does not overflow.
func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	const most = int64((1<<63 - 1) / time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}
