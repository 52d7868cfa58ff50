package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// words are the arguments of one request, which must be all there is.
func words(t testing.TB, b []byte) []string {
	t.Helper()
	var all []string
	var count int
	rest := string(b)
	if n, _ := fmt.Sscanf(rest, "*%d\r\n", &count); n != 1 {
		t.Fatalf("%q is no request", b)
	}
	rest = rest[strings.Index(rest, "\n")+1:]
	for range count {
		var r Reply
		n, err := Parse([]byte(rest), &r)
		if n == 0 || err != nil || r.Kind != '$' {
			t.Fatalf("%q: %v", rest, err)
		}
		all, rest = append(all, r.Text), rest[n:]
	}
	if rest != "" {
		t.Fatalf("%q is left", rest)
	}
	return all
}

// everyOp is one operation of each kind.
func everyOp() []*Op {
	at := TokenAt{"lock:job", mine}
	two := &Terms{More: []string{"lock:b"}, Counters: []uint16{9}}
	return []*Op{
		{Kind: Acquire, TokenAt: at, Counter: 7, TTL: 20 * time.Second, Owner: "me", Begun: 1000 * time.Second},
		{Kind: Raise, TokenAt: at, Counter: 4095, Fence: 9007199254740991},
		{Kind: Release, TokenAt: TokenAt{"lock:d", mine}},
		{Kind: Release, TokenAt: TokenAt{"lock:p", mine}, Publish: true},
		{Kind: Release, TokenAt: at},
		{Kind: Release, TokenAt: at, Publish: true},
		{Kind: Fade, TokenAt: at, TTL: 2 * time.Second},
		{Kind: TopUp, TokenAt: at, Counter: 7, TTL: time.Millisecond, Fence: 12, Owner: "me", Begun: 1010*time.Second + 500,
			Within: 5*time.Second + 500},
		{Kind: Extend, TokenAt: at, TTL: time.Hour},
		{Kind: Check, TokenAt: at},
		{Kind: Acquire, TokenAt: TokenAt{"lock:w", mine}, Counter: 8, TTL: time.Second, Owner: "me",
			Terms: &Terms{Waits: time.Minute}},
		{Kind: Acquire, TokenAt: at, Counter: 7, TTL: time.Second, Terms: &Terms{Mode: Shared}},
		{Kind: Acquire, TokenAt: at, Counter: 7, TTL: time.Second, Terms: &Terms{Mode: Limited, Limit: 10, Try: [2]int{3, 0},
			Waits: time.Second}},
		{Kind: Acquire, TokenAt: at, Counter: 7, TTL: time.Second, Owner: "me", Terms: two},
		{Kind: Raise, TokenAt: at, Counter: 7, Fence: 5, Terms: two},
		{Kind: TopUp, TokenAt: at, Counter: 7, TTL: time.Second, Fence: 12, Terms: &Terms{Mode: Shared}},
		{Kind: TopUp, TokenAt: at, Counter: 7, TTL: time.Second, Fence: 12, Terms: &Terms{Mode: Limited, Slot: 12}},
		{Kind: Share, TokenAt: at, Counter: 7, TTL: time.Second},
		{Kind: Release, TokenAt: at, TTL: time.Minute},
		{Kind: Inspect, TokenAt: TokenAt{Key: "lock:job"}},
		{Kind: Free, TokenAt: TokenAt{Key: "lock:job"}},
		{Kind: Refresh, TokenAt: at, TTL: time.Second, End: -1},
		{Kind: Acquire, TokenAt: at, Counter: 7, TTL: time.Second, Owner: "me"}, // after an operation that may free its key
		{Kind: Acquire, TokenAt: at, Counter: 7, TTL: time.Second, Terms: &Terms{Waits: time.Minute}},
	}
}

func TestAppendPacket(t *testing.T) {
	ops := everyOp()
	got := words(t, fenced.AppendPacket(nil, batch(t, ops...), "A x", false))
	keys := " lock:p lock:d lock:job lock:w" + strings.Repeat(" lock:job",
		10) + " lock:b lock:job lock:b" + strings.Repeat(" lock:job", 9)
	want := "EVALSHA " + Packet.SHA + " 27 " + testState + keys +
		" A x 111113 1015000000 1000000000 @ @ @me @me 7 8 4095 7 7 7 7 9 7 9 7 7 7 7 7 20000 1000 60000" +
		" raise 3 @ 9007199254740991 4095 release 1 @ tell 1 @ fade 2 @ 2000 top_up 7 @ 1 7 0000000000000012 me exclusive 5000 extend 2 @ 3600000 check 1 @" +
		" acquire_shared 5 @ 1000 7   acquire_slot 8 @ 1000 7  1000 10 3 0 acquire_keys 6 @ 1000 me  7 9 raise_keys 4 @ 0000000000000005 7 9" +
		" top_up 7 @ 1000 7 0000000000000012  shared 1 top_up 7 @ 1000 7 0000000000000012  12 1 share 3 @ 1000 7 keep 2 @ 60000 inspect 0 free 0 refresh 3 @ 1000 -1" +
		" acquire_keys 5 @ 1000 me  7 acquire_keys 5 @ 1000  60000 7"
	if s := strings.Join(got, " "); s != strings.ReplaceAll(want, "@", mine) {
		t.Errorf("%s\nwant %s", s, want)
	}
	got = words(t, fenced.AppendPacket([]byte(nil), batch(t, ops[:1]...), "", true))
	if got[0] != "EVAL" || got[1] != Packet.Body || got[2] != "2" || got[5] != "" {
		t.Errorf("with the body: %q", got)
	}
	got = words(t, (&Encoder{StateKey: "s"}).AppendPacket(nil, batch(t, ops[:1]...), "", false))
	if strings.Join(got[6:], ",") != "0010,1019800000,1000000000,"+mine+"me,,20000" {
		t.Errorf("without fencing: %q", got)
	}
	for ttl, want := range map[time.Duration]string{1999 * time.Microsecond: "1", 999 * time.Microsecond: "1", 0: "1",
		-time.Hour: "1"} {
		ops[8].TTL = ttl
		if got = words(t, fenced.AppendPacket(nil, batch(t, ops[8]), "", false)); got[len(got)-1] != want {
			t.Errorf("ttl %v is written %q", ttl, got)
		}
	}
	if b := fenced.AppendPacket([]byte("before"), batch(t, ops...), "", false); !strings.HasPrefix(string(b), "before*") {
		t.Errorf("%.20q", b)
	}
}

func TestAppendCommand(t *testing.T) {
	const want = "*2\r\n$4\r\nPING\r\n$0\r\n\r\n"
	if got := string(AppendCommand(nil, "PING", "")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := words(t, Admit.Eval("s", "a", ""))
	if len(got) != 6 || got[0] != "EVAL" || got[1] != Admit.Body || got[2] != "1" || got[3] != "s" || got[4] != "a" ||
		got[5] != "" {
		t.Errorf("%q", got)
	}
}

func TestVotes(t *testing.T) {
	anywhere := []string{"release", "fade", "free"}
	for k := range operations {
		name := operations[k].name
		if want := !slices.Contains(anywhere, name); OpKind(k).Votes() != want {
			t.Errorf("%s votes: %v", name, OpKind(k).Votes())
		}
	}
}

// A packet allocates no memory if the buffer has room for it.
func TestAppendPacketAllocatesNothing(t *testing.T) {
	ops, b := everyOp(), make([]byte, 0, 64<<10)
	var all Batch
	n := testing.AllocsPerRun(100, func() {
		all.Reset()
		for _, op := range ops {
			all.Add(op)
		}
		b = fenced.AppendPacket(b[:0], &all, "A x", false)
	})
	if n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}

func BenchmarkAppendPacket(b *testing.B) {
	for _, n := range []int{1, 16, MaxOps} {
		b.Run(fmt.Sprint("ops=", n), func(b *testing.B) {
			var ops []*Op
			for i := range n {
				if i%2 == 0 {
					ops = append(ops, &Op{Kind: Acquire, TokenAt: TokenAt{"lock:some-job", mine}, Counter: 714,
						TTL: 20 * time.Second})
				} else {
					ops = append(ops, &Op{Kind: Release, TokenAt: TokenAt{"lock:some-job", mine}, Publish: true})
				}
			}
			record := strings.Repeat("A 0123456789abcdef", 4)
			var out []byte
			var all Batch
			b.ReportAllocs()
			for b.Loop() {
				all.Reset()
				for _, op := range ops {
					all.Add(op)
				}
				out = fenced.AppendPacket(out[:0], &all, record, false)
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1, 16, MaxOps} {
		b.Run(fmt.Sprint("ops=", n), func(b *testing.B) {
			in := []byte(fmt.Sprintf("*%d\r\n:1\r\n:1700000000\r\n:123456\r\n", n+3) + strings.Repeat(":3671294823219200\r\n",
				n))
			var r Reply
			b.ReportAllocs()
			for b.Loop() {
				if used, err := Parse(in, &r); used != len(in) || err != nil {
					b.Fatal(used, err)
				}
			}
		})
	}
}
