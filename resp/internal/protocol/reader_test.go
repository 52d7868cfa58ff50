package protocol

import (
	"reflect"
	"testing"
)

// TestSplit is a table of an upstream's bytes, their Part, and the replies counted, without a
// query.
func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, before, b string
		want            Part
		received        uint64
	}{
		{"whole replies", "", "+OK\r\n:1\r\n$-1\r\n", Part{To: 14, Boundary: 14, Used: 14}, 3},
		{"half a line", "", "+OK\r\n+O", Part{To: 7, Boundary: 5, Used: 7}, 1},
		{"the rest of a line", "+O", "K\r\n", Part{To: 3, Boundary: 3, Used: 3}, 1},
		{"half a header comes again", "", ":1\r\n$1", Part{To: 4, Boundary: 4, Used: 4}, 1},
		{"half a blob", "", "$3\r\nab", Part{To: 6, Used: 6}, 0},
		{"the rest of a blob", "$3\r\nab", "c\r\n+OK\r\n", Part{To: 8, Boundary: 8, Used: 8}, 2},
		{"an aggregate is one reply", "", "*2\r\n:1\r\n*1\r\n:2\r\n+O", Part{To: 18, Boundary: 16, Used: 18}, 1},
		{"a push is none", "", ">1\r\n+x\r\n:1\r\n", Part{To: 12, Boundary: 12, Used: 12}, 1},
		{"an attribute belongs to its reply", "", "|1\r\n+k\r\n+v\r\n:1\r\n", Part{To: 16, Boundary: 16, Used: 16}, 1},
		{"no length", "", "+OK\r\n*x\r\n+OK\r\n", Part{To: 14, Boundary: 5, Used: 14, Garbled: true}, 1},
		{"after no length", "*x\r\n", "+OK\r\n", Part{To: 5, Used: 5, Garbled: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Conn
			r := NewReader(&c)
			r.Split([]byte(tt.before))
			if got := r.Split([]byte(tt.b)); !reflect.DeepEqual(got, tt.want) || c.Received() != tt.received {
				t.Errorf("got %+v and %d replies,\nwant %+v and %d", got, c.Received(), tt.want, tt.received)
			}
		})
	}
}

// TestSplitAtMarker: the Part ends before a marker. The answered query counts as many replies as
// were expected.
func TestSplitAtMarker(t *testing.T) {
	for _, tt := range []struct {
		name, text string // the text ends with the marker
		expected   uint64
		want       Part // but Used, which is all
		received   uint64
	}{
		{"after a reply", "+OK\r\n" + endAnswer, 1, Part{To: 5, Boundary: 5, Removed: true, Answered: 1}, 1},
		{"after fewer replies than expected", "+OK\r\n" + endAnswer, 7,
			Part{To: 5, Boundary: 5, Removed: true, Answered: 1}, 7},
		{"first", endAnswer, 0, Part{Removed: true, Answered: 1}, 0},
		{"opening", ":1\r\n" + openAnswer, 7, Part{To: 4, Boundary: 4, Removed: true}, 1},
		{"in an aggregate that is short", "*2\r\n:1\r\n" + endAnswer, 1,
			Part{To: 8, Boundary: 8, Removed: true, Answered: 1}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h hearing
			h.reader = NewReader(&h.conn)
			h.conn.Expect(tt.expected)
			h.conn.queries.ask(asks{standing: true})
			b := []byte(h.names().Replace(tt.text))
			tt.want.Used = len(b)
			if got := h.reader.Split(b); !reflect.DeepEqual(got, tt.want) || h.conn.Received() != tt.received {
				t.Errorf("got %+v and %d replies,\nwant %+v and %d", got, h.conn.Received(), tt.want, tt.received)
			}
		})
	}
}

// TestAllAnswered: more replies than expected count as all.
func TestAllAnswered(t *testing.T) {
	for _, tt := range []struct {
		name           string
		sent, received uint64
		want           bool
	}{
		{"nothing was sent", 0, 0, true},
		{"a reply is missing", 3, 2, false},
		{"all have come", 3, 3, true},
		{"more have come", 3, 4, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c ReplyCounts
			c.Expect(tt.sent)
			c.received.Store(tt.received)
			if got := c.AllAnswered(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSetGarbled: one caller, the first, reports the loss.
func TestSetGarbled(t *testing.T) {
	var c ReplyCounts
	before, first, second := c.Garbled(), c.SetGarbled(), c.SetGarbled()
	if before || !first || second || !c.Garbled() {
		t.Errorf("garbled %v, then first %v, first %v, garbled %v", before, first, second, c.Garbled())
	}
}
