package resp

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// TestInboundCountsOnce: each byte of the client is counted once, whether it is processed at once,
// held after a command, or read ahead.
func TestInboundCountsOnce(t *testing.T) {
	for _, tt := range []struct {
		steps string // a digit adds that many bytes; the others are calls
		read  uint64
		left  int
	}{
		{"5 arrived skip2 arrived", 5, 3},
		{"5 arrived skip5 3 arrived skip3", 8, 0},
		{"5 arrived skip2 4 hold", 9, 7},
		{"5 hold hold", 5, 5},
		{"hold", 0, 0},
		{"3 arrived ahead6 take skip9", 9, 0},
		{"ahead6 take arrived 1 arrived", 7, 7},
	} {
		t.Run(tt.steps, func(t *testing.T) {
			var p progress
			var in inbound
			in.init(nil, nil, &p, func() {})
			add := func(n byte) { in.buf.Grew(copy(in.buf.Room(), strings.Repeat("x", int(n-'0')))) }
			for step := range strings.FieldsSeq(tt.steps) {
				switch {
				case step == "arrived":
					in.arrived()
				case step == "hold":
					in.hold()
				case step == "take":
					in.takeAhead()
				case strings.HasPrefix(step, "skip"):
					in.skip(int(step[4] - '0'))
				case strings.HasPrefix(step, "ahead"):
					in.ahead.in.Grew(copy(in.ahead.in.Room(), strings.Repeat("x", int(step[5]-'0'))))
					in.ahead.keep()
				default:
					add(step[0])
				}
			}
			if p.read.Load() != tt.read || len(in.bytes()) != tt.left || in.empty() != (tt.left == 0) {
				t.Errorf("counted %d, %d bytes left; want %d, %d", p.read.Load(), len(in.bytes()), tt.read, tt.left)
			}
		})
	}
}

// TestInboundHoldsOnlySoMuch: a client that sends on after a command is read ahead in time.
func TestInboundHoldsOnlySoMuch(t *testing.T) {
	for size, want := range map[int]bool{aheadOwn - 1: false, aheadOwn: true} {
		var p progress
		var in inbound
		in.init(nil, nil, &p, func() {})
		in.buf.Grew(copy(in.buf.Room(), strings.Repeat("x", size)))
		if got := in.hold(); got != want {
			t.Errorf("%d bytes are too many: %v, want %v", size, got, want)
		}
	}
}

// TestUplinkKeepsOrder: bytes that the upstream does not take at once precede later ones.
func TestUplinkKeepsOrder(t *testing.T) {
	p := &picky{}
	u := uplink{conn: p}
	u.unsent = append(u.unsent, "ab"...)
	if err := u.forward([]byte("cd"), false); err != nil || len(p.got) > 0 {
		t.Fatalf("wrote %q before the rest (%v)", p.got, err)
	}
	if err := u.flush(); err != nil || string(p.got) != "abcd" || len(u.unsent) > 0 {
		t.Errorf("wrote %q and kept %q (%v)", p.got, u.unsent, err)
	}
	u.failed = net.ErrClosed
	if err := u.forward([]byte("ef"), false); err != nil || string(p.got) != "abcd" {
		t.Errorf("wrote %q to an upstream that cannot be reached (%v)", p.got, err)
	}
}

// TestUplinkEnter: a session never dials in an era that ended before its note.
func TestUplinkEnter(t *testing.T) {
	var era atomic.Uint64
	era.Store(7)
	var u uplink
	if u.enter(&era); u.era.Load() != 7 {
		t.Errorf("era %d, want 7", u.era.Load())
	}
}
