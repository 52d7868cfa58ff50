package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// trail is what a scanner says of in, given to it in pieces whose sizes next returns: a line for everything but evMore, and at the end
// where it stands. Behind some notable requests the next one is made notable too, as behind CLIENT REPLY SKIP.
func trail(in []byte, next func() int) (lines []string) {
	var q requestScanner
	at, read := 0, 0
	for read < len(in) {
		read = min(len(in), read+next())
		for at < read {
			scan := q.scan
			if q.collecting {
				scan = q.collect
			}
			n, ev := scan(in[at:read])
			at += n
			if ev == evMore {
				break
			}
			var argv [][]byte
			if ev == evNotable || ev == evDone || ev == evRaw && q.kind == ours {
				argv = q.argv
			}
			lines = append(lines, fmt.Sprintf("%d at %d: %d requests, %d begun, kind %d, %q", ev, at, q.requests, q.begun, q.kind, argv))
			if q.single = ev == evNotable && at%2 == 0; ev == evRaw { // all the rest is
				at, read = len(in), len(in)
			}
		}
	}
	kind := q.kind
	if q.between() {
		kind = plain // it means nothing
	}
	return append(lines, fmt.Sprintf("end at %d: %d requests, %d begun, kind %d, raw %v %s, between %v, %d arguments, body %d, single %v",
		at, q.requests, q.begun, kind, q.raw, q.why, q.between(), q.args, q.body, q.single))
}

// compareTrails: in whatever pieces requests come, the scanner says the same. Byte by byte, none can be passed over at once.
func compareTrails(t *testing.T, in []byte, seed uint64) {
	t.Helper()
	slow := trail(in, func() int { return 1 })
	random := rand.New(rand.NewPCG(seed, 3))
	for _, most := range []int{len(in) + 1, 100, 10} {
		if quick := trail(in, func() int { return max(1, most-random.IntN(most)) }); !slices.Equal(slow, quick) {
			t.Fatalf("%q, in pieces of up to %d:\n%s\nwant, as byte by byte:\n%s", in, most, strings.Join(quick, "\n"), strings.Join(slow, "\n"))
		}
	}
}

func TestQuickRequests(t *testing.T) {
	for seed := range uint64(20000) {
		compareTrails(t, randomRequests(rand.New(rand.NewPCG(seed, 5))), seed)
	}
}

func FuzzQuickRequests(f *testing.F) {
	for _, in := range edges {
		f.Add([]byte(in), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) { compareTrails(t, bytes.Clone(in), seed) })
}
