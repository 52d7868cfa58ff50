package scan

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// cut is the fate of a client's bytes: forwarded bytes, lock commands, and whether recognising
// ended.
type cut struct {
	forwarded []byte
	own       []string
	requests  int64
	raw       bool
	remade    bool // it ended in a lock command, of which the upstream gets a copy
}

// cutAll runs the scanner over in, given to it in pieces whose sizes next returns.
func cutAll(in []byte, next func() int) (c cut) {
	var q Requests
	var buf []byte
	for len(in) > 0 && !c.raw {
		n := min(next(), len(in))
		buf = append(buf, in[:n]...)
		in = in[n:]
		for ev := Notable; len(buf) > 0 && ev != More; {
			n := 0
			n, ev = c.step(&q, buf)
			buf = buf[n:]
		}
	}
	if !c.remade {
		c.forwarded = append(c.forwarded, in...) // after Malformed
	}
	c.requests = q.Ended
	return c
}

// step gives b to the scanner once. It returns how much of b is dealt with.
func (c *cut) step(q *Requests, b []byte) (n int, ev Found) {
	if q.Collecting() {
		n, ev = q.Collect(b)
		switch ev {
		case Done:
			c.own = append(c.own, fmt.Sprintf("%d%q", q.Args, q.Argv))
		case Malformed: // the upstream gets a copy of it
			c.raw, c.remade = true, true
			return len(b), ev
		}
		return n, ev
	}
	n, ev = q.Scan(b)
	c.forwarded = append(c.forwarded, b[:n]...)
	switch ev {
	case Drop:
		return n + q.Dropped, ev
	case Malformed:
		c.raw = true
		c.forwarded = append(c.forwarded, b[n:]...)
		return len(b), ev
	}
	return n, ev
}

// owned is a request of ours with count arguments as the scanner keeps it.
func owned(count int64, argv [][]byte) string {
	argv = slices.Clone(argv[:min(len(argv), keepArgs)])
	for i := range argv {
		argv[i] = argv[i][:min(len(argv[i]), keepArg)]
	}
	return fmt.Sprintf("%d%q", count, argv)
}

// reference does the same with the whole input at hand, written as Redis' networking.c is: look
// for the \r, read the number, go on.
type reference struct {
	in  []byte
	at  int // the beginning of the next request
	cut cut
}

// refer returns the fate of in.
func refer(in []byte) cut {
	r := reference{in: in}
	for more := true; more && r.at < len(in); {
		if in[r.at] == '*' {
			more = r.array()
		} else {
			more = r.inline()
		}
	}
	return r.cut
}

// raw ends recognising: all from the byte at from on is forwarded.
func (r *reference) raw(from int) (more bool) {
	r.cut.raw = true
	r.cut.forwarded = append(r.cut.forwarded, r.in[from:]...)
	return false
}

// line reads a header. more: it is not complete.
func (r *reference) line(from int) (v int64, next int, more, ok bool) {
	text, next := r.in[from+1:], 0
	if end := bytes.IndexByte(text, '\r'); end >= 0 {
		next = from + 1 + end + 2
		text = text[:end]
	}
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return 0, 0, false, false
	case next == 0 || next > len(r.in):
		possible := len(text) <= 20 && strings.Trim(string(text), "-0123456789") == ""
		return 0, 0, possible, false
	}
	_, err := fmt.Sscanf(string(text), "%d", &v)
	return v, next, false, err == nil && fmt.Sprint(v) == string(text)
}

func (r *reference) inline() (more bool) {
	rest := r.in[r.at:]
	end := bytes.IndexByte(rest, '\n')
	if zero := bytes.IndexByte(rest, 0); zero >= 0 && (end < 0 || zero < end) {
		return r.raw(r.at)
	}
	if end < 0 {
		return false
	}
	text := bytes.TrimSuffix(rest[:end], []byte("\r"))
	argv, err := splitInline(text)
	r.at += end + 1
	switch {
	case err != nil || len(argv) > 0 && Classify(argv[0]) == KindHTTP:
		return r.raw(r.at - end - 1)
	case len(argv) > 0 && Classify(argv[0]) == KindLock:
		r.cut.own = append(r.cut.own, owned(int64(len(argv)), argv))
		return true
	case len(argv) > 0:
		r.cut.forwarded = append(r.cut.forwarded, text...)
		r.cut.requests++
	}
	r.cut.forwarded = append(r.cut.forwarded, rest[len(text):end+1]...)
	return true
}

// size reads the header of an argument of a command of the given kind.
func (r *reference) size(from int, kind CommandKind) (size int64, body int, more, wrong bool) {
	size, body, more, ok := r.line(from)
	most := int64(math.MaxInt64 - 2)
	if kind == KindLock {
		most = maxBulk
	}
	return size, body, more, r.in[from] != '$' || !more && (!ok || size < 0 || size > most)
}

func (r *reference) array() (more bool) {
	count, next, more, ok := r.line(r.at)
	switch {
	case more:
		return false
	case !ok || count > math.MaxInt32:
		return r.raw(r.at)
	case count <= 0:
		r.forward(next)
		return true
	}
	kind := KindPlain
	var argv [][]byte
	for range count {
		if next >= len(r.in) {
			return r.breakOff(kind, len(argv), len(r.in))
		}
		size, body, more, wrong := r.size(next, kind)
		switch {
		case wrong && kind == KindLock:
			r.cut.raw = true // the upstream gets a copy of it
			return false
		case wrong:
			return r.raw(r.at)
		case more:
			return r.breakOff(kind, len(argv), next)
		}
		size = min(size, int64(len(r.in)+10)) // the rest of the input and more
		end := body + int(size)
		short := len(argv) == 0 && size <= longestName // a name that may have a kind
		if short && end > len(r.in) {
			return false
		}
		if short {
			kind = Classify(r.in[body:end])
		}
		if kind == KindHTTP {
			return r.raw(r.at)
		}
		argv = append(argv, r.in[min(body, len(r.in)):min(end, len(r.in))])
		next = end + 2
	}
	if next > len(r.in) {
		return r.breakOff(kind, len(argv), len(r.in))
	}
	if kind == KindLock {
		r.cut.own = append(r.cut.own, owned(count, argv))
		r.at = next
		return true
	}
	r.forward(next)
	r.cut.requests++
	return true
}

// forward passes on the bytes up to next.
func (r *reference) forward(next int) {
	r.cut.forwarded = append(r.cut.forwarded, r.in[r.at:next]...)
	r.at = next
}

// breakOff ends with an array of which the input has so many arguments, and bytes up to end that
// do not have to be held back. A lock command, and a name, are held back.
func (r *reference) breakOff(kind CommandKind, arguments, end int) (more bool) {
	if kind != KindLock && arguments > 0 {
		r.forward(end)
	}
	return false
}

// compareCuts checks one input cut in pieces of every size and against the reference.
func compareCuts(t *testing.T, in []byte, seed uint64) {
	t.Helper()
	want := refer(in)
	random := rand.New(rand.NewPCG(seed, 1))
	for name, next := range map[string]func() int{
		"whole": func() int { return len(in) }, "bytes": func() int { return 1 },
		"random": func() int { return 1 + random.IntN(40) },
	} {
		got := cutAll(in, next)
		if !bytes.Equal(got.forwarded, want.forwarded) || !slices.Equal(got.own, want.own) || got.raw != want.raw ||
			!got.raw && got.requests != want.requests {
			t.Fatalf("%q in pieces (%s):\n got %q own %q requests %d raw %v\nwant %q own %q requests %d raw %v", in, name,
				got.forwarded, got.own, got.requests, got.raw, want.forwarded, want.own, want.requests, want.raw)
		}
	}
}

// edges are inputs whose cutting is easy to get wrong, and was measured on Redis. They include
// attacks.
var edges = []string{
	"*1\r\n$4\r\nPING\r\n", "PING\r\n", "PING\n", "\r\n", " \r\nPING\r\n", "\r\r\n", "\n\n PING\n",
	"*0\r\n*1\r\n$4\r\nPING\r\n", "*-5\r\nPING\r\n", "*-1\r\n",
	"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", // the trailer of a body is not looked at
	"*1\rX$4\rYPINGzz", "*1\r\n$04\r\nPING\r\n", "*+1\r\n$4\r\nPING\r\n", "* 1\r\n$4\r\nPING\r\n",
	"*1\r\n$18446744073709551619\r\nabc\r\n", "*2147483648\r\n", "*2147483647\r\n$4\r\nPING\r\n",
	"*18446744073709551617\r\n$4\r\nPING\r\n",
	"*1\r\n$9223372036854775807\r\nx\r\n", "*1\r\n$9223372036854775806\r\nx\r\n", "*9223372036854775807\r\n",
	"*1000000000\r\n",
	"*2\r\n$4\r\nLOCK\r\n$9223372036854775807\r\nx\r\n", "*2\r\n$4\r\nLOCK\r\n+x\r\n",
	"*3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$4\r\n5000\r\n",
	"*3\r\n$4\r\nlOcK\r\n$3\r\njobXX$4\r\n5000zz*1\r\n$4\r\nPING\r\n", "LOCK job 5000\r\nPING\r\n",
	`"\x4cOCK" job '50 00'` + "\r\n", `LO"CK" job 5000` + "\r\n", "UNLOCK\r\n", "*1\r\n$6\r\nUNLOCK\r\n",
	// LOCK inside a value
	"*2\r\n$3\r\nGET\r\n$36\r\n*3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$4\r\n5000\r\n\r\n*1\r\n$4\r\nPING\r\n",
	"POST / HTTP/1.1\r\nLOCK job 5000\r\n", "*1\r\n$4\r\npost\r\nLOCK job 5000\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nLOCK job 5000\r\n", "\"a\r\nLOCK job 5000\r\n",
	"PI\x00NG\r\nLOCK job 5000\r\n", "*1\x00\r\nLOCK job 5000\r\n", "*1\r\n4\r\nPING\r\n",
	"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "*1\r\n$-1\r\nPING\r\n", "*1\r\n$0\r\n\r\nPING\r\n",
	"*3\r\n$4\r\nLOCK\r\n$0\r\n\r\n$1\r\n1\r\n", "*1\r\n$\r\nPING\r\n", "*\r\n", "*1\r", "$4\r\nPING\r\n",
	"*1\r\n$4\r\nPI",
}

func TestRequestEdges(t *testing.T) {
	for _, in := range edges {
		compareCuts(t, []byte(in), 1)
	}
}

// randomRequests makes a byte script of valid requests, KindLock among them, of which some bytes
// are then changed.
func randomRequests(random *rand.Rand) []byte {
	words := []string{"GET", "SET", "LOCK", "unlock", "EXTEND", "lockinfo", "LOCKPROXY", "CLIENT", "REPLY", "", "a",
		"job", "5000", "MULTI", "PUNSUBSCRIBE", strings.Repeat("v", 300)}
	var b []byte
	for range 1 + random.IntN(8) {
		if random.IntN(6) == 0 {
			b = append(b, edges[random.IntN(len(edges))]...)
			continue
		}
		n := 1 + random.IntN(4)
		inline := random.IntN(4) == 0
		if !inline {
			b = fmt.Appendf(b, "*%d\r\n", n)
		}
		for range n {
			w := words[random.IntN(len(words))]
			if inline {
				b = append(append(b, w...), ' ')
			} else {
				b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
			}
		}
		if inline {
			b = append(b, "\r\n"...)
		}
	}
	if random.IntN(3) == 0 {
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] = "\r\n*$0123456789-+ \"\x00LOCK"[random.IntN(22)]
		}
	}
	return b
}

func TestRequestRandom(t *testing.T) {
	for seed := range uint64(20000) {
		compareCuts(t, randomRequests(rand.New(rand.NewPCG(seed, 0))), seed)
	}
}

func FuzzRequestScanner(f *testing.F) {
	for _, in := range edges {
		f.Add([]byte(in), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) { compareCuts(t, in, seed) })
}

// TestOwnRequestLimits: no more of a lock command is kept than the bounds allow, however large its
// headers are.
func TestOwnRequestLimits(t *testing.T) {
	var q Requests
	q.Scan([]byte("*1000\r\n$4\r\nLOCK\r\n"))
	q.Collect([]byte("*1000\r\n$4\r\nLOCK\r\n"))
	big := bytes.Repeat([]byte("x"), 100_000)
	for range 999 {
		q.Collect([]byte("$1000000\r\n"))
		for range 10 {
			q.Collect(big)
		}
		q.Collect([]byte("\r\n"))
	}
	if q.Collecting() || q.Args != 1000 || len(q.Argv) != keepArgs {
		t.Fatalf("collecting %v, total %d, kept %d arguments; want false, 1000, %d", q.Collecting(), q.Args, len(q.Argv),
			keepArgs)
	}
	for i, arg := range q.Argv[1:] {
		if len(arg) != keepArg {
			t.Errorf("argument %d has %d bytes, want %d", i+1, len(arg), keepArg)
		}
	}
}

// TestNotableArguments checks that the few arguments that matter are kept, also when they come in
// pieces, and that passwords are not.
func TestNotableArguments(t *testing.T) {
	in := []byte("*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n" +
		"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$30\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n$1\r\np\r\n" +
		"*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*3\r\n$6\r\nclient\r\n$5\r\nreply\r\n$7\r\noff\x00abc\r\n" +
		"*4\r\n$6\r\nSCRIPT\r\n$30\r\nDEBUGxxxxxxxxxxxxxxxxxxxxxxxxx\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$5\r\nRESET\r\n$1\r\nx\r\n")
	for _, size := range []int{1, 3, 1000} {
		var q Requests
		var got []string
		var buf []byte
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			buf, rest = append(buf, rest[:n]...), rest[n:]
			for {
				n, ev := q.Scan(buf)
				buf = buf[n:]
				if ev != Notable {
					break
				}
				got = append(got, fmt.Sprintf("%d %d %q %q %q", q.Kind, q.Args, q.Argv, q.Arg(1), q.Arg(2)))
			}
		}
		want := []string{
			fmt.Sprintf(`%d 3 ["" "REPLY" "SKIP"] "reply" "skip"`, KindClient), fmt.Sprintf(`%d 5 [] "" ""`, KindHello),
			fmt.Sprintf(`%d 2 [] "" ""`, KindLogin),
			fmt.Sprintf(`%d 3 ["" "reply" "off\x00abc"] "reply" "off"`, KindClient),
			fmt.Sprintf(`%d 4 ["" "DEBUGxxx" "a"] "debugxxx" "a"`, KindScript), fmt.Sprintf(`%d 2 [] "" ""`, KindReset)}
		if !slices.Equal(got, want) {
			t.Errorf("pieces of %d: got %v, want %v", size, got, want)
		}
	}
}

// TestLimitedCount: a request with more arguments than Redis allows before authentication is not
// held back until its name is known, and if the upstream takes it after all, its name still
// counts.
func TestLimitedCount(t *testing.T) {
	rest := strings.Repeat("$1\r\nx\r\n", 10)
	for name, want := range map[string]CommandKind{"GET": KindPlain, "SUBSCRIBE": KindSubscribe, "LOCK": KindPlain} {
		q := Requests{Limited: func() bool { return true }}
		if n, ev := q.Scan([]byte("*11\r\n")); n != 5 || ev != More || q.Between() {
			t.Fatalf("%s: %d bytes pass, Event %d, between requests %v; want 5 and more to come", name, n, ev, q.Between())
		}
		in := fmt.Appendf(nil, "$%d\r\n%s\r\n%s", len(name), name, rest)
		if n, _ := q.Scan(in[:2]); n != 0 {
			t.Errorf("%s: %d bytes of the name's header pass", name, n)
		}
		if n, _ := q.Scan(in); n != len(in) || q.Kind != want || q.Ended != 1 || !q.Between() {
			t.Errorf("%s: %d of %d bytes pass, kind %d, %d requests", name, n, len(in), q.Kind, q.Ended)
		}
		if _, ev := q.Scan([]byte("*2\r\n$4\r\nLOCK\r\n$1\r\na\r\n")); ev != Own {
			t.Errorf("%s: a LOCK behind it is not seen", name)
		}
	}
}

// TestNamesWithZeroByte: they may be the command that they begin with, even if they are longer
// than all such names.
func TestNamesWithZeroByte(t *testing.T) {
	for name, want := range map[string]CommandKind{
		"AUTH\x00": KindUnclear, "reset\x001": KindUnclear, "punsubscribe\x00x": KindUnclear,
		"hello\x00" + strings.Repeat("x", 100): KindUnclear,
		"GET\x00":                              KindPlain, "AUTHX\x00": KindPlain, "\x00AUTH": KindPlain, "": KindPlain,
		"punsubscribex\x00": KindPlain,
		"AUTH":              KindLogin,
	} {
		if got := Classify([]byte(name)); got != want {
			t.Errorf("%q: kind %d, want %d", name, got, want)
		}
		for _, in := range []string{fmt.Sprintf("*1\r\n$%d\r\n%s\r\n", len(name), name),
			`"` + strings.ReplaceAll(name, "\x00", `\x00`) + "\"\r\n"} {
			compareCuts(t, []byte(in), 1)
			compareTrails(t, []byte(in), 1)
			var q Requests
			if _, ev := q.Scan([]byte(in)); name != "" && (ev == Notable) != (want != KindPlain) {
				t.Errorf("%q: event %d", in, ev)
			}
		}
	}
}

// TestLongNameIsNotHeldBack: Redis may refuse the length of a name before the name comes.
func TestLongNameIsNotHeldBack(t *testing.T) {
	const header = "*1\r\n$16385\r\n"
	var q Requests
	if n, ev := q.Scan([]byte(header)); n != len(header) || ev != More {
		t.Errorf("%d of %d bytes pass, event %d", n, len(header), ev)
	}
}
