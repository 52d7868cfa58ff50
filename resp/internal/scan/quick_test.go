package scan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// trail returns the events of a scanner that gets in, in pieces whose sizes next returns: a line
// for each but More, and one for its state at the end.
func trail(in []byte, next func() int) (lines []string) {
	var q Requests
	at, read := 0, 0
	for read < len(in) {
		read = min(len(in), read+next())
		for at < read {
			scan := q.Scan
			if q.Collecting() {
				scan = q.Collect
			}
			n, ev := scan(in[at:read])
			at += n
			if ev == More {
				break
			}
			if ev == Drop {
				at += q.Dropped
			}
			lines = append(lines, describe(&q, ev, at))
			if ev == Malformed { // all the rest is
				at, read = len(in), len(in)
			}
		}
	}
	kind := q.Kind
	if q.Between() {
		kind = KindPlain // it has no meaning
	}
	return append(lines, fmt.Sprintf("end at %d: %d requests, %d begun, kind %d, raw %v %s, between %v, %d arguments, body %d",
		at, q.Ended, q.Begun, kind, q.place == malformed, q.Why, q.Between(), q.left, q.body))
}

// describe returns the line of an event.
func describe(q *Requests, ev Found, at int) string {
	var argv [][]byte
	if ev == Notable || ev == Done || ev == Malformed && q.Kind == KindLock {
		argv = q.Argv
	}
	return fmt.Sprintf("%d at %d: %d requests, %d begun, kind %d, %q", ev, at, q.Ended, q.Begun, q.Kind, argv)
}

// compareTrails: the events do not depend on the pieces in which requests come. Byte by byte, no
// request can be passed over at once.
func compareTrails(t *testing.T, in []byte, seed uint64) {
	t.Helper()
	slow := trail(in, func() int { return 1 })
	random := rand.New(rand.NewPCG(seed, 3))
	for _, most := range []int{len(in) + 1, 100, 10} {
		if quick := trail(in, func() int { return max(1, most-random.IntN(most)) }); !slices.Equal(slow, quick) {
			t.Fatalf("%q, in pieces of up to %d:\n%s\nwant, as byte by byte:\n%s", in, most, strings.Join(quick, "\n"),
				strings.Join(slow, "\n"))
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

// TestWholeLock: a lock command that it finds is one for the scanner, too; and it finds that of a
// client library.
func TestWholeLock(t *testing.T) {
	found := 0
	check := func(in []byte) {
		if !WholeLock(in) {
			return
		}
		found++
		var q Requests
		n, ev := q.Scan(in)
		if _, done := q.Collect(in); n != 0 || ev != Own || done != Done {
			t.Fatalf("%q: not a whole lock command: %d, %d, %d", in, n, ev, done)
		}
	}
	for seed := range uint64(20000) {
		check(randomRequests(rand.New(rand.NewPCG(seed, 7))))
	}
	for _, in := range edges {
		check([]byte(in))
	}
	const lock = "*3\r\n$4\r\nlock\r\n$1\r\na\r\n$4\r\n1000\r\n"
	if !WholeLock([]byte(lock)) || !WholeLock([]byte(lock+"*1")) || WholeLock([]byte(lock[:len(lock)-1])) ||
		WholeLock(nil) || found == 0 {
		t.Errorf("%d found among random requests; or not %q, or less of it", found, lock)
	}
}
