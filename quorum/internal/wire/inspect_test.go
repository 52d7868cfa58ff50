package wire

import (
	"bytes"
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
	keys, argv := e.InspectArgs(names)
	command := append([]string{"EVALSHA", Packet.SHA, "3"}, keys...)
	for _, a := range argv {
		command = append(command, a.(string))
	}
	if got, want := AppendCommand(nil, command...), e.AppendPacket(nil, batch(t, ops...), "", false); !bytes.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
