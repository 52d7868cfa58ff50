package resp

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/scan"
)

// TestOwnCommand: a command equals that which redcon makes of the same bytes, and the handler may
// keep it when the session uses its memory again.
func TestOwnCommand(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		some := [][]byte{nil, []byte("\r\n"), []byte("$3\r\n"), []byte("*1\r\n$4\r\nLOCK\r\n"), []byte("$"), []byte("-1")}
		argv := [][]byte{[]byte([]string{"LOCK", "Unlock", "extend", "LOCKINFO"}[random.IntN(4)])}
		for range random.IntN(9) {
			arg := slices.Clone(some[random.IntN(len(some))])
			for range random.IntN(1 << random.IntN(11)) {
				arg = append(arg, byte(random.Uint32()))
			}
			argv = append(argv, append(arg, some[random.IntN(len(some))]...))
		}
		name := slices.Clone(argv[0])
		scan.Lower(name)
		frame := appendCommand(nil, append([][]byte{name}, argv[1:]...), len(argv))
		want, err := redcon.Parse(frame)
		if err != nil {
			t.Fatal(err)
		}
		got := ownCommand(argv)
		for _, arg := range argv {
			for i := range arg {
				arg[i] ^= 0xff
			}
		}
		if !bytes.Equal(got.Raw, want.Raw) || !slices.EqualFunc(got.Args, want.Args, bytes.Equal) {
			t.Fatalf("got  %q %q\nwant %q %q", got.Raw, got.Args, want.Raw, want.Args)
		}
		for i := range got.Args {
			got.Args[i] = append(got.Args[i], "more"...)
		}
		if !bytes.Equal(got.Raw, want.Raw) {
			t.Fatalf("what is appended to an argument changes the next: %q, want %q", got.Raw, want.Raw)
		}
	}
}
