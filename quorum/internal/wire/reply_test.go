package wire

import (
	"cmp"
	"fmt"
	"strconv"
	"testing"
	"time"
)

func parsed(t *testing.T, in string) *Reply {
	t.Helper()
	var r Reply
	if n, err := Parse([]byte(in), &r); n != len(in) || err != nil {
		t.Fatalf("%q: %d, %v", in, n, err)
	}
	return &r
}

func TestReply(t *testing.T) {
	for _, c := range []struct {
		in            string
		code          string
		one           bool
		fence, left   int64 // -9: not granted, not refused
		extended      string
		inspectedKind string
	}{
		{":1\r\n", "", true, 1, -9, "", ""},
		{":0\r\n", "", false, 0, -9, "", ""},
		{":9007199254740991\r\n", "", false, 9007199254740991, -9, "", ""},
		{":-1\r\n", "", false, -9, -1, "", ""},
		{":-2\r\n", "", false, -9, 0, "", ""},
		{":-5002\r\n", "", false, -9, 5e9, "", ""},
		{":-9223372036854775808\r\n", "", false, -9, 9223372036854e6, "", ""},
		{"-OOM no memory\r\n", "OOM", false, -9, -9, "", ""},
		{"-\r\n", "", false, -9, -9, "", ""},
		{"$5\r\nOOM x\r\n", "", false, -9, -9, "", ""},
		{"$1\r\n1\r\n", "", false, -9, -9, "", ""},
		{"$16\r\n0000000000000042\r\n", "", false, -9, -9, "exclusive 0 42 ", ""},
		{"$22\r\nS0000000000000000042me\r\n", "", false, 42, -9, "shared 0 42 me", ""},
		{"$20\r\nL0030000000000000042\r\n", "", false, 42, -9, "limit 3 42 ", ""},
		{"$-1\r\n", "", false, -9, -9, "", "nothing"},
		{"$0\r\n\r\n", "", false, -9, -9, "", ""},
		{"+OTHER\r\n", "", false, -9, -9, "", "other"},
		{"+OK\r\n", "", false, -9, -9, "", ""},
		{"$8\r\n-1 value\r\n", "", false, -9, -9, "", Forever.String() + " value"},
		{"$5\r\n5000 \r\n", "", false, -9, -9, "", "5s \x00"},
		{"*1\r\n:1\r\n", "", false, -9, -9, "", ""},
	} {
		t.Run(strconv.Quote(c.in), func(t *testing.T) {
			r := parsed(t, c.in)
			if r.Code() != c.code || r.IsError() != (c.in[0] == '-') || r.Is(1) != c.one {
				t.Errorf("code %q, error %v, 1 %v", r.Code(), r.IsError(), r.Is(1))
			}
			if fence, _, ok := Granted(r); ok != (c.fence != -9) || ok && fence != uint64(c.fence) {
				t.Errorf("granted %d, %v", fence, ok)
			}
			if left, ok := Refused(r); ok != (c.left != -9) || ok && left != time.Duration(c.left) {
				t.Errorf("refused %d, %v", left, ok)
			}
			if mode, h, ok := Extended(r); ok != (c.in[0] == '$' && !r.Null) ||
				fmt.Sprint(mode, " ", h.Slot, " ", h.Fence, " ", h.Owner) != cmp.Or(c.extended, "exclusive 0 0 ") {
				t.Errorf("extended %v, %+v, %v", mode, h, ok)
			}
			found, ok := ParseInspect(r)
			kind := ""
			switch {
			case !ok:
			case found.Holders != nil:
				kind = found.Holders[0].Left.String() + " " + found.Holders[0].ID
			case r.Null:
				kind = "nothing"
			default:
				kind = "other"
			}
			if kind != c.inspectedKind {
				t.Errorf("inspected %q, want %q", kind, c.inspectedKind)
			}
		})
	}
}

func TestRefreshed(t *testing.T) {
	for _, c := range []struct {
		in, owner string
		longer    int64
		fence     uint64
		ok        bool
	}{
		{":0\r\n", "", 0, 0, false},
		{"$-1\r\n", "", 0, 0, false},
		{"-OOM no memory\r\n", "", 0, 0, false},
		{"$0\r\n\r\n", "", 0, 0, false},
		{"$19\r\n0000000000000042\x01>v\r\n", "\x01>v", 0, 42, true},
		{"$31\r\n>1700000000000 0000000000000042\r\n", "", 1700000000000, 42, true},
		{"$24\r\n>-1 0000000000000042\x01 v \r\n", "\x01 v ", -1, 42, true},
		{"$19\r\n>0 0000000000000042\r\n", "", 0, 0, false},
		{"$4\r\n>5 v\r\n", "", 5, 0, false},
		{"$3\r\n>x \r\n", "", 0, 0, false},
	} {
		t.Run(strconv.Quote(c.in), func(t *testing.T) {
			longer, h, ok := Refreshed(parsed(t, c.in))
			if longer != c.longer || h.Fence != c.fence || h.Owner != c.owner || ok != c.ok {
				t.Errorf("%d, %+v, %v", longer, h, ok)
			}
		})
	}
}

func TestValueOf(t *testing.T) {
	for owner, want := range map[string]string{"": "", "label": "", "x\x01": "", "\x01": "v", "\x01v": "vv",
		OwnerOf("\x01"): "v\x01"} {
		value, adopted := ValueOf(owner)
		if adopted != (want != "") || adopted && "v"+value != want {
			t.Errorf("%q: %q, %v", owner, value, adopted)
		}
	}
}

func TestParsePacket(t *testing.T) {
	p, ok := ParsePacket(parsed(t, "*5\r\n:1\r\n:1700000000\r\n:123456\r\n:42\r\n-ERR no\r\n"), 2)
	if !ok || !p.Admitted || p.Clock != 1700000000123456*time.Microsecond || len(p.Results) != 2 ||
		!p.Results[0].Is(42) || !p.Results[1].IsError() {
		t.Errorf("%+v %v", p, ok)
	}
	if p, ok = ParsePacket(parsed(t, "*3\r\n:18\r\n:1\r\n:2\r\n"), 0); !ok || !p.Admitted || p.Writes != 17 {
		t.Errorf("%+v %v", p, ok)
	}
	if p, ok = ParsePacket(parsed(t, "*3\r\n:0\r\n:1\r\n:2\r\n"), 0); !ok || p.Admitted {
		t.Errorf("%+v %v", p, ok)
	}
	for in, want := range map[string]time.Duration{
		"*3\r\n:1\r\n:9223372036854775807\r\n:9223372036854775807\r\n": 1<<33*time.Second + 999999*time.Microsecond,
		"*3\r\n:1\r\n:-1\r\n:-1\r\n":                                   0,
	} {
		if p, ok = ParsePacket(parsed(t, in), 0); !ok || p.Clock != want {
			t.Errorf("%q: clock %d, %v", in, p.Clock, ok)
		}
	}
	for _, in := range []string{"-NOSCRIPT no\r\n", ":1\r\n", "*-1\r\n", "*2\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n",
		"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
		"*4\r\n$1\r\n1\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:1\r\n-ERR\r\n:1\r\n", "*4\r\n:-1\r\n:1\r\n:1\r\n:1\r\n"} {
		if p, ok := ParsePacket(parsed(t, in), 1); ok {
			t.Errorf("%q is %+v", in, p)
		}
	}
}

func TestParseProbe(t *testing.T) {
	bulk := func(s string) *Reply { return &Reply{Kind: '$', Text: s} }
	p, ok := ParseProbe(bulk("1700000000 5 3\nA x\ns=1\nf 1-0-a\nrun\n17"))
	want := ProbeReply{1700000000000005 * time.Microsecond, 3, "A x", "s=1", "f 1-0-a", "run", 17}
	if !ok || p != want {
		t.Errorf("%+v %v", p, ok)
	}
	for _, bad := range []*Reply{{Kind: '$', Null: true}, {Kind: '+', Text: "1 1 1\n\n\n\n\n"}, bulk(""),
		bulk("1 1 1\n\n\n\n"), bulk("1 1 1\n\n\n\n\n\n"),
		bulk("1 1\n\n\n\n\n"), bulk("x 1 1\n\n\n\n\n"), bulk("1 x 1\n\n\n\n\n"), bulk("1 1 x\n\n\n\n\n")} {
		if p, ok := ParseProbe(bad); ok {
			t.Errorf("%+v is %+v", bad, p)
		}
	}
}

func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{"": 0, "123456789": 0x31c3 % 4096, "{123456789}": CounterOf("{123456789}")} {
		if got := CounterOf(key); got != want {
			t.Errorf("CounterOf(%q) = %d, want %d", key, got, want)
		}
	}
	if CounterOf("{a}1") == CounterOf("{a}2") {
		t.Error("braces choose the counter")
	}
}

func TestParseFenceOwner(t *testing.T) {
	for _, c := range []struct {
		tail  string
		fence uint64
		owner string
		ok    bool
	}{
		{"0000000000000042", 42, "", true},
		{"9007199254740991me and you", 9007199254740991, "me and you", true},
		{"000000000000004", 0, "", false},
		{"00000000000000x2", 0, "", false},
		{"-000000000000042", 0, "", false},
		{"", 0, "", false},
	} {
		t.Run(strconv.Quote(c.tail), func(t *testing.T) {
			fence, owner, ok := ParseFenceOwner(c.tail)
			if fence != c.fence || owner != c.owner || ok != c.ok {
				t.Errorf("%d %q %v", fence, owner, ok)
			}
			if ok && string(AppendFence(nil, fence))+owner != c.tail {
				t.Errorf("is written %q", AppendFence(nil, fence))
			}
		})
	}
}

func TestReleaseID(t *testing.T) {
	if got := ReleaseID("abc"); got != "a9993e364706816a" {
		t.Error(got)
	}
}
