package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// reloading is a proxy with its settings in a file.
type reloading struct {
	*lab.Proxy
	path, servers string
}

func startReloading(t *testing.T, text string) *reloading {
	t.Helper()
	masters := lab.StartMasters(t, 3)
	r := &reloading{path: filepath.Join(t.TempDir(), "lockproxy.yaml"),
		servers: fmt.Sprintf("upstream: %s\nmasters: [%s]\nrestart-guard: off\n", lab.StartRedis(t).Addr,
			strings.Join(lab.Addrs(masters), ","))}
	r.write(t, text)
	r.Proxy = lab.StartProxy(t, "--config", r.path)
	r.WaitVoting(t)
	return r
}

// write puts settings into the file, after those of the servers, which take three lines.
func (r *reloading) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(r.path, []byte(r.servers+text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// hangup sends SIGHUP, waits for a log line with the message, and returns the log since then.
func (r *reloading) hangup(t *testing.T, message string) string {
	t.Helper()
	before := len(r.Log.String())
	r.Signal(syscall.SIGHUP)
	lab.WaitFor(t, message, lab.Patience, func() bool { return strings.Contains(r.Log.String()[before:], message) })
	return r.Log.String()[before:]
}

// A reload changes the settings that can change and names the others with both values; a broken
// file has no effect, and the log names fault and line. Under load no connection is dropped.
func TestReloadChangesSettings(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "max-clients: 100\n")
	stop := r.load(t, 20)
	host := lab.Dial(t, r.Addr)
	host.WantDo("-NOPERM LOCKPROXY LOCKS needs admin-commands: on, or a connection to a Unix socket of the proxy\r\n",
		"LOCKPROXY", "LOCKS", "0")

	r.write(t, "max-clients: 21\nadmin-commands: on\nmin-ttl: 1s\nmax-waiters: 1\nlog-level: debug\nmax-ttl: 30s\nshow-masters: false\nslow-client-timeout: 10s\n")
	said := r.hangup(t, "need a restart")
	for _, want := range []string{
		`max-clients \"100\" becomes \"21\"`, `log-level \"info\" becomes \"debug\"`, `settings reloaded`,
		`max-ttl \"60s\" becomes \"30s\"`,
		`slow-client-timeout \"300s\" becomes \"10s\"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the log does not mention %s:\n%s", want, said)
		}
	}
	if now, later, _ := strings.Cut(said, "need a restart"); strings.Contains(now[strings.LastIndex(now,
		"settings reloaded"):], "max-ttl") || strings.Contains(later, "min-ttl") {
		t.Errorf("the log mixes changed settings with others:\n%s", said)
	}
	if got := host.Do("LOCKPROXY", "LOCKS", "0"); strings.HasPrefix(got, "-") {
		t.Errorf("LOCKPROXY with admin-commands on: got %q", got)
	}
	host.WantDo("-ERR ttl 10 is under min-ttl 1000: it is 10ms, and 1s to 60s is allowed\r\n", "LOCK", "a", "10ms")
	if got := host.Do("LOCKPROXY", "MASTERS"); !strings.Contains(got, "master 3") {
		t.Errorf("LOCK with show-masters off: got %q", got)
	}
	host.Unlock("long", host.Lock("long", "60s")) // the new max-ttl needs a restart
	lab.Dial(t, r.Addr).Want("-ERR max number of clients reached\r\n")
	held := host.Lock("held", "60s")
	r.write(t, "max-clients: 100\nmin-ttl: 1s\nmax-waiters: 1\n")
	r.hangup(t, "settings reloaded")
	first := lab.Dial(t, r.Addr)
	first.Send(lab.Encode("LOCK", "held", "60s", "WAIT", "30s"))
	host.WaitWaiting(1)
	if got := lab.Dial(t, r.Addr).Do("LOCK", "held", "60s", "WAIT", "1s"); !strings.HasPrefix(got, "-LOCKQUEUEFULL") {
		t.Errorf("second waiter: got %q, want LOCKQUEUEFULL", got)
	}
	host.Unlock("held", held)

	for text, want := range map[string]string{
		"max-clients: many\n":                                          " line 4): \\\"many\\\" is not a whole number",
		"min-ttl: 1s\nmax-clins: 5\n":                                  `line 5: unknown setting \"max-clins\": did you mean max-clients?`,
		"min-ttl: 1s\n  max-clients: 5":                                "line 5: mapping values are not allowed",
		"min-ttl: 2m\n":                                                "min-ttl 120s exceeds max-ttl 60s",
		"tls-cert: /nonexistent\n":                                     `tls-cert \"/nonexistent\" and tls-key \"\": both or neither`,
		"max-ttl: 2m\nsession-lock-delay: 90s\n":                       "session-lock-delay 90s exceeds max-ttl 60s",
		"min-ttl: 2s\ntls-cert: /nonexistent\ntls-key: /nonexistent\n": "tls-cert /nonexistent: no such file or directory",
		"min-ttl: 2s\nmax-clients: [7\n":                               "line 5: did not find expected",
	} {
		r.write(t, text)
		if said := r.hangup(t, "nothing was reloaded"); !strings.Contains(said, want) {
			t.Errorf("settings %q: the log does not mention %s:\n%s", text, want, said)
		}
		host.WantDo("-ERR ttl 10 is under min-ttl 1000: it is 10ms, and 1s to 60s is allowed\r\n", "LOCK", "a", "10ms")
	}
	if n := stop(); n < 100 {
		t.Errorf("got only %d turns of the load", n)
	}
}

// load keeps n clients busy with commands of both kinds until stop, which returns how much they
// did. Each has one connection all the time.
func (r *reloading) load(t *testing.T, n int) (stop func() int64) {
	t.Helper()
	var turns atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for i := range n {
		conn, err := lab.Connect(r.Addr)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer conn.Close()
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := lockAndPing(conn, fmt.Sprint("load-", i)); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				turns.Add(1)
			}
		})
	}
	lab.WaitFor(t, "load", lab.Patience, func() bool { return turns.Load() > int64(n) })
	return func() int64 {
		close(done)
		wg.Wait()
		return turns.Load()
	}
}

// lockAndPing gets a lock, gives it back, and sends PING. It returns an error unless the lock is
// granted and PING answered. A lock may be refused because the proxy itself was late.
func lockAndPing(conn *lab.Conn, key string) error {
	token, reply, err := conn.TryLock(key, "20s")
	if err == nil && lab.Late(reply) {
		return nil
	}
	pong := ""
	if err == nil && token != "" {
		if reply, err = conn.Ask("UNLOCK", key, token); err == nil {
			pong, err = conn.Ask("PING")
		}
	}
	if err != nil || pong != "+PONG\r\n" {
		return fmt.Errorf("%q, %q, %w", reply, pong, err)
	}
	return nil
}

// After signals in quick succession the file's last settings are in force.
func TestQuickReloadsEndWithLastSettings(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "")
	host := lab.Dial(t, r.Addr)
	for i := range 30 {
		r.write(t, fmt.Sprintf("min-ttl: %dms\n", 1000+i))
		r.Signal(syscall.SIGHUP)
	}
	lab.WaitFor(t, "the last settings", lab.Patience, func() bool {
		return host.Do("LOCK", "a", "10ms") == "-ERR ttl 10 is under min-ttl 1029: it is 10ms, and 1029ms to 60s is allowed\r\n"
	})
	if lab.Poll(20*time.Millisecond, func() bool { return !r.Running() }) {
		t.Error("the proxy has ended")
	}
}
