package scan

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns the commands in in, and the error after them.
func readAll(in io.Reader) (commands [][]string, err error) {
	for r := NewCommandReader(in); ; {
		args, err := r.Next()
		if err != nil {
			return commands, err
		}
		commands = append(commands, args)
	}
}

func TestCommandReader(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     [][]string
		err      error
	}{
		{"array", "*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n", [][]string{{"PING", "hi"}}, io.EOF},
		{"inline", "PING \"h\\x69\"\nPING\r\n", [][]string{{"PING", "hi"}, {"PING"}}, io.EOF},
		{"ignored", "*0\r\n\r\n*-1\r\n \r\nPING\r\n*-5\r\n", [][]string{{"PING"}}, io.EOF},
		{"line ends", "*1\rX$4\rYPINGzz", [][]string{{"PING"}}, io.EOF},
		{"empty arguments", "*2\r\n$0\r\n\r\n$0\r\nxx", [][]string{{"", ""}}, io.EOF},
		{"half a body", "*2\r\n$4\r\nPING\r\n$4\r\nab", nil, io.EOF},
		{"half a header", "*1\r\n$4", nil, io.EOF},
		{"half a line", "PING", nil, io.EOF},
		{"most arguments", "*1048576\r\n", nil, io.EOF},
		{"too many arguments", "*1048577\r\n", nil, ProtocolError("invalid multibulk length")},
		{"longest argument", "*1\r\n$536870912\r\n", nil, io.EOF},
		{"argument too long", "*1\r\n$536870913\r\n", nil, ProtocolError("invalid bulk length")},
		{"longest line", strings.Repeat("x", maxInline-1) + "\r\n", [][]string{{strings.Repeat("x", maxInline-1)}}, io.EOF},
		{"line too long", strings.Repeat("x", maxInline+1), nil, ProtocolError("too big inline request")},
		{"after a command", "PING\r\n*1\r\n:4\r\n", [][]string{{"PING"}}, ProtocolError("expected '$', got ':'")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for pieces, in := range map[string]io.Reader{
				"whole": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(in)
				if !slices.EqualFunc(got, tt.want, slices.Equal) || !errors.Is(err, tt.err) {
					t.Errorf("%s: got %.100q %v, want %.100q %v", pieces, got, err, tt.want, tt.err)
				}
			}
		})
	}
}

// TestCommandReaderCutsAsScanner: as many commands, and the same reason for refusing bytes. The
// scanner leaves some limits to the upstream, and stops at a command that closes the connection.
func TestCommandReaderCutsAsScanner(t *testing.T) {
	const seeds = 5000
	compared := 0
	for seed := range uint64(seeds) {
		in := randomRequests(rand.New(rand.NewPCG(seed, 11)))
		want := scanAll(in)
		commands, err := readAll(bytes.NewReader(in))
		var why ProtocolError
		errors.As(err, &why)
		tooMuch := strings.HasPrefix(string(why), "invalid") && string(why) != want.Why
		if closes := want.place == malformed && want.Why == ""; tooMuch || closes {
			continue
		}
		compared++
		if len(commands) != int(want.Ended) || string(why) != want.Why {
			t.Fatalf("%q: %d commands, %q; want %d, %q", in, len(commands), why, want.Ended, want.Why)
		}
	}
	if compared < seeds/2 {
		t.Errorf("only %d of %d inputs were compared", compared, seeds)
	}
}

// scanAll returns the scanner after all of in. Ended counts lock commands, too.
func scanAll(in []byte) (q Requests) {
	for ev := Notable; ev != More && ev != Malformed; {
		read, n := q.Scan, 0
		if q.Collecting() {
			read = q.Collect
		}
		n, ev = read(in)
		switch in = in[n:]; ev {
		case Done:
			q.Ended++
		case Drop:
			in = in[q.Dropped:]
		}
	}
	return q
}
