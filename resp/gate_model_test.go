package resp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/resp/internal/protocol"
)

// judgeKeys is a judge: keys that begin with "lock:" are lock keys. The first argument of a
// command that it does not know is its key.
func judgeKeys(argv [][]byte, total int, full bool) Verdict {
	isLock := func(i int) bool { return bytes.HasPrefix(argv[i], []byte("lock:")) }
	first, last, step := 1, 1, 1
	switch strings.ToLower(string(argv[0])) {
	case "echo", "nested", "lost", "ping", "hello", "client", "multi", "exec", "discard", "reset", "subscribe",
		"unsubscribe", "quit", "monitor", "auth", "script", "psync", "lose":
		return Pass
	case "mset":
		last, step = total-1, 2
	case "eval":
		if len(argv) < 3 {
			return More
		}
		keys, _ := strconv.Atoi(string(argv[2]))
		first, last = 3, 2+keys
	}
	for i := first; i <= min(last, total-1); i += step {
		switch {
		case i >= len(argv) && full && string(argv[0]) != "EVAL": // it begins too late
			return Pass
		case i >= len(argv):
			return More
		case isLock(i):
			return Take
		}
	}
	return Pass
}

// taken reports whether a whole request is for the proxy. No size in it is near a limit.
func taken(argv []string) bool {
	if strings.EqualFold(argv[0], "EVAL") && len(argv[1]) > 65<<10 || strings.Contains(argv[0], "\x00") {
		return true
	}
	return judgeKeys(asBytes(argv), len(argv), false) == Take
}

// gatedReply is the reply of gatedHandler.
func gatedReply(argv []string, resp3 bool) string {
	size := 0
	for _, arg := range argv {
		size += len(arg)
	}
	return fmt.Sprintf("+%s %.20q %d arguments, cut %v, RESP3 %v\r\n", strings.ToLower(argv[0]), argv[len(argv[:2])-1],
		len(argv), size > 64<<10, resp3)
}

// gatedHandler answers with gatedReply.
func gatedHandler(conn redcon.Conn, cmd redcon.Command) {
	s := SessionOf(conn)
	switch cut, count := s.Cut(); {
	case s.InTransaction():
		conn.WriteError("ERR LOCK is not allowed in transactions")
	case s.Subscribed():
		conn.WriteError("ERR subscribed")
	default:
		conn.WriteRaw(fmt.Appendf(nil, "+%s %.20q %d arguments, cut %v, RESP3 %v\r\n", cmd.Args[0], cmd.Args[1], count,
			cut, s.RESP3()))
	}
}

// gatedScript turns each byte of choices into a command that makes sense in its place. chosen
// does so without a gate.
func gatedScript(choices []byte) (script [][]string, m *model) {
	m = &model{ideal: true, gated: true}
	add := func(argv ...string) {
		m.do(argv...)
		script = append(script, argv)
	}
	for i, c := range choices[:min(len(choices), 200)] {
		value := fmt.Sprint("v", i)
		big := strings.Repeat("*2\r\n$3\r\nGET\r\n$6\r\nlock:a\r\n", 1+int(c)*15)
		own := [][]string{{"GET", "lock:" + value}, {"set", "lock:" + value, value, "NX"},
			{"MSET", value, "1", "lock:" + value, "2"}, {"EVAL", value, "2", "a", "lock:" + value, value},
			{"HSET", "lock:" + value, "f", big}, {"MSET", value, big[:min(len(big), 60_000)], "lock:b", value},
			{"EVAL", strings.Repeat("s", 70_000), "1", "a"}, {"SET\x00", value}, {"LOCK", value},
			{"SET", "lock:" + value, strings.Repeat("s", 70_000)}}
		plain := [][]string{{"ECHO", "lock:" + value}, {"SET", value, big}, {"NESTED", value},
			{"EVAL", big[:min(len(big), 60_000)], "1", value, "lock:"}, {"MSET", value, big, "b", "lock:a"},
			{"GET", value}, {"LOST", "lock:"}}
		switch kind := c % 16; {
		case kind < 4:
			add(plain[int(c/16)%len(plain)]...)
		case kind < 8 && m.mode != "off":
			add(own[(int(c/16)+i)%len(own)]...)
		case kind == 8 && c/16%2 == 0 && m.mode != "off":
			add("RESET")
		case kind < 10 && !m.tx && m.mode == "" && len(m.subs) == 0:
			add("CLIENT", "REPLY", []string{"OFF", "SKIP", "ON", "skip"}[c/16%4])
		case m.mode == "off":
			add("CLIENT", "REPLY", "ON")
		case m.mode == "skip":
			add(plain[int(c/16)%len(plain)]...)
		case kind < 11:
			add("MULTI")
		case kind < 13:
			add("EXEC")
		case kind == 13 && m.tx:
			add("DISCARD")
		case m.tx:
			add(own[(int(c/16)+i)%len(own)]...)
		case kind == 13 && len(m.subs) == 0:
			add("HELLO", []string{"2", "3"}[c/16%2])
		case kind == 14:
			add([]string{"SUBSCRIBE", "UNSUBSCRIBE"}[c/16%2], string('a'+rune(c/32%2)))
		}
	}
	return script, m
}

// gatedRequest is a request as a client writes it, inline if random says so and it can be.
func gatedRequest(argv []string, random *rand.Rand) []byte {
	inline := strings.Join(argv, " ") + "\r\n"
	if random.IntN(4) == 0 && len(inline) < 1000 && !strings.Contains(inline[:len(inline)-2], "\r") &&
		!strings.Contains(inline, "\x00") {
		return []byte(inline)
	}
	b := appendCommand(nil, asBytes(argv), len(argv))
	if random.IntN(8) == 0 {
		b = append([]byte("*0\r\n\r\n"), b...) // which Redis ignores
	}
	return b
}

// malformedTails are bytes that Redis refuses, and its error; or a held request that breaks off.
var malformedTails = [][2]string{
	{"", ""}, {"", ""}, {"", ""}, {"*2\r\n$3\r\nGET\r\n$6\r\nlock:", ""}, {"*1\r\n$3\r\nGE", ""},
	{"*2\r\n$3\r\nGET\r\n$-1\r\nlock:a\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*3\r\n$3\r\nSET\r\n$6\r\nlock:a\r\nx", "-ERR Protocol error: expected '$', got 'x'\r\n"},
	{"*2\r\n$4\r\nEVAL\r\n$999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"GET \"lock:a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
	{"POST / HTTP/1.1\r\n", ""},
}

// gatedUpstream is a model that also keeps the bytes of the requests that it got, but those of
// queries.
type gatedUpstream struct {
	model
	got  bytes.Buffer
	done chan struct{} // closed when the connection has ended
}

// serve is the model as an upstream.
func (u *gatedUpstream) serve(c net.Conn) {
	defer close(u.done)
	defer c.Close()
	r := bufio.NewReader(c)
	w := bufio.NewWriter(c)
	for !u.closed {
		argv, raw, err := readRaw(r)
		query := len(argv) == 1 && (argv[0] == "HELLO" || len(argv[0]) == protocol.MarkerLength) || len(argv) == 3 &&
			argv[0] == "HELLO"
		if !query {
			u.got.Write(raw)
		}
		if err != nil {
			break
		}
		if len(argv) > 0 {
			w.WriteString(u.do(argv...))
		}
		if r.Buffered() == 0 {
			w.Flush()
		}
	}
	w.Flush()
}

// readRaw reads a request, which may be inline or empty, and its bytes.
func readRaw(r *bufio.Reader) (argv []string, raw []byte, err error) {
	line := func() (string, error) {
		text, err := r.ReadString('\n')
		raw = append(raw, text...)
		return strings.TrimRight(text, "\r\n"), err
	}
	first, err := line()
	if err != nil || !strings.HasPrefix(first, "*") {
		return strings.Fields(first), raw, err
	}
	count, _ := strconv.Atoi(first[1:])
	for range count {
		header, err := line()
		if err != nil {
			return nil, raw, err
		}
		size, _ := strconv.Atoi(header[1:])
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, raw, err
		}
		raw = append(raw, arg...)
		argv = append(argv, string(arg[:size]))
	}
	return argv, raw, nil
}

// startGate starts a relay with a gate, on a Unix socket, whose upstream is the next of upstreams.
// change wraps the listener.
func startGate(f *testing.F, upstreams <-chan *gatedUpstream, change func(net.Listener) net.Listener) (addr string) {
	dir := f.TempDir()
	beyond, err := net.Listen("unix", filepath.Join(dir, "u"))
	if err != nil {
		f.Fatal(err)
	}
	server := NewServer(Options{Handler: redcon.HandlerFunc(gatedHandler),
		Begin: beginSome(redcon.HandlerFunc(gatedHandler)), Judge: judgeKeys, UpstreamName: "model",
		Dial: func(context.Context) (net.Conn, error) {
			near, err := net.Dial("unix", beyond.Addr().String())
			if err != nil {
				return nil, err
			}
			far, err := beyond.Accept()
			if err != nil {
				return nil, err
			}
			go (<-upstreams).serve(far)
			return near, nil
		}})
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		f.Fatal(err)
	}
	addr = ln.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(change(ln)) })
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		server.Shutdown(ctx)
		wg.Wait()
		beyond.Close()
	})
	return addr
}

// FuzzGate: a client sends any commands, in any pieces. Those on lock keys never reach the
// upstream; it gets all others byte for byte, in order, and the client gets the replies in order.
func FuzzGate(f *testing.F) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		choices := make([]byte, 1+r.IntN(60))
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		f.Add(choices, seed)
	}
	was := blockedTime
	f.Cleanup(func() { blockedTime = was }) // after the servers have ended
	blockedTime = time.Minute
	var upstreams [2]chan *gatedUpstream
	var addrs [2]string
	for i, change := range []func(net.Listener) net.Listener{
		func(ln net.Listener) net.Listener { return ln }, func(ln net.Listener) net.Listener { return unwatched{ln} }} {
		upstreams[i] = make(chan *gatedUpstream, 1)
		addrs[i] = startGate(f, upstreams[i], change)
	}
	f.Fuzz(func(t *testing.T, choices []byte, seed uint64) {
		script, end := gatedScript(choices)
		upstream := &gatedUpstream{model: model{gated: true}, done: make(chan struct{})}
		sent, want, passed, ran := playGate(script, end, seed)
		which := upstreams[seed%2]
		which <- upstream
		c, err := net.Dial("unix", addrs[seed%2])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		go sendInPieces(c, sent, seed/2)
		got, err := io.ReadAll(c)
		select {
		case <-which: // it was not needed
		case <-upstream.done:
		}
		if err != nil || string(got) != want {
			at := differAt(string(got), want)
			t.Fatalf("%.200q:\nat %d of %d got  ...%.200q (%v)\nwant ...%.200q", script, at, len(want), got[at:], err,
				want[at:])
		}
		if !slices.Equal(upstream.ran, ran) {
			t.Fatalf("%.200q:\nthe upstream ran %.1000q\nwant %.1000q", script, upstream.ran, ran)
		}
		if got := upstream.got.String(); got != passed {
			at := differAt(got, passed)
			t.Fatalf("%.200q:\nthe upstream got ...%.200q\nwant ...%.200q", script, got[at:], passed[at:])
		}
	})
}

// differAt returns where two texts differ.
func differAt(a, b string) int {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	return at
}

// playGate returns the bytes of a script, the replies to it, the bytes that the upstream gets, and
// the commands that it runs. end is the state after the script.
func playGate(script [][]string, end *model, seed uint64) (sent []byte, want, passed string, ran []string) {
	random := rand.New(rand.NewPCG(seed, 2))
	ideal := &model{ideal: true, gated: true}
	var replies, bytes strings.Builder
	for _, argv := range script {
		b := gatedRequest(argv, random)
		sent = append(sent, b...)
		replies.WriteString(ideal.do(argv...))
		switch own := taken(argv) || argv[0] == "LOCK"; {
		case !own:
			bytes.Write(b)
		case strings.HasPrefix(string(b), "*0"):
			bytes.WriteString("*0\r\n\r\n")
		}
	}
	if tail := malformedTails[random.IntN(len(malformedTails))]; end.mode == "" {
		sent = append(sent, tail[0]...)
		replies.WriteString(tail[1])
	}
	return sent, replies.String(), bytes.String(), ideal.ran
}
