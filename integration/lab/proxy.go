package lab

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// Proxy is a lockproxy process. Every test that starts one also checks that it ends cleanly and
// without a data race.
type Proxy struct {
	*Process
	Addr  string // host:port; stays the same over a restart
	Node  *Node  // its namespace, or nil
	files int    // its limit on open files; 0 for that of the tests
	flags []string
	plain bool // built without the race detector

	binary string // path of another build; "" for the one under test
}

// busy is the default of master-timeout in these tests. Healthy masters need more than the
// program's default of 50ms if the machine is busy.
const busy = "1s"

// StartProxy starts the built binary on a free port with more flags, and waits until it accepts
// connections.
func StartProxy(t testing.TB, flags ...string) *Proxy {
	t.Helper()
	return startProxy(t, &Proxy{flags: flags})
}

// StartProxyWithFiles is StartProxy for a proxy that may open at most n files and connections.
func StartProxyWithFiles(t testing.TB, n int, flags ...string) *Proxy {
	t.Helper()
	return (&Proxy{files: n, flags: flags}).first(t)
}

// StartPlainProxy is StartProxy for a proxy without the race detector.
func StartPlainProxy(t testing.TB, flags ...string) *Proxy {
	t.Helper()
	return (&Proxy{plain: true, flags: flags}).first(t)
}

func startProxy(t testing.TB, p *Proxy) *Proxy {
	t.Helper()
	if p.Node != nil { // only the test can reach it there
		p.Addr, p.flags = p.Node.freeAddr(t), withFlags(p.flags, "--allow-open", "true")
	}
	return p.first(t)
}

// first starts the proxy, and checks its end when the test ends.
func (p *Proxy) first(t testing.TB) *Proxy {
	t.Helper()
	p.start(t)
	t.Cleanup(func() { p.checkEnd(t) })
	return p
}

func (p *Proxy) start(t testing.TB) {
	t.Helper()
	path, err := p.binary, error(nil)
	switch {
	case path != "":
	case p.plain:
		path, err = PlainBinary()
	default:
		path, err = Binary()
	}
	if err != nil {
		t.Fatal(err)
	}
	listen := p.Addr
	if listen == "" {
		listen = FreeAddr(t) // a port of its own: no other process gets it before a Restart
	}
	args := withFlags([]string{"--log-format", "json", "--drain-timeout", "3s", "--master-timeout", busy, "--listen",
		listen}, p.flags...)
	if p.Addr != "" {
		args = withFlags(args, "--listen", p.Addr)
	}
	line := p.Node.command(path, args)
	if p.files > 0 {
		line = append([]string{Tool(t, "sh"), "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, p.files)}, line...)
	}
	p.Process = Launch(t, "lockproxy", line[0], line[1:]...)
	addr := ""
	WaitFor(t, "lockproxy to be ready", 2*Patience,
		func() bool { addr = p.readyAddr(); return addr != "" || !p.Running() })
	if addr == "" {
		t.Fatalf("lockproxy %q: got its end (%v), want it ready\n%s", p.flags, p.Err, p.Log)
	}
	p.Addr = addr
}

// Restart kills the proxy, if it runs, and starts it again at its address. The flags replace
// earlier ones of the same names, also in later restarts.
func (p *Proxy) Restart(t testing.TB, flags ...string) {
	t.Helper()
	p.Kill()
	p.checkEnd(t) // of this process; the check at the end of the test is for the last one
	p.flags = withFlags(p.flags, flags...)
	p.start(t)
}

// readyAddr returns the first listening address in the log line "ready", or "" before that line.
func (p *Proxy) readyAddr() string {
	for line := range strings.Lines(p.Log.String()) {
		var entry struct {
			Msg    string `json:"msg"`
			Listen any    `json:"listen"`
		}
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "ready" {
			continue
		}
		switch listen := entry.Listen.(type) {
		case string:
			return strings.Split(listen, ",")[0]
		case []any:
			return listen[0].(string)
		}
	}
	return ""
}

// checkEnd asks the proxy to end, and fails after a crash, a race or an unclean exit.
func (p *Proxy) checkEnd(t testing.TB) {
	if !p.Running() {
		if p.Err != nil && !p.killed() {
			t.Errorf("lockproxy: got its end (%v), want it running", p.Err)
		}
	} else if p.Resume(); p.Stop(t) && p.Err != nil {
		t.Errorf("lockproxy after SIGTERM: got %v, want exit code 0", p.Err)
	}
	for _, bad := range []string{"DATA RACE", "panic: ", "panic recovered", "fatal error: ", "\"level\":\"dpanic\""} {
		if text := p.Log.String(); strings.Contains(text, bad) {
			t.Errorf("output of lockproxy: got ...%.3000s, want no %q", text[strings.Index(text, bad):], bad)
		}
	}
}

// Stop sends SIGTERM, unless the test has done so, and waits for the end, which must follow within
// the drain timeout. A second SIGTERM would end a draining proxy with an error.
func (p *Proxy) Stop(t testing.TB) bool {
	if !p.ending.Load() {
		p.Signal(syscall.SIGTERM)
	}
	if !Poll(Patience, func() bool { return !p.Running() }) {
		p.Signal(syscall.SIGQUIT) // the runtime writes all stacks
		Poll(Patience, func() bool { return !p.Running() })
		t.Errorf("lockproxy %v after SIGTERM: got it running, want its end", Patience)
		return false
	}
	return true
}

// killed reports whether a SIGKILL of the test ended the process.
func (p *Proxy) killed() bool {
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// WaitVoting waits until the proxy has granted a lock. It opens its lanes after it begins to
// accept clients.
func (p *Proxy) WaitVoting(t testing.TB) {
	t.Helper()
	c := Dial(t, p.Addr)
	defer c.Close()
	WaitFor(t, "a first lock", Patience, func() bool {
		token, _, err := c.TryLock("warm-up", "500ms")
		if err != nil || token == "" {
			return false
		}
		return c.Do("UNLOCK", "warm-up", token) == ":1\r\n"
	})
}
