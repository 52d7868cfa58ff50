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

// What operators get told by the log and the audit log.

// TestLogLevelChanges: by HTTP and by SIGHUP, which also says what else in the file would need a
// restart; a broken file changes nothing.
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
		t.Error("the level is not info at the start")
	}
	if code, text := o.Get("PUT", "/log-level", "", `{"level":"debug"}`); code != 200 || !level("debug")() {
		t.Errorf("PUT: %d %q", code, text)
	}
	for _, wrong := range []string{`{"level":"loud"}`, `{"level":"fatal"}`, `{"level":""}`, "{}", "debug"} { // no setting has these
		if code, _ := o.Get("PUT", "/log-level", "", wrong); code != 400 || !level("debug")() {
			t.Errorf("%s: %d", wrong, code)
		}
	}
	if code, _ := o.Get("PUT", "/log-level", "", `{"level":"error"}`); code != 200 || !level("error")() {
		t.Errorf("error: %d", code)
	}
	if !p.Says(`"msg":"log-level put","from":"debug","to":"error","client":"127.0.0.1:`) {
		t.Error("the log does not say why it is silent from here on")
	}
	if code, _ := o.Get("PUT", "/log-level", "", `{"level":"debug"}`); code != 200 {
		t.Errorf("back to debug: %d", code)
	}
	write("log-level: error\nmax-waiters: none\n")
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "word of the broken file", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), "nothing was reloaded, the settings are not good")
	})
	if !level("debug")() || !strings.Contains(p.Log.String(), "max-waiters (config ") {
		t.Error("a broken file changed the level, or what is wrong in it is not named")
	}
	write("log-level: warn\nmax-ttl: 30s\n")
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the level of the file", lab.Patience, level("warn"))
	lab.WaitFor(t, "word of what needs a restart", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), `changed settings need a restart","settings":["max-ttl \"60s\" becomes \"30s\""]`)
	})
}

// TestNobodyReadsTheLog: a proxy whose log goes into a pipe that is closed goes on.
func TestNobodyReadsTheLog(t *testing.T) {
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
		p.Process.Signal(syscall.SIGHUP) // which writes to the log
		lab.Pass(t, 20*time.Millisecond)
		c.WantDo("+PONG\r\n", "PING")
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestAuditLog: who locked and unlocked what stands in the file, line by line, and no token; after
// SIGHUP in a new file.
func TestAuditLog(t *testing.T) {
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
				t.Errorf("%q: %v", line, err)
			}
			if e.Key == "warm-up" {
				continue
			}
			if !strings.HasPrefix(e.Client, "127.0.0.1:") {
				t.Errorf("no client in %q", line)
			}
			found = append(found, fmt.Sprintf("%s %q %s %s", e.Command, e.Key, e.Outcome, e.Owner))
		}
		return found, string(b)
	}
	want := []string{`lock "job\n\"x\"" granted `, `lock "job\n\"x\"" taken me`, `release "job\n\"x\"" released `, `unlock "job\n\"x\"" not_held `}
	var got []string
	var text string
	lab.WaitFor(t, "the lines, written behind the replies", lab.Patience, func() bool {
		got, text = lines()
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(text, token[17:]) {
		t.Error("the token is in it")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v", info.Mode())
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "a new file", lab.Patience, func() bool { _, err := os.Stat(file); return err == nil })
	c.Lock("next", "1s")
	lab.WaitFor(t, "a line", lab.Patience, func() bool { got, _ = lines(); return len(got) > 0 })
	if !slices.Equal(got, []string{`lock "next" granted `}) {
		t.Errorf("the new file has %q", got)
	}
}

// TestAuditWithoutLogin: clients that have not logged in do not fill the audit log, whatever they
// send. Their refusals are counted, also at the end; those of others have a line each.
func TestAuditWithoutLogin(t *testing.T) {
	t.Parallel()
	guests := lab.StartRedis(t, "--user", "admin", "on", ">secret", "~*", "&*", "+@all")
	guests.Must(t, "ACL", "SETUSER", "default", "-@all", "+multi", "+acl|whoami")
	for name, upstream := range map[string]*lab.Redis{"password": lab.StartRedis(t, "--requirepass", "secret"), "guests": guests} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "audit.log")
			masters := lab.StartMasters(t, 1)
			p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", masters[0].Addr, "--restart-guard", "off",
				"--admin-commands", "on", "--audit-log", file)
			member := lab.Dial(t, p.Addr)
			if name == "guests" {
				member.WantDo("+OK\r\n", "AUTH", "admin", "secret")
			} else {
				member.WantDo("+OK\r\n", "AUTH", "secret")
			}
			lab.WaitFor(t, "first lock", lab.Patience, func() bool { return lab.TokenOf(member.Do("LOCK", "warm-up", "20ms")) != "" })
			// counted returns the refusals and how many lines they take, and the keys of other lines.
			counted := func() (refusals, lines int, others []string) {
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
						t.Fatalf("%q: %v", line, err)
					}
					switch {
					case e.Key == "warm-up":
						continue
					case strings.HasPrefix(e.Key, "mine"):
						others = append(others, e.Key)
						continue
					}
					refusals, lines = refusals+max(e.Refusals, 1), lines+1
					if e.Refusals > 0 && e.Addresses != 1 {
						t.Errorf("%d addresses in %q", e.Addresses, line)
					}
				}
				return refusals, lines, others
			}
			stranger := lab.Dial(t, p.Addr)
			const rounds = 300
			sent := 0
			flood := func(commands ...string) {
				stranger.Send(strings.Repeat(strings.Join(commands, ""), rounds))
				for range rounds * len(commands) {
					if got := stranger.Frame(); !strings.HasPrefix(got, "-") {
						t.Fatalf("%q: %q", commands, got)
					}
				}
				sent += rounds * len(commands)
			}
			token := "0000000000000001:" + strings.Repeat("0", 40)
			flood(lab.Encode("LOCK", "job", "5s"), lab.Encode("LOCK", "job"), lab.Encode("UNLOCK", "job", token), lab.Encode("LOCKPROXY", "RELEASE", "job"))
			if name == "guests" {
				stranger.WantDo("+OK\r\n", "MULTI")
				flood(lab.Encode("LOCK", "job", "5s"))
			}
			member.Do("UNLOCK", "mine-1", token)
			member.Do("LOCKPROXY", "RELEASE", "mine-2")
			var refusals, lines int
			var others []string
			lab.WaitFor(t, "the refusals", lab.Patience, func() bool {
				refusals, lines, others = counted()
				return refusals >= sent && len(others) == 2
			})
			if refusals != sent || lines > sent/20 {
				t.Errorf("%d refusals are counted in %d lines, %d were sent", refusals, lines, sent)
			}
			stranger.Do("LOCK", "job", "5s")
			p.Signal(syscall.SIGTERM)
			<-p.Done
			if refusals, _, _ = counted(); refusals != sent+1 {
				t.Errorf("%d refusals are counted at the end, %d were sent", refusals, sent+1)
			}
		})
	}
}
