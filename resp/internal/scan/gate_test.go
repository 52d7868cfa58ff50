package scan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// judgeJob takes a request whose second argument is "job", and is not sure before it has come.
func judgeJob(argv [][]byte, total int, full bool) Verdict {
	switch {
	case total < 2:
		return Pass
	case len(argv) < 2:
		return Undecided
	case string(argv[1]) == "job":
		return Take
	}
	return Pass
}

// gated is the fate of bytes that a gate has read.
type gated struct {
	forwarded []byte
	own       []string
	events    []string // of requests that pass
	why       string   // of malformed bytes
	held      int      // the most bytes that were held back
	q         Requests
}

// gateAll gives in to q, in pieces whose sizes next returns.
func gateAll(in []byte, next func() int, judge Judge) *gated {
	g := &gated{}
	g.q.Guard(judge, func() bool { return false })
	for at, read := 0, 0; read < len(in); {
		read = min(len(in), read+next())
		for at < read {
			collects, step := g.q.Collecting(), g.q.Scan
			if collects {
				step = g.q.Collect
			}
			n, ev := step(in[at:read])
			if !collects {
				g.forwarded = append(g.forwarded, in[at:at+n]...)
			}
			at += n
			switch ev {
			case Drop:
				at += g.q.Dropped
			case Done:
				g.own = append(g.own, fmt.Sprintf("%d %q cut %v", g.q.Args, g.q.Argv, g.q.Cut))
			case Notable:
				g.events = append(g.events, fmt.Sprint(g.q.Kind, g.q.Args, at))
			case Malformed:
				g.why = g.q.Why + "."
				return g
			}
			if ev == More {
				break
			}
		}
		g.held = max(g.held, read-at)
	}
	return g
}

// compareGates checks that verdicts do not depend on the pieces in which requests come, and that
// no request for the proxy is among the forwarded ones.
func compareGates(t *testing.T, in []byte, seed uint64) {
	t.Helper()
	want := gateAll(in, func() int { return 1 }, judgeJob)
	random := rand.New(rand.NewPCG(seed, 3))
	for _, most := range []int{len(in) + 1, 100, 10} {
		got := gateAll(in, func() int { return max(1, most-random.IntN(most)) }, judgeJob)
		if !slices.Equal(got.own, want.own) || !slices.Equal(got.events, want.events) || got.why != want.why ||
			got.why == "" && (!bytes.Equal(got.forwarded, want.forwarded) || got.q.Ended != want.q.Ended ||
				got.q.Begun != want.q.Begun) {
			t.Fatalf("%q in pieces up to %d:\n got %q %q %q %q\nwant %q %q %q %q", in, most, got.forwarded, got.own,
				got.events, got.why, want.forwarded, want.own, want.events, want.why)
		}
		again := gateAll(got.forwarded, func() int { return len(in) + 1 }, judgeJob)
		if len(again.own) > 0 || again.why != "" {
			t.Fatalf("%q: forwarded %q with %q %q", in, got.forwarded, again.own, again.why)
		}
	}
}

func TestGatePieces(t *testing.T) {
	for seed := range uint64(20000) {
		compareGates(t, randomRequests(rand.New(rand.NewPCG(seed, 9))), seed)
	}
	for i, in := range edges {
		compareGates(t, []byte(in), uint64(i))
	}
}

func FuzzGatePieces(f *testing.F) {
	for _, in := range edges {
		f.Add([]byte(in), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) { compareGates(t, bytes.Clone(in), seed) })
}

var longSize = regexp.MustCompile(`\$\d{5}`)

// TestGateOpen: with a judge that lets all pass, requests are cut as without one, up to malformed
// bytes.
func TestGateOpen(t *testing.T) {
	passes := func([][]byte, int, bool) Verdict { return Pass }
	for seed := range uint64(20000) {
		in := randomRequests(rand.New(rand.NewPCG(seed, 11)))
		if bytes.IndexByte(in, 0) >= 0 || longSize.Match(in) {
			continue // such names are taken
		}
		random := rand.New(rand.NewPCG(seed, 1))
		want, got := refer(in), gateAll(in, func() int { return 1 + random.IntN(40) }, passes)
		if (got.why != "") != want.raw || !bytes.HasPrefix(want.forwarded, got.forwarded) ||
			!want.raw && (len(got.own) != len(want.own) || got.q.Ended != want.requests) {
			t.Fatalf("%q:\n got %q %q %d %q\nwant %q %q %d %v", in, got.forwarded, got.own, got.q.Ended, got.why,
				want.forwarded, want.own, want.requests, want.raw)
		}
	}
}

// array is a request.
func array(argv ...string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "*%d\r\n", len(argv))
	for _, arg := range argv {
		fmt.Fprintf(&s, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return s.String()
}

// long returns a text of n bytes.
func long(n int) string { return strings.Repeat("x", n) }

// verdictCases are requests, each of which is forwarded or taken.
var verdictCases = []struct {
	name, in  string
	forwarded bool
	own       string // of a request that is taken: begins so
	last      string // call of the judge
}{
	{"passes", array("GET", "a"), true, "", "2 of 2, full false"},
	{"is taken", array("GET", "job"), false, `2 ["GET" "job"] cut false`, "2 of 2, full false"},
	{"inline", "GET a\r\n", true, "", "2 of 2, full false"},
	{"inline, taken", "GET \"j\\x6fb\"\r\n", false, `2 ["GET" "job"] cut false`, "2 of 2, full false"},
	{"no decision on a whole request", array("MORE", "x"), false, `2 ["MORE" "x"]`, "2 of 2, full false"},
	{"no decision on an inline one", "MORE\r\n", false, `1 ["MORE"]`, "1 of 1, full false"},
	{"lock command", array("lOcK", "a"), false, `2 ["lOcK" "a"]`, ""},
	{"name with a zero byte", array("GET\x00", "a"), false, `2 ["GET\x00" "a"]`, ""},
	{"the same inline", "\"GET\\x00\" a\r\n", false, `2 ["GET\x00" "a"]`, ""},
	{"empty name", array("", "a"), true, "", "2 of 2, full false"},
	{"long script", array("EVAL", long(70_000), "1", "a"), false, `4 ["EVAL" "xxx`, "1 of 4, full true"},
	{"script of just so much", array("EVAL", long(gateMost-30), "1", "a"), true, "", "3 of 4, full true"},
	{"long name", array(long(70_000), "a"), false, `2 ["xxx`, ""},
	{"long value", array("SET", "a", long(200_000)), true, "", "2 of 3, full true"},
	{"key after 64 KB", array("MORE", "a", long(gateMost-31), "job"), true, "", "3 of 4, full true"},
	{"key across 64 KB", array("MORE", "b", long(gateMost-40), long(900), "x"), true, "", "4 of 5, full true"},
	{"many arguments", array(append([]string{"SET", "job"}, slices.Repeat([]string{"a"}, 2000)...)...), false,
		`2002 ["SET" "job" "a"`,
		"2002 of 2002, full false"},
	{"script debug", array("script", "Debug", "yes"), false, `3 ["script" "Debug" "yes"]`, ""},
	{"script debug, cut short", array("script", "debug\x00x"), false, `2 ["script"`, ""},
	{"script debug with a long word", array("script", "debug", long(70_000)), false, `3 ["script"`, ""},
	{"script debug inline", "script debug sync\r\n", false, `3 ["script"`, ""},
	{"script debug no", array("SCRIPT", "DEBUG", "no"), true, "", "3 of 3, full false"},
	{"script load", array("SCRIPT", "LOAD", long(70_000)), true, "", "2 of 3, full true"},
	{"nothing", "*0\r\n\r\n*-1\r\n", true, "", ""},
}

// judgeCase judges the requests of verdictCases, and notes each call. MORE is undecided as long as
// it can be.
func judgeCase(calls *[]string) Judge {
	return func(argv [][]byte, total int, full bool) Verdict {
		*calls = append(*calls, fmt.Sprintf("%d of %d, full %v", len(argv), total, full))
		known := len(argv) > 1
		switch name := string(argv[0]); {
		case name == "MORE" && (total < 3 || !full && len(argv) < total):
			return Undecided
		case known && (name == "EVAL" || name == "SET" || name == "SCRIPT") && string(argv[1]) != "job":
			return Pass
		}
		return judgeJob(argv, total, full)
	}
}

// check checks the fate of in: forwarded, or a request for the proxy that begins with own.
func (g *gated) check(t *testing.T, in string, forwarded bool, own string) {
	t.Helper()
	if want := map[bool]string{true: in}[forwarded]; string(g.forwarded) != want {
		t.Errorf("forwarded %.200q", g.forwarded)
	}
	if got := strings.Join(g.own, " "); !strings.HasPrefix(got, own) || (got == "") != (own == "") {
		t.Errorf("own %.200q, want %q", got, own)
	}
	if g.why != "" || !g.q.Between() {
		t.Errorf("refused %q, between %v", g.why, g.q.Between())
	}
}

func TestGateVerdicts(t *testing.T) {
	for _, tt := range verdictCases {
		for _, size := range []int{len(tt.in), 1} {
			t.Run(fmt.Sprintf("%s in pieces of %d", tt.name, size), func(t *testing.T) {
				var calls []string
				g := gateAll([]byte(tt.in), func() int { return size }, judgeCase(&calls))
				g.check(t, tt.in, tt.forwarded, tt.own)
				if last := append([]string{""}, calls...)[len(calls)]; size > 1 && last != tt.last {
					t.Errorf("judged %q, want %q", calls, tt.last)
				}
				if size == 1 && g.held > gateMost+gateKey+100 {
					t.Errorf("%d bytes were held back", g.held)
				}
			})
		}
	}
}

// TestGateMalformed: what Redis refuses is not forwarded, and no byte after it.
func TestGateMalformed(t *testing.T) {
	for _, tt := range []struct{ in, forwarded, why string }{
		{"*1\r\n$4\r\nPING\r\n*1x\r\n", "*1\r\n$4\r\nPING\r\n", "invalid multibulk length"},
		{"*2147483648\r\n", "", "invalid multibulk length"},
		{"*2\r\n$3\r\nGET\r\n$-1\r\n", "", "invalid bulk length"},
		{"*2\r\n$3\r\nGET\r\n+job\r\n", "", "expected '$', got '+'"},
		{"*3\r\n$3\r\nSET\r\n$3\r\njob\r\n$536870913\r\n", "", "invalid bulk length"},
		{"*3\r\n$3\r\nSET\r\n$1\r\na\r\nx", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n", "expected '$', got 'x'"},
		{"GET \"job\r\n", "", "unbalanced quotes in request"},
		{strings.Repeat("a", 70_000), "", "too big inline request"},
		{"POST / HTTP/1.1\r\n", "", ""},
		{"*2\r\n$4\r\npost\r\n$3\r\njob\r\n", "", ""},
	} {
		t.Run(fmt.Sprintf("%.50q", tt.in), func(t *testing.T) {
			g := gateAll([]byte(tt.in), func() int { return 1 }, judgeJob)
			if string(g.forwarded) != tt.forwarded || g.why != tt.why+"." || len(g.own) > 0 {
				t.Errorf("forwarded %q, own %q, refused %q; want %q, %q", g.forwarded, g.own, g.why, tt.forwarded, tt.why)
			}
		})
	}
}

// TestGateLimited: before authentication Redis' limits hold for a request that is taken, too.
func TestGateLimited(t *testing.T) {
	for in, why := range map[string]string{
		array(append([]string{"SET", "job"}, slices.Repeat([]string{"a"}, 9)...)...): "unauthenticated multibulk length",
		array("SET", "job", strings.Repeat("a", 20_000)):                             "unauthenticated bulk length",
		array("SET", "job", "a"): "",
	} {
		t.Run(fmt.Sprintf("%.50q", in), func(t *testing.T) {
			var q Requests
			q.Limited = func() bool { return true }
			q.Guard(judgeJob, func() bool { return false })
			n, ev := q.Scan([]byte(in))
			if ev == Own {
				_, ev = q.Collect([]byte(in))
			}
			if n != 0 || q.Why != why || (ev == Malformed) != (why != "") {
				t.Errorf("%d forwarded, event %d, %q; want %q", n, ev, q.Why, why)
			}
		})
	}
}

// TestGateAbsent: while the upstream is absent, requests that pass are collected, with their
// kinds.
func TestGateAbsent(t *testing.T) {
	var q Requests
	absent := true
	q.Guard(judgeJob, func() bool { return absent })
	var got []string
	in := array("GET", "a") + "PING\r\n" + array("GET", "job") + array("HELLO", "3") + array("GET", "b")
	for b := []byte(in); len(b) > 0; {
		absent = len(b) > 25
		n, ev := q.Scan(b)
		if ev == Own {
			n, _ = q.Collect(b)
			got = append(got, fmt.Sprintf("%d %q", q.Kind, q.Argv))
		}
		b = b[n:]
	}
	want := []string{fmt.Sprintf(`%d ["GET" "a"]`, KindPlain), fmt.Sprintf(`%d ["PING"]`, KindPlain),
		fmt.Sprintf(`%d ["GET" "job"]`, KindLock), fmt.Sprintf(`%d ["HELLO" "3"]`, KindHello)}
	if !slices.Equal(got, want) || q.Ended != 1 {
		t.Errorf("collected %q, %d passed; want %q, 1", got, q.Ended, want)
	}
}

// TestGateMemory: a command, and the memory that stays after it, keep to the limits.
func TestGateMemory(t *testing.T) {
	var q Requests
	q.Guard(func([][]byte, int, bool) Verdict { return Take }, func() bool { return false })
	kept := func() (sum int) {
		for _, arg := range q.Argv[:cap(q.Argv)] {
			sum += cap(arg)
		}
		return sum
	}
	for _, in := range []string{array("EVAL", strings.Repeat("x", 500_000)),
		array(slices.Repeat([]string{"xy"}, 50_000)...),
		array("SET", strings.Repeat("x", 40_000), strings.Repeat("y", 40_000))} {
		q.Scan([]byte(in))
		q.Collect([]byte(in))
		size := 0
		for _, arg := range q.Argv {
			size += len(arg)
		}
		if size > gateMost || len(q.Argv) > gateArgs || !q.Cut || q.Collecting() {
			t.Errorf("%.30q: %d arguments of %d bytes are kept, cut %v", in, len(q.Argv), size, q.Cut)
		}
		small := array("GET", "a")
		q.Scan([]byte(small))
		q.Collect([]byte(small))
		if kept() > gateIdle || cap(q.gate.args) > gateFew || q.Cut {
			t.Errorf("%.30q: %d bytes stay, %d places, cut %v", in, kept(), cap(q.gate.args), q.Cut)
		}
	}
}

// BenchmarkGate is the cost of the gate for small requests that pass.
func BenchmarkGate(b *testing.B) {
	in := []byte(strings.Repeat(array("SET", "key:000000000001", "value"), 100))
	var q Requests
	q.Guard(judgeJob, func() bool { return false })
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := q.Scan(in); n != len(in) {
			b.Fatal(n)
		}
	}
}
