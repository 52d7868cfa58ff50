package adopt

import (
	"fmt"
	"strconv"
	"time"
)

// fixedReply is a reply that does not depend on the lock. Each is a whole reply in RESP2; null has
// another form in RESP3.
type fixedReply string

const (
	null     fixedReply = "$-1\r\n"
	status   fixedReply = "+OK\r\n"
	bulkOK   fixedReply = "$2\r\nOK\r\n" // of a script that returns the string "OK"
	one      fixedReply = ":1\r\n"       // also of a script that returns true
	zero     fixedReply = ":0\r\n"
	minusOne fixedReply = ":-1\r\n"
	minusTwo fixedReply = ":-2\r\n"
)

func (a fixedReply) append(b []byte, resp3 bool) []byte {
	if a == null && resp3 {
		return append(b, "_\r\n"...)
	}
	return append(b, a...)
}

// AppendRead appends the reply to a Read.
//
//	GET k        $1\r\nA\r\n           or lockproxy:0000000000000007 if another lock, or null
//	PTTL k       :29998\r\n            or :-1 without expiry, :-2 if the key is free
func (c *LockCommand) AppendRead(b []byte, h Holding, resp3 bool) []byte {
	switch c.What {
	case ReadExists:
		if h.Held {
			return one.append(b, resp3)
		}
		return zero.append(b, resp3)
	case ReadPTTL:
		return appendInt(b, h.millis())
	case ReadTTL:
		if ms := h.millis(); ms >= 0 {
			return appendInt(b, (ms+500)/1000)
		}
		return appendInt(b, h.millis())
	case ReadRestIfEqual:
		if !h.Held || !h.Adopted || h.Value != c.Value {
			return appendInt(b, -3)
		}
		return appendInt(b, h.millis())
	case ReadValueAndRest:
		b = h.appendValue(append(b, "*2\r\n"...), resp3)
		return appendInt(b, h.millis())
	}
	return h.appendValue(b, resp3)
}

// millis returns what PTTL answers.
func (h Holding) millis() int64 {
	switch {
	case !h.Held:
		return -2
	case h.Rest < 0:
		return -1
	}
	return int64(h.Rest / time.Millisecond)
}

// appendValue appends what GET answers.
func (h Holding) appendValue(b []byte, resp3 bool) []byte {
	value := h.Value
	switch {
	case !h.Held:
		return null.append(b, resp3)
	case !h.Adopted:
		value = fmt.Sprintf("lockproxy:%016d", h.Fence)
	}
	b = append(strconv.AppendInt(append(b, '$'), int64(len(value)), 10), "\r\n"...)
	return append(append(b, value...), "\r\n"...)
}

func appendInt(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, ':'), n, 10), "\r\n"...)
}
