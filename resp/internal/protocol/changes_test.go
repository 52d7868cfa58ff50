package protocol

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/resp/internal/scan"
)

const allChanges, inMulti = unsure | mayBeOff | repliesOff | skipNext | monitor | multi, unsure | multi

// noteCases are commands, the changes that each may make to a connection, and the replies that are
// expected.
var noteCases = []struct {
	was          changes
	wasBlocking  uint64
	send         string
	want         changes
	wantBlocking uint64
	replies      uint64
}{
	{0, 0, "GET k", 0, 0, 1},
	{allChanges, 0, "GET k", allChanges, 0, 1},
	{0, 0, "AUTH a b", unsure, 0, 1},
	{0, 0, "hello 3", unsure, 0, 1},
	{0, 0, "MULTI", inMulti, 0, 1},
	{inMulti, 0, "EXEC", unsure | irregular, 0, 1},
	{inMulti, 0, "DISCARD", unsure | irregular, 0, 1},
	{inMulti, 0, "RESET", unsure, 0, 1},
	{allChanges, 0, "EXEC", allChanges&^(multi|repliesOff) | irregular, 0, 1},
	{allChanges, 0, "RESET", allChanges &^ (multi | repliesOff), 0, 1},
	{repliesOff, 0, "MULTI", unsure | multi | repliesOff, 0, 1},
	{0, 0, "SUBSCRIBE c", unsure | irregular, 0, 0},
	{0, 0, "punsubscribe", unsure | irregular, 0, 0},
	{0, 0, "SSUBSCRIBE c d", unsure | irregular, 0, 0},
	{0, 0, "MONITOR", unsure | monitor, 0, 1},
	{0, 0, "DEBUG PROTOCOL push", unsure | irregular, 0, 1},
	{0, 0, "BLPOP q 0", 0, 1, 1},
	{0, 0, "wait 1 0", 0, 1, 1},
	{0, 0, "XREAD COUNT 1 block 0 STREAMS s $", 0, 1, 1},
	{0, 0, "XREAD COUNT 1 STREAMS block 0", 0, 0, 1},
	{0, 0, "XREADGROUP GROUP g c COUNT 1 NOACK BLOCK 0 STREAMS s >", 0, 1, 1},
	{0, 0, "XREADGROUP GROUP block streams COUNT 1 STREAMS s >", 0, 0, 1},
	{0, 0, "XREADGROUP GROUP streams c BLOCK 0 STREAMS s >", 0, 1, 1},
	{0, 0, "XREAD" + strings.Repeat(" COUNT 1", 6) + " BLOCK 0 STREAMS s $", 0, 1, 1},
	{0, 0, "XREAD STREAMS" + strings.Repeat(" s", 20), 0, 0, 1},
	{unsure, 1, "MULTI", unsure | multi, 1, 1},
	{0, 0, "CLIENT ID", 0, 0, 1},
	{0, 0, "CLIENT REPLY", unsure | irregular, 0, 1},
	{0, 0, "CLIENT REPLY ON", unsure | irregular, 0, 1},
	{repliesOff | mayBeOff, 0, "client reply on", unsure | mayBeOff | irregular, 0, 1},
	{0, 0, "CLIENT REPLY OFF", unsure | mayBeOff | irregular, 0, 1},
	{0, 0, "Client Reply Skip", unsure | skipNext | irregular, 0, 1},
	{0, 0, "SCRIPT LOAD x", 0, 0, 1},
	{0, 0, "QUIT", quit, 0, 1},
	{0, 0, "SCRIPT DEBUG no", 0, 0, 1},
	{0, 0, "SCRIPT DEBUG yes", 0, 0, 1},
	{0, 0, "SYNC", 0, 0, 1},
	{0, 0, "REPLCONF ack 0", 0, 0, 1},
}

// note gives a command to c as the pump does, and returns its kind and effect.
func note(t *testing.T, c *Conn, command string, inline bool) (kind scan.CommandKind, effect Effect) {
	t.Helper()
	argv := strings.Fields(command)
	b := []byte(command + "\r\n")
	if !inline {
		b = fmt.Appendf(nil, "*%d\r\n", len(argv))
		for _, arg := range argv {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	var req scan.Requests
	for len(b) > 0 {
		n, ev := req.Scan(b)
		if b = b[n:]; ev == scan.Notable {
			effect = c.Note(&req)
			req.Ended--
		}
		if n == 0 {
			t.Fatalf("held up at %q", b)
		}
	}
	c.Expect(uint64(req.Ended))
	return scan.Classify([]byte(argv[0])), effect
}

// effectOf returns the effect that the command must have.
func effectOf(kind scan.CommandKind, command string) Effect {
	switch {
	case kind == scan.KindReplication || kind == scan.KindUnclear || strings.HasPrefix(command, "SCRIPT DEBUG yes"):
		return EffectOpaque
	case kind == scan.KindQuit:
		return EffectQuit
	case kind == scan.KindReset:
		return EffectReset
	case command == "client reply on":
		return EffectAsk
	}
	return EffectNone
}

func TestCommandsChangeTheConnection(t *testing.T) {
	for _, tt := range noteCases {
		for _, inline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, was %b, inline %v", tt.send, tt.was, inline), func(t *testing.T) {
				c := Conn{changes: tt.was, blocking: tt.wasBlocking,
					options: Options{Facts: func() Facts { return Facts{Resets: true} }}}
				c.resp3.Store(true)
				kind, effect := note(t, &c, tt.send, inline)
				want := effectOf(kind, tt.send)
				switch {
				case c.changes != tt.want || c.blocking != tt.wantBlocking:
					t.Errorf("got  %b, blocking %d\nwant %b, %d", c.changes, c.blocking, tt.want, tt.wantBlocking)
				case c.Sent() != tt.replies:
					t.Errorf("%d replies expected, want %d", c.Sent(), tt.replies)
				case effect != want:
					t.Errorf("effect %d, want %d", effect, want)
				case c.RESP3() == (kind == scan.KindHello || kind == scan.KindReset):
					t.Errorf("RESP3 is %v after it", c.RESP3())
				}
			})
		}
	}
}
