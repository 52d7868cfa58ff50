package wire

import (
	"math"
	"strconv"
	"strings"
	"time"

	"lockproxy/resp/respio"
)

// CodeNotAdmitted is the code of the error that takes the place of an operation's result if the
// record differs.
const CodeNotAdmitted = "NOTADMITTED"

// CodeTooLate is the code of the error that an Acquire or a TopUp gets if it is too old. The
// master has set no key.
const CodeTooLate = "TOOLATE"

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
// error of the whole packet, or the reply to another request. After an error other than -ERR no
// operation of the packet was carried out.
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
	at := clock(seconds.Int, micros.Int)
	return PacketReply{admitted.Int > 0, uint64(max(admitted.Int-1, 0)), at, r.Elems[3:]}, true
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
//	< $20\r\nL0030000000000000042\r\n  mode, slot, fence
func Granted(r *Reply) (fence uint64, slot int, ok bool) {
	switch {
	case r.Kind == ':' && r.Int >= 0:
		return uint64(r.Int), 0, true
	case r.Kind != '$' || r.Null:
		return 0, 0, false
	}
	_, h, ok := ParseEntry(r.Text)
	return h.Fence, h.Slot, ok
}

// Lengths of the parts of an entry in front of the fence: see packet.lua.
const slotEnd = len("L003")

// ParseEntry reads the entry of one of several holders: mode, slot, fence and owner.
func ParseEntry(entry string) (mode Mode, h Entry, ok bool) {
	if len(entry) < slotEnd || entry[0] != 'S' && entry[0] != 'L' {
		return mode, h, false
	}
	mode = Shared
	if entry[0] == 'L' {
		mode = Limited
	}
	slot, err := respio.ParseInt([]byte(entry[1:slotEnd]))
	h.Slot = int(slot)
	h.Fence, h.Owner, ok = ParseFenceOwner(entry[slotEnd:])
	return mode, h, ok && err == nil && slot >= 0 && slot < MaxLimit
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
// Of the holder it returns slot, fence and owner.
//
//	< $16\r\n0000000000000042\r\n
//	< $20\r\nS0000000000000000042\r\n  of a reader
//	< $20\r\nL0030000000000000042\r\n  of slot 3
func Extended(r *Reply) (mode Mode, h Entry, ok bool) {
	if r.Kind != '$' || r.Null {
		return mode, h, false
	}
	if strings.HasPrefix(r.Text, "S") || strings.HasPrefix(r.Text, "L") {
		return ParseEntry(r.Text)
	}
	h.Fence, h.Owner, _ = ParseFenceOwner(r.Text)
	return Exclusive, h, true
}

// Refreshed reports whether a Refresh found its token. longer is 0 if the lock has the new end
// now. Otherwise the lock ends later and is unchanged, because this end was not named; negative:
// it has no end. Of the holder it returns fence and owner.
//
//	< $16\r\n0000000000000042\r\n
//	< $31\r\n>1700000000000 0000000000000042\r\n
func Refreshed(r *Reply) (longer int64, h Entry, ok bool) {
	if r.Kind != '$' || r.Null {
		return 0, h, false
	}
	text, named := strings.CutPrefix(r.Text, ">")
	if named {
		end, rest, cut := strings.Cut(text, " ")
		var err error
		if longer, err = strconv.ParseInt(end, 10, 64); err != nil || !cut || longer == 0 {
			return 0, h, false
		}
		text = rest
	}
	h.Fence, h.Owner, ok = ParseFenceOwner(text)
	return longer, h, ok
}

// Inspected is the result of an Inspect. The zero value means that the key has no lock.
type Inspected struct {
	Mode    Mode      // Exclusive for every string; Foreign, without holders, for all that is no lock
	Count   int       // how many hold it, which may be more than Holders
	Holders []Entry   // one of a string; of Shared and Limited at most MaxLimit
	Came    time.Time // set by the caller of ParseInspect
}

// Entry is one who holds a lock, or a place that was left closed.
type Entry struct {
	ID     string        // what two values of one token have in common: the secret, or all that another library wrote
	Slot   int           // of Limited
	Left   time.Duration // how long this holder lives on, or Forever
	Fence  uint64
	Owner  string
	Closed bool // by KEEP
}

// closedPrefix begins the secret of what KEEP closed.
const closedPrefix = "kept"

// Forever is how long a key without expiry lives.
const Forever = time.Duration(math.MaxInt64)

// holder parses a value; of a string the script sends the first 640 bytes.
func holder(value string, ms int64) Entry {
	h := Entry{ID: value, Left: millis(ms)}
	if ms < 0 {
		h.Left = Forever
	}
	if value == "" {
		h.ID = "\x00" // an empty string is a value too
	}
	if len(value) >= SecretLen {
		if fence, owner, ok := ParseFenceOwner(value[SecretLen:]); ok {
			h.ID, h.Fence, h.Owner = value[:SecretLen], fence, owner
			h.Closed = strings.HasPrefix(h.ID, closedPrefix)
		}
	}
	return h
}

// ParseInspect reads the result of an Inspect.
//
//	< $-1\r\n                  no key
//	< $15\r\n5000 some value\r\n
//	< +OTHER\r\n               no lock
//	< *6\r\n$6\r\nshared\r\n:5000\r\n:1\r\n$40\r\n<secret>\r\n$20\r\n<entry>\r\n:5000\r\n
func ParseInspect(r *Reply) (found Inspected, ok bool) {
	switch {
	case r.Kind == '+':
		return Inspected{Mode: Foreign}, r.Text == "OTHER"
	case r.Kind == '*' && len(r.Elems) >= 3:
		return parseHolders(r.Elems)
	case r.Kind != '$':
		return found, false
	case r.Null:
		return found, true
	}
	left, value, ok := strings.Cut(r.Text, " ")
	ms, err := respio.ParseInt([]byte(left))
	if !ok || err != nil {
		return found, false
	}
	return Inspected{Count: 1, Holders: []Entry{holder(value, ms)}}, true
}

// parseHolders parses the holders of a lock that several may hold.
func parseHolders(elems []Reply) (found Inspected, ok bool) {
	found = Inspected{Mode: Shared, Count: int(elems[2].Int)}
	if elems[0].Text == Limited.String() {
		found.Mode = Limited
	}
	for at := 3; at+2 < len(elems); at += 3 {
		secret, entry, left := elems[at].Text, elems[at+1].Text, elems[at+2].Int
		_, h, _ := ParseEntry(entry) // zero without one
		h.ID, h.Left, h.Closed = secret, millis(left), strings.HasPrefix(secret, closedPrefix)
		found.Holders = append(found.Holders, h)
	}
	return found, true
}

// millis is so many milliseconds, or -1 for a negative number. It does not overflow.
func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	const most = int64((1<<63 - 1) / time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}
