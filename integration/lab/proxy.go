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
	Node  *Node  // the namespace that it runs in, or nil
	files int    // how many it may have open; 0 for as many as the tests
	flags []string
	plain bool // built without the race detector

	binary string // path of another build; "" for the one under test
}

// busy is the master timeout of all proxies whose test names no other. The program's own, 50ms, is
// passed by healthy masters when the machine that runs the tests is busy.
const busy = "1s"

// StartProxy starts the built binary on a free port with more flags, and waits until it accepts
// connections.
func StartProxy(t testing.TB, flags ...string) *Proxy {
	t.Helper()
	return startProxy(t, &Proxy{flags: flags})
}

// StartProxyWithFiles is StartProxy for a proxy that may have no more than n files and connections
// open.
func StartProxyWithFiles(t testing.TB, n int, flags ...string) *Proxy {
	t.Helper()
	return (&Proxy{files: n, flags: flags}).first(t)
}

// StartPlainProxy is StartProxy for a proxy that is compared with programs built without the race
// detector.
func StartPlainProxy(t testing.TB, flags ...string) *Proxy {
	t.Helper()
	return (&Proxy{plain: true, flags: flags}).first(t)
}

func startProxy(t testing.TB, p *Proxy) *Proxy {
	t.Helper()
	if p.Node != nil { // what listens there is out of reach for all but the test
		p.Addr, p.flags = p.Node.freeAddr(t), withFlags(p.flags, "--allow-open", "true")
	}
	return p.first(t)
}

// first starts the proxy, and has its end checked when the test is over.
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
	args := withFlags([]string{"--log-format", "json", "--drain-timeout", "3s", "--master-timeout", busy, "--listen", "127.0.0.1:0"}, p.flags...)
	if p.Addr != "" {
		args = withFlags(args, "--listen", p.Addr)
	}
	line := p.Node.command(path, args)
	if p.files > 0 {
		line = append([]string{Tool(t, "sh"), "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, p.files)}, line...)
	}
	p.Process = Launch(t, "lockproxy", line[0], line[1:]...)
	addr := ""
	WaitFor(t, "lockproxy ready", 2*Patience, func() bool { addr = p.readyAddr(); return addr != "" || !p.Running() })
	if addr == "" {
		t.Fatalf("lockproxy %q ended before it was ready: %v\n%s", p.flags, p.Err, p.Log)
	}
	p.Addr = addr
}

// Restart ends the proxy at once, if it still runs, and starts it again at its address. Flags, if
// any are given, take the place of those it had, for good.
func (p *Proxy) Restart(t testing.TB, flags ...string) {
	t.Helper()
	p.Kill()
	p.checkEnd(t) // of this process; the one at the end of the test is about the last
	p.flags = withFlags(p.flags, flags...)
	p.start(t)
}

// readyAddr returns the first listening address in the log line "ready", or "" while there is
// none.
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

// checkEnd asks the proxy to end and looks for what must never be there: a crash, a race, an
// unclean exit.
func (p *Proxy) checkEnd(t testing.TB) {
	if !p.Running() {
		if p.Err != nil && !p.killed() {
			t.Errorf("lockproxy died: %v", p.Err)
		}
	} else if p.Resume(); p.Stop(t) && p.Err != nil {
		t.Errorf("lockproxy ended with %v after SIGTERM, want exit code 0", p.Err)
	}
	for _, bad := range []string{"DATA RACE", "panic: ", "panic recovered", "fatal error: ", "\"level\":\"dpanic\""} {
		if text := p.Log.String(); strings.Contains(text, bad) {
			t.Errorf("lockproxy wrote %q: ...%.3000s", bad, text[strings.Index(text, bad):])
		}
	}
}

// Stop sends SIGTERM, unless the test has done so, and waits for the end, which must come within the
// drain timeout. A second SIGTERM would end a proxy that drains with an error.
func (p *Proxy) Stop(t testing.TB) bool {
	if !p.ending.Load() {
		p.Signal(syscall.SIGTERM)
	}
	if !Poll(Patience, func() bool { return !p.Running() }) {
		p.Signal(syscall.SIGQUIT) // the runtime writes all stacks
		Poll(Patience, func() bool { return !p.Running() })
		t.Errorf("lockproxy did not end within %v of SIGTERM", Patience)
		return false
	}
	return true
}

// killed reports whether the process was ended by a test's SIGKILL.
func (p *Proxy) killed() bool {
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// WaitVoting returns when a lock can be had: lanes may still be opening when the proxy begins to
// accept.
func (p *Proxy) WaitVoting(t testing.TB) {
	t.Helper()
	c := Dial(t, p.Addr)
	defer c.Close()
	WaitFor(t, "first lock", Patience, func() bool {
		token, _, err := c.TryLock("warm-up", "500ms")
		if err != nil || token == "" {
			return false
		}
		return c.Do("UNLOCK", "warm-up", token) == ":1\r\n"
	})
}
