package plain

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"ERR x\r\n-ERR y\x00z":           "ERR x  -ERR y z",
		"  trimmed\n":                    "trimmed",
		"Grüße\u202e\u200b\u2028\u0085.": "Grüße    .",
		strings.Repeat("z", 500):         strings.Repeat("z", maxShort),
	} {
		t.Run(in, func(t *testing.T) {
			if got := Short(in); got != want {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
		})
	}
}

// TestErrnos: on every system a refused connection, a reset one and a taken address are three
// different errors.
func TestErrnos(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, inUse := net.Listen("tcp", taken.Addr().String())
	client, err := net.Dial("tcp", taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := taken.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	server.Close()
	_, reset := client.Read(make([]byte, 1))
	taken.Close()
	_, refused := net.Dial("tcp", taken.Addr().String())
	_, nowhere := net.Dial("unix", filepath.Join(t.TempDir(), "s"))
	for name, test := range map[string]struct {
		err  error
		want [3]bool
	}{
		"in use":         {inUse, [3]bool{false, false, true}},
		"reset":          {reset, [3]bool{false, true, false}},
		"refused":        {refused, [3]bool{true, false, false}},
		"no such socket": {nowhere, [3]bool{true, false, false}},
		"none":           {nil, [3]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := [3]bool{Refused(test.err), Reset(test.err), InUse(test.err)}; got != test.want {
				t.Errorf("%v: refused, reset, in use are %v, want %v", test.err, got, test.want)
			}
		})
	}
}
