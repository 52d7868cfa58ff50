package tool

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const fakeToken = "0000000000000007:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"

// Replies to LOCK and EXTEND, with FULL.
const (
	grant   = "*3\r\n$57\r\n" + fakeToken + "\r\n:7\r\n:29000\r\n"
	held    = "*2\r\n:1\r\n:29000\r\n"
	notHeld = "*2\r\n:0\r\n:0\r\n"
)

// Answers of a fakeProxy that are no replies.
const (
	silence = "(silence)"
	hangUp  = "(hang up)"
)

// fakeProxy answers as a proxy does that has granted the only lock. Answers by the name of the
// command can be set.
type fakeProxy struct {
	addr     string
	listener net.Listener

	mu      sync.Mutex
	answers map[string]func(args []string) string
	heard   []string // the commands, without those of the login
	open    map[net.Conn]bool
	ended   int // connections that the client has ended
}

func startFake(t *testing.T) *fakeProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeProxy{addr: listener.Addr().String(), listener: listener, open: map[net.Conn]bool{},
		answers: map[string]func([]string) string{}}
	f.says("HELLO", "-ERR unknown command\r\n")
	f.says("LOCK", grant)
	f.says("EXTEND", held)
	f.says("UNLOCK", ":1\r\n")
	f.says("LOCKINFO", "$-1\r\n")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	t.Cleanup(f.end)
	return f
}

// end closes everything, like a proxy that ends.
func (f *fakeProxy) end() {
	f.listener.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.open {
		conn.Close()
	}
}

// on sets the answer to a command. Answers may be set while the proxy runs.
func (f *fakeProxy) on(command string, answer func(args []string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[command] = answer
}

// says is on with one answer for ever.
func (f *fakeProxy) says(command, answer string) {
	f.on(command, func([]string) string { return answer })
}

func (f *fakeProxy) serve(conn net.Conn) {
	defer conn.Close()
	f.mu.Lock()
	f.open[conn] = true
	f.mu.Unlock()
	c := newClient(conn, "")
	for {
		r, err := c.next()
		if err != nil {
			f.mu.Lock()
			f.ended++
			f.mu.Unlock()
			return
		}
		var args []string
		for _, entry := range r.Elems {
			args = append(args, entry.Text)
		}
		f.mu.Lock()
		if args[0] != "HELLO" {
			f.heard = append(f.heard, strings.Join(args, " "))
		}
		text := f.answers[args[0]](args)
		f.mu.Unlock()
		switch text {
		case silence:
		case hangUp:
			return
		default:
			conn.Write([]byte(text))
		}
	}
}

// commands returns the commands received so far that begin with prefix, each text once.
func (f *fakeProxy) commands(prefix string) (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.heard {
		if strings.HasPrefix(c, prefix) && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

// times returns how many commands were heard that are text, or begin with it and a space.
func (f *fakeProxy) times(text string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.heard {
		if c == text || strings.HasPrefix(c, text+" ") {
			n++
		}
	}
	return n
}

// heardOne reports whether a command was heard.
func (f *fakeProxy) heardOne(command string) bool {
	return slices.Contains(f.commands(command), command)
}

// clientsGone returns how many connections the client has ended.
func (f *fakeProxy) clientsGone() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// runTool runs lockproxy run with some flags and a command to its end. It returns the exit code
// and the output.
func runTool(t *testing.T, flags string, command ...string) (code int, out string) {
	t.Helper()
	args := append([]string{"run", "--key", "k"}, strings.Fields(flags)...)
	args = append(append(args, "--"), command...)
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ended := make(chan int, 1)
	go func() {
		code, _ := Run(t.Context(), args, os.Environ(), file, file)
		ended <- code
	}()
	select {
	case code = <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("lockproxy run does not end")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(text)
}

// waitFor polls until done is true.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
