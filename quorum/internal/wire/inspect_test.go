package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Clients that encode by themselves send the bytes of a lane.
func TestInspectArgs(t *testing.T) {
	e := &Encoder{StateKey: "lockproxy:state:lock:", Fencing: true}
	var ops []*Op
	var names []string
	for _, key := range []string{"lock:a", "lock:b"} {
		names = append(names, key)
		ops = append(ops, &Op{Kind: Inspect, TokenAt: TokenAt{Key: key}})
	}
	var command []string
	for _, a := range e.InspectArgs(names) {
		command = append(command, fmt.Sprint(a))
	}
	if got, want := AppendCommand(nil, command...), e.AppendPacket(nil, batch(t, ops...), "", true); !bytes.Equal(got,
		want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestParseInspect(t *testing.T) {
	mine := strings.Repeat("0123456789abcdef", 3)[:40]
	ours := mine + "0000000000000042label"
	for _, c := range []struct {
		name string
		r    Reply
		want Entry
		mode Mode
		none bool // no lock is found
		fail bool
	}{
		{name: "no key", r: Reply{Kind: '$', Null: true}, none: true},
		{name: "no lock", r: Reply{Kind: '+', Text: "OTHER"}, none: true, mode: Foreign},
		{name: "our lock", r: Reply{Kind: '$', Text: "1500 " + ours}, want: Entry{ID: mine, Left: 1500 * time.Millisecond,
			Fence: 42, Owner: "label"}},
		{name: "without an end", r: Reply{Kind: '$', Text: "-1 " + ours},
			want: Entry{ID: mine, Left: Forever, Fence: 42, Owner: "label"}},
		{name: "another library's lock", r: Reply{Kind: '$', Text: "10 YTdlMzRk=="},
			want: Entry{ID: "YTdlMzRk==", Left: 10 * time.Millisecond}},
		{name: "empty value", r: Reply{Kind: '$', Text: "10 "}, want: Entry{ID: "\x00", Left: 10 * time.Millisecond}},
		{name: "no fence after the secret", r: Reply{Kind: '$', Text: "10 " + mine + "00000000000000x2"},
			want: Entry{ID: mine + "00000000000000x2", Left: 10 * time.Millisecond}},
		{name: "only a secret", r: Reply{Kind: '$', Text: "10 " + mine}, want: Entry{ID: mine, Left: 10 * time.Millisecond}},
		{name: "no time", r: Reply{Kind: '$', Text: "x y"}, none: true, fail: true},
		{name: "a number", r: Reply{Kind: ':'}, none: true, fail: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Inspected{Mode: c.mode}
			if !c.none {
				want = Inspected{Count: 1, Holders: []Entry{c.want}}
			}
			if got, ok := ParseInspect(&c.r); !reflect.DeepEqual(got, want) || ok == c.fail {
				t.Errorf("%+v, %v, want %+v", got, ok, want)
			}
		})
	}
}
