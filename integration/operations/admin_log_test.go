package operations

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The log and the audit log.

// The log level changes by HTTP and by SIGHUP. SIGHUP also lists the settings of the file that
// need a restart; a broken file changes nothing.
func TestLogLevelChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lockproxy.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log-level: warn\n")
	addr := lab.FreeAddr(t)
	l := lab.Start(t, lab.Config{NoWait: true, Proxies: -1})
	write("log-level: info\n")
	p := l.StartProxy(t, "--config", file, "--admin-listen", addr)
	o := &lab.Operators{Lab: l, T: t, Addr: addr}
	level := func(want string) func() bool {
		return func() bool { _, text := o.Get("GET", "/log-level", "", ""); return text == `{"level":"`+want+`"}`+"\n" }
	}
	if !level("info")() {
		t.Error("the level at the start is not info")
	}
	if code, text := o.Get("PUT", "/log-level", "", `{"level":"debug"}`); code != 200 || !level("debug")() {
		t.Errorf("PUT debug: got %d %q", code, text)
	}
	// the setting has none of these values
	for _, wrong := range []string{`{"level":"loud"}`, `{"level":"fatal"}`, `{"level":""}`, "{}", "debug"} {
		if code, _ := o.Get("PUT", "/log-level", "", wrong); code != 400 || !level("debug")() {
			t.Errorf("PUT %s: got %d, want an error", wrong, code)
		}
	}
	if code, _ := o.Get("PUT", "/log-level", "", `{"level":"error"}`); code != 200 || !level("error")() {
		t.Errorf("PUT error: got %d", code)
	}
	if !p.Says(`"msg":"log-level put","from":"debug","to":"error","client":"127.0.0.1:`) {
		t.Error("the log does not announce the change to error")
	}
	if code, _ := o.Get("PUT", "/log-level", "", `{"level":"debug"}`); code != 200 {
		t.Errorf("PUT debug again: got %d", code)
	}
	write("log-level: error\nmax-waiters: none\n")
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "a log line about the broken file", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), "nothing was reloaded, the settings are not good")
	})
	if !level("debug")() || !strings.Contains(p.Log.String(), "max-waiters (config ") {
		t.Error("a broken file changed the level, or the log does not name the fault")
	}
	write("log-level: warn\nmax-ttl: 30s\n")
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the level of the file", lab.Patience, level("warn"))
	lab.WaitFor(t, "a log line about settings that need a restart", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), `changed settings need a restart","settings":["max-ttl \"60s\" becomes \"30s\""]`)
	})
}

// A proxy whose log goes into a closed pipe keeps running.
func TestProxyOutlivesClosedLog(t *testing.T) {
	t.Parallel()
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	addr := lab.FreeAddr(t)
	p := exec.Command(path, "--listen", addr, "--upstream", lab.StartRedis(t).Addr)
	p.Stderr = writer
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	t.Cleanup(func() { p.Process.Kill() })
	lines := bufio.NewScanner(reader)
	for lines.Scan() && !strings.Contains(lines.Text(), `"msg":"ready"`) {
	}
	reader.Close()
	c := lab.Dial(t, addr)
	for range 3 {
		p.Process.Signal(syscall.SIGHUP) // makes it write to the log
		lab.Pass(t, 20*time.Millisecond)
		c.WantDo("+PONG\r\n", "PING")
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("the proxy ended with %v", err)
	}
}

// The audit file has a line for each lock and unlock, without tokens; after SIGHUP the lines go
// to a new file.
func TestAuditLogHasLineForEachLock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	l := lab.Start(t, lab.Config{Flags: []string{"--audit-log", file, "--admin-commands", "on"}})
	p := l.Proxies[0]
	c := lab.Dial(t, p.Addr)
	token := c.LockSession("job\n\"x\"", "10s")
	c.WantDo(lab.Null2, "LOCK", "job\n\"x\"", "10s", "OWNER", "me")
	c.Do("LOCKPROXY", "RELEASE", "job\n\"x\"")
	c.WantDo(":0\r\n", "UNLOCK", "job\n\"x\"", token)
	c.Do("PING")
	c.Do("LOCKINFO", "job")
	lines := func() (found []string, text string) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var e struct{ Command, Key, Outcome, Client, Owner string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Errorf("line %q: %v", line, err)
			}
			if e.Key == "warm-up" {
				continue
			}
			if !strings.HasPrefix(e.Client, "127.0.0.1:") {
				t.Errorf("line %q: got no client", line)
			}
			found = append(found, fmt.Sprintf("%s %q %s %s", e.Command, e.Key, e.Outcome, e.Owner))
		}
		return found, string(b)
	}
	want := []string{`lock "job\n\"x\"" granted `, `lock "job\n\"x\"" taken me`, `release "job\n\"x\"" released `,
		`unlock "job\n\"x\"" not_held `}
	var got []string
	var text string
	lab.WaitFor(t, "the lines, which follow the replies", lab.Patience, func() bool {
		got, text = lines()
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(text, token[17:]) {
		t.Error("got the token in the audit file")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, want 0600", info.Mode())
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "a new file", lab.Patience, func() bool { _, err := os.Stat(file); return err == nil })
	c.Lock("next", "1s")
	lab.WaitFor(t, "a line", lab.Patience, func() bool { got, _ = lines(); return len(got) > 0 })
	if !slices.Equal(got, []string{`lock "next" granted `}) {
		t.Errorf("new file: got %q", got)
	}
}

// Clients that are not logged in cannot fill the audit log: their refusals are counted, up to the
// proxy's end. Refusals of others have a line each.
func TestRefusedStrangersCannotFillAuditLog(t *testing.T) {
	t.Parallel()
	guests := lab.StartRedis(t, "--user", "admin", "on", ">secret", "~*", "&*", "+@all")
	guests.Must(t, "ACL", "SETUSER", "default", "-@all", "+multi", "+acl|whoami")
	for name, c := range map[string]struct {
		upstream *lab.Redis
		login    []string
		mayQueue bool // strangers may send MULTI
	}{
		"password": {lab.StartRedis(t, "--requirepass", "secret"), []string{"AUTH", "secret"}, false},
		"guests":   {guests, []string{"AUTH", "admin", "secret"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "audit.log")
			p := lab.StartProxy(t, "--upstream", c.upstream.Addr, "--masters", lab.StartMasters(t, 1)[0].Addr,
				"--restart-guard", "off",
				"--admin-commands", "on", "--audit-log", file)
			member := lab.Dial(t, p.Addr)
			member.WantDo("+OK\r\n", c.login...)
			lab.WaitFor(t, "first lock", lab.Patience, func() bool {
				return lab.TokenOf(member.Do("LOCK", "warm-up", "1s")) != ""
			})

			stranger := lab.Dial(t, p.Addr)
			token := "0000000000000001:" + strings.Repeat("0", 40)
			sent := sendRefused(stranger, lab.Encode("LOCK", "job", "5s"), lab.Encode("LOCK", "job"),
				lab.Encode("UNLOCK", "job", token),
				lab.Encode("LOCKPROXY", "RELEASE", "job"))
			if c.mayQueue {
				stranger.WantDo("+OK\r\n", "MULTI")
				sent += sendRefused(stranger, lab.Encode("LOCK", "job", "5s"))
			}
			member.Do("UNLOCK", "mine-1", token)
			member.Do("LOCKPROXY", "RELEASE", "mine-2")
			var got audited
			lab.WaitFor(t, "the refusals", lab.Patience, func() bool {
				got = readAudit(t, file)
				return got.refusals >= sent && len(got.members) == 2
			})
			if got.refusals != sent || got.lines > sent/20 {
				t.Errorf("got %d refusals in %d lines, want %d in at most %d", got.refusals, got.lines, sent, sent/20)
			}
			stranger.Do("LOCK", "job", "5s")
			p.Signal(syscall.SIGTERM)
			<-p.Done
			if got := readAudit(t, file); got.refusals != sent+1 {
				t.Errorf("got %d refusals at the end, want %d", got.refusals, sent+1)
			}
		})
	}
}

// sendRefused sends commands 300 times over, which must all be refused, and returns their number.
func sendRefused(c *lab.Client, commands ...string) (sent int) {
	c.T.Helper()
	const rounds = 300
	c.Send(strings.Repeat(strings.Join(commands, ""), rounds))
	for range rounds * len(commands) {
		if got := c.Frame(); !strings.HasPrefix(got, "-") {
			c.T.Fatalf("%q: got %q, want an error", commands, got)
		}
	}
	return rounds * len(commands)
}

// audited is the content of an audit log.
type audited struct {
	refusals, lines int      // of strangers
	members         []string // keys of other lines
}

// readAudit reads an audit log.
func readAudit(t *testing.T, file string) (a audited) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Key                 string
			Refusals, Addresses int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		switch {
		case e.Key == "warm-up":
			continue
		case strings.HasPrefix(e.Key, "mine"):
			a.members = append(a.members, e.Key)
			continue
		}
		a.refusals, a.lines = a.refusals+max(e.Refusals, 1), a.lines+1
		if e.Refusals > 0 && e.Addresses != 1 {
			t.Errorf("line %q: got %d addresses, want 1", line, e.Addresses)
		}
	}
	return a
}
