package wire

import (
	"bytes"
	"fmt"
	"testing"
)

// Whoever encodes by himself sends what a lane sends.
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
	if got, want := AppendCommand(nil, command...), e.AppendPacket(nil, batch(t, ops...), "", true); !bytes.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
