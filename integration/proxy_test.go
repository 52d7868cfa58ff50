package integration

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// proxy is a lockproxy process. Every test that starts one also checks that it ends cleanly and without a data race.
type proxy struct {
	*process
	addr string
}

// startProxy starts the built binary on a free port with more flags, and waits until it accepts connections.
func startProxy(t testing.TB, flags ...string) *proxy {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--log-format", "json", "--drain-timeout", "3s"}, flags...)
	if !slices.Contains(flags, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	p := &proxy{process: launch(t, "lockproxy", path, args...)}
	waitFor(t, "lockproxy ready", 2*patience, func() bool { p.addr = p.readyAddr(); return p.addr != "" || !p.running() })
	if p.addr == "" {
		t.Fatalf("lockproxy %q ended before it was ready: %v\n%s", flags, p.err, p.log)
	}
	t.Cleanup(func() { p.checkEnd(t) })
	return p
}

// readyAddr returns the first listening address in the log line "ready", or "" while there is none.
func (p *proxy) readyAddr() string {
	for line := range strings.Lines(p.log.String()) {
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

// checkEnd asks the proxy to end and looks for what must never be there: a crash, a race, an unclean exit.
func (p *proxy) checkEnd(t testing.TB) {
	if !p.running() {
		if p.err != nil && !p.killed() {
			t.Errorf("lockproxy died: %v", p.err)
		}
	} else if p.resume(); p.stop(t) && p.err != nil {
		t.Errorf("lockproxy ended with %v after SIGTERM, want exit code 0", p.err)
	}
	for _, bad := range []string{"DATA RACE", "panic: ", "panic recovered", "fatal error: ", "\"level\":\"dpanic\""} {
		if text := p.log.String(); strings.Contains(text, bad) {
			t.Errorf("lockproxy wrote %q: ...%.3000s", bad, text[strings.Index(text, bad):])
		}
	}
}

// stop sends SIGTERM and waits for the end, which must come within the drain time.
func (p *proxy) stop(t testing.TB) bool {
	p.signal(syscall.SIGTERM)
	if !poll(patience, func() bool { return !p.running() }) {
		p.signal(syscall.SIGQUIT) // the runtime writes all stacks
		poll(patience, func() bool { return !p.running() })
		t.Errorf("lockproxy did not end within %v of SIGTERM", patience)
		return false
	}
	return true
}

// killed tells whether the process was ended by a test's SIGKILL.
func (p *proxy) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// cluster is an upstream and n masters with one lockproxy before them.
type cluster struct {
	*proxy
	upstream *redisServer
	masters  []*redisServer
	flags    []string
}

// startCluster starts n masters, an upstream of its own and a proxy with more flags.
func startCluster(t testing.TB, n int, flags ...string) *cluster {
	t.Helper()
	servers := startMasters(t, n+1)
	c := &cluster{upstream: servers[0], masters: servers[1:]}
	c.flags = append([]string{"--upstream", c.upstream.addr, "--masters", strings.Join(addrs(c.masters), ","),
		"--restart-guard", "off"}, flags...)
	c.proxy = c.another(t)
	return c
}

// another starts one more proxy in front of the same servers.
func (c *cluster) another(t testing.TB) *proxy {
	t.Helper()
	p := startProxy(t, c.flags...)
	p.waitVoting(t)
	return p
}

// waitVoting returns when a lock can be had: lanes may still be opening when the proxy begins to accept.
func (p *proxy) waitVoting(t testing.TB) {
	t.Helper()
	c := dial(t, p.addr)
	defer c.Close()
	waitFor(t, "first lock", patience, func() bool {
		token, _, err := c.tryLock("warm-up", "5s")
		if err != nil || token == "" {
			return false
		}
		c.unlock("warm-up", token)
		return true
	})
}

// seedOf returns the seed of a random test: INTEGRATION_SEED if set, to repeat a run, or the one given.
func seedOf(t testing.TB, fallback uint64) uint64 {
	t.Helper()
	if text := os.Getenv("INTEGRATION_SEED"); text != "" {
		var seed uint64
		if err := json.Unmarshal([]byte(text), &seed); err != nil {
			t.Fatalf("INTEGRATION_SEED: %v", err)
		}
		fallback = seed
	}
	t.Logf("INTEGRATION_SEED=%d repeats this run", fallback)
	return fallback
}
