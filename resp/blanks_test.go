package resp

import (
	"context"
	"net"
	"strings"
	"testing"

	"lockproxy/resp/internal/netpoll"
)

// TestBlankLinesCostNoWrite: the upstream gets bytes that were read in one piece in one write,
// even if the blanks of many lines are left out. A write for each line would cost others their
// time on the loop.
func TestBlankLinesCostNoWrite(t *testing.T) {
	const ping, auth = "*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n"
	for _, tt := range []struct{ name, send, want string }{
		{"a blank", " \r\n", "\r\n"},
		{"a blank and LF", " \n", "\n"},
		{"a tab, two blanks", "\t  \n", "\n"},
		{"before a command", " \r\n" + ping, "\r\n" + ping},
		{"behind a command", ping + " \n", ping + "\n"},
		{"between commands", ping + " \n  \r\nGET a\r\n\r\n \n" + auth, ping + "\n\r\nGET a\r\n\r\n\n" + auth},
		{"in an argument", "*2\r\n$4\r\nECHO\r\n$3\r\n \r\n\r\n \n", "*2\r\n$4\r\nECHO\r\n$3\r\n \r\n\r\n\n"},
		{"beside requests that are left out", "*0\r\n \n\r\n", "*0\r\n\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			send := strings.Repeat(tt.send, 1<<20/len(tt.send))
			want := strings.Repeat(tt.want, 1<<20/len(tt.send))
			pieces := len(send)/netpoll.ChunkSize + 1
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			upstream, upEnd := net.Pipe()
			defer upEnd.Close()
			rec := &recorded{Conn: upstream, writes: make(chan string, 1<<20), closed: make(chan struct{})}
			o := Options{UpstreamName: "recorded", Dial: func(context.Context) (net.Conn, error) { return rec, nil }}
			s := NewServer(o).add(far)
			defer s.cut()
			for rest := send; rest != ""; {
				n := min(netpoll.ChunkSize-len(s.in.bytes()), len(rest))
				s.in.buf.Grew(copy(s.in.buf.Room(), rest[:n]))
				rest = rest[n:]
				if s.pump.process(false); s.pump.step != stepPump {
					t.Fatalf("step %d", s.pump.step)
				}
			}
			writes := len(rec.writes)
			if writes > pieces+1 { // bytes held back at the end of a piece may take one more
				t.Errorf("%d writes for %d pieces", writes, pieces)
			}
			var got strings.Builder
			for range writes {
				got.WriteString(<-rec.writes)
			}
			if got.String() != want {
				t.Errorf("the upstream got %d bytes, not the %d that it should", got.Len(), len(want))
			}
		})
	}
}
