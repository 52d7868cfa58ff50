package resp

import (
	"bufio"
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

	"lockproxy/resp/internal/netpoll"
	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// model is a small Redis: enough of one for every state that a connection can be in to matter. Its
// replies show which command they answer.
type model struct {
	ideal  bool // it answers lock commands itself, like the proxy and a Redis together
	gated  bool // the requests that judgeKeys takes are lock commands, too
	ran    []string
	tx     bool
	dirty  bool
	queue  [][]string
	subs   map[string]bool
	resp3  bool
	mode   string // of CLIENT REPLY: "", off, skip
	closed bool
}

// do runs a command and returns what goes to the client.
func (m *model) do(argv ...string) string {
	name := strings.ToLower(argv[0])
	if name == "client" && m.reply(argv[2]) {
		return ""
	}
	text := m.answer(name, argv)
	silent := m.mode != ""
	if m.mode == "skip" {
		m.mode = ""
	}
	if silent {
		return ""
	}
	return text
}

// reply is CLIENT REPLY; silent: no reply is sent.
func (m *model) reply(what string) (silent bool) {
	if m.mode = strings.ToLower(what); m.mode == "on" {
		m.mode = ""
	}
	m.ran = append(m.ran, "client "+what)
	return m.mode != ""
}

func (m *model) answer(name string, argv []string) string {
	own := scan.Classify([]byte(name)) == scan.KindLock
	if m.gated && taken(argv) {
		own = true
		if !m.ideal {
			m.ran = append(m.ran, fmt.Sprintf("LEAKED %.50q", argv))
		}
	}
	switch {
	case own && m.ideal && m.mode == "" && m.tx:
		m.dirty = true
		return "-ERR LOCK is not allowed in transactions\r\n"
	case own && m.ideal && m.mode == "" && len(m.subs) > 0 && !m.resp3:
		return "-ERR subscribed\r\n"
	case own && m.ideal && m.mode == "" && m.gated:
		return gatedReply(argv, m.resp3)
	case own && m.ideal && m.mode == "":
		return fmt.Sprintf("$%d\r\nown:%s\r\n", 4+len(argv[1]), argv[1])
	case own || len(name) == protocol.MarkerLength:
		m.dirty = m.tx
		return "-ERR unknown command '" + name + "', with args beginning with: \r\n"
	case name == "hello" && (len(argv) == 1 || len(argv[1]) > 0 && len(argv) > 2): // of questions only
		return m.hello(argv)
	}
	m.ran = append(m.ran, strings.Join(argv, " "))
	switch {
	case name == "quit":
		m.closed = true
		return "+OK\r\n"
	case name == "reset":
		*m = model{ideal: m.ideal, gated: m.gated, ran: m.ran}
		return "+RESET\r\n"
	case len(m.subs) > 0 && !m.resp3 && !strings.HasSuffix(name, "subscribe"):
		return "-ERR Can't execute '" + name + "'\r\n"
	case name == "multi" && m.tx:
		return "-ERR MULTI calls can not be nested\r\n"
	case name == "exec" || name == "discard":
		return m.end(name)
	case m.tx:
		m.queue = append(m.queue, argv)
		return "+QUEUED\r\n"
	}
	return m.run(name, argv)
}

// hello is HELLO, bare or with an option that is none.
func (m *model) hello(argv []string) string {
	switch {
	case m.tx:
		return "+QUEUED\r\n"
	case len(m.subs) > 0 && !m.resp3:
		return "-ERR Can't execute 'hello': only (P|S)SUBSCRIBE / ...\r\n"
	case len(argv) > 1:
		return "-ERR Syntax error in HELLO option '" + argv[2] + "'\r\n"
	}
	if m.resp3 {
		return "%7\r\n" + strings.Repeat("$6\r\nserver\r\n$5\r\nredis\r\n", 7)
	}
	return "*14\r\n" + strings.Repeat("$6\r\nserver\r\n$5\r\nredis\r\n", 7)
}

// end is EXEC or DISCARD.
func (m *model) end(name string) string {
	tx, dirty, queue := m.tx, m.dirty, m.queue
	m.tx, m.dirty, m.queue = false, false, nil
	switch {
	case !tx:
		return "-ERR " + strings.ToUpper(name) + " without MULTI\r\n"
	case name == "discard":
		return "+OK\r\n"
	case dirty:
		return "-EXECABORT Transaction discarded because of previous errors.\r\n"
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("*%d\r\n", len(queue)))
	for _, argv := range queue {
		text.WriteString(m.run(strings.ToLower(argv[0]), argv))
	}
	return text.String()
}

// run is a command that has effect at once.
func (m *model) run(name string, argv []string) string {
	switch name {
	case "multi":
		m.tx = true
		return "+OK\r\n"
	case "client":
		return "+OK\r\n"
	case "hello":
		m.resp3 = argv[1] == "3"
		return "+hello " + argv[1] + "\r\n"
	case "subscribe", "unsubscribe":
		if m.subs == nil {
			m.subs = map[string]bool{}
		}
		if m.subs[argv[1]] = true; name == "unsubscribe" {
			delete(m.subs, argv[1])
		}
		frame := "*"
		if m.resp3 {
			frame = ">"
		}
		return fmt.Sprintf("%s3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%d\r\n", frame, len(name), name, len(argv[1]), argv[1],
			len(m.subs))
	case "nested":
		return "*2\r\n*1\r\n$" + strconv.Itoa(len(argv[1])) + "\r\n" + argv[1] + "\r\n%1\r\n+a\r\n_\r\n"
	case "lost":
		return "-ERR Protocol error: " + argv[1] + "\r\n" // as a script may say
	}
	return fmt.Sprintf("$%d\r\n%s\r\n", len(argv[1]), argv[1])
}

// serve is the model as an upstream.
func (m *model) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	w := bufio.NewWriter(c)
	for !m.closed {
		argv := readRequest(r)
		if argv == nil {
			break
		}
		w.WriteString(m.do(argv...))
		if r.Buffered() == 0 {
			w.Flush()
		}
	}
	w.Flush()
}

// readRequest reads an array of bulk strings; nil is the end.
func readRequest(r *bufio.Reader) (argv []string) {
	number := func() int {
		line, err := r.ReadString('\n')
		if err != nil {
			return -1
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for range number() {
		arg := make([]byte, number()+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil
		}
		argv = append(argv, string(arg[:len(arg)-2]))
	}
	return argv
}

// chosen turns each byte of choices into a command that makes sense in its place. While replies
// are off no lock command comes: the proxy would have to wait, to distinguish that from a blocked
// upstream.
func chosen(choices []byte) (script [][]string) {
	m := &model{ideal: true}
	add := func(argv ...string) {
		m.do(argv...)
		script = append(script, argv)
	}
	for i, c := range choices[:min(len(choices), 400)] {
		value := fmt.Sprint("v", i)
		plain := [][]string{{"ECHO", value}, {"ECHO", strings.Repeat("*2\r\n$4\r\nLOCK\r\n$1\r\na\r\n", int(c)*4)},
			{"NESTED", value}, {"LOST", value}, {"SUBSCRIBED", value}}[c/16%5]
		switch kind := c % 16; {
		case kind < 4:
			add(plain...)
		case kind < 7 && m.mode != "off":
			add([]string{"LOCK", "unlock", "Extend", "LOCKINFO"}[c/16%4], value)
		case kind == 7 && c/16%2 == 0 && m.mode != "off":
			add("RESET")
		case kind < 9 && !m.tx && m.mode == "" && len(m.subs) == 0:
			add("CLIENT", "REPLY", []string{"OFF", "SKIP", "ON", "skip"}[c/16%4])
		case m.mode == "off":
			add("CLIENT", "REPLY", "ON")
		case m.mode == "skip":
			add(plain...)
		case kind < 11:
			add("MULTI")
		case kind < 13:
			add("EXEC")
		case kind == 13:
			add("DISCARD")
		case m.tx:
			add("LOCK", value)
		case kind == 14:
			add([]string{"SUBSCRIBE", "UNSUBSCRIBE"}[c/16%2], string('a'+rune(c/32%2)))
		case len(m.subs) == 0:
			add("MULTI")
			add("SUBSCRIBE", "a")
			add("UNSUBSCRIBE", "a")
			add("EXEC")
		}
	}
	return script
}

// startModel starts a relay, on a Unix socket, whose upstream is the next of upstreams.
func startModel(f *testing.F, upstreams <-chan *model) (addr string) {
	was := blockedTime
	f.Cleanup(func() { blockedTime = was }) // after the server has ended
	blockedTime = time.Minute               // the model never blocks, but a busy machine takes its time
	dir := f.TempDir()
	beyond, err := net.Listen("unix", filepath.Join(dir, "u"))
	if err != nil {
		f.Fatal(err)
	}
	handler := &ownHandler{lost: make(chan string, 1<<20)}
	server := NewServer(Options{Handler: handler, Begin: beginSome(handler), UpstreamName: "model",
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
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(ln) })
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		server.Shutdown(ctx)
		wg.Wait()
		beyond.Close()
	})
	return ln.Addr().String()
}

// beginSome returns a Begin that leaves some commands to the handler, answers some at once and
// some later.
func beginSome(handler redcon.Handler) func(redcon.Conn, redcon.Command, func()) bool {
	return func(conn redcon.Conn, cmd redcon.Command, done func()) bool {
		switch last := cmd.Args[1][len(cmd.Args[1])-1]; last % 3 {
		case 0:
			return false
		case 1:
			handler.ServeRESP(conn, cmd)
			done()
		default:
			go func() {
				handler.ServeRESP(conn, cmd)
				done()
			}()
		}
		return true
	}
}

// sendInPieces writes sent to c in pieces whose sizes seed decides, and then ends the input.
func sendInPieces(c net.Conn, sent []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	least := 1 + len(sent)/4096 // or a long script takes a busy machine longer than the ten seconds that a fuzzer allows
	for rest := sent; len(rest) > 0; {
		n := min(len(rest), least+r.IntN(1<<(seed%15)))
		if _, err := c.Write(rest[:n]); err != nil {
			return
		}
		rest = rest[n:]
	}
	netpoll.CloseWrite(c)
}

// FuzzRelay: a client sends any commands, in any pieces. The upstream runs all but the lock
// commands, in order, and the client gets the replies of Redis and the proxy together, in order.
func FuzzRelay(f *testing.F) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		choices := make([]byte, 1+r.IntN(100))
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		f.Add(choices, seed)
	}
	upstreams := make(chan *model, 1)
	addr := startModel(f, upstreams)
	f.Fuzz(func(t *testing.T, choices []byte, seed uint64) {
		script := chosen(choices)
		ideal, upstream := &model{ideal: true}, &model{}
		var sent []byte
		var want strings.Builder
		for _, argv := range script {
			sent = appendCommand(sent, asBytes(argv), len(argv))
			want.WriteString(ideal.do(argv...))
		}
		select {
		case upstreams <- upstream:
		default: // one that was not needed for a script without a command for the upstream
			<-upstreams
			upstreams <- upstream
		}
		c, err := net.Dial("unix", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		go sendInPieces(c, sent, seed)
		got, err := io.ReadAll(c)
		if err != nil || string(got) != want.String() {
			at := 0
			for at < len(got) && at < want.Len() && got[at] == want.String()[at] {
				at++
			}
			t.Fatalf("%q:\nat %d of %d got  ...%.200q (%v)\nwant ...%.200q", script, at, want.Len(), got[at:], err,
				want.String()[at:])
		}
		if !slices.Equal(upstream.ran, ideal.ran) {
			t.Fatalf("%q:\nthe upstream ran %q\nwant %q", script, upstream.ran, ideal.ran)
		}
	})
}

func asBytes(argv []string) (b [][]byte) {
	for _, arg := range argv {
		b = append(b, []byte(arg))
	}
	return b
}
