package docs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// shell makes redis-cli print as it does on a terminal, but for what $( ) takes. lockproxy's
// tools find the proxy where the page has it by default, and masters of a busy machine have half
// a second.
const shell = `set -u
export LOCKPROXY_MASTER_TIMEOUT=500ms
export LOCKPROXY_ADDR=127.0.0.1:6380
redis-cli() { if [ -f /dev/stdout ]; then command redis-cli --no-raw "$@"; else command redis-cli "$@"; fi; }
`

// TestTutorial does what docs/tutorial.md says, line for line, with other ports and another
// folder.
func TestTutorial(t *testing.T) {
	lab.Tool(t, "redis-server")
	dir := filepath.Join(t.TempDir(), "tutorial")
	swaps := []string{"~/lockproxy-tutorial", dir}
	for _, port := range []string{"6380", "7000", "7001", "7002", "7003", "7004", "7005"} {
		swaps = append(swaps, port, portOf(lab.FreeAddr(t)))
	}
	t.Cleanup(func() { endServers(t, dir) })
	play(t, blocks(t, "docs/tutorial.md"), swaps)
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("the tutorial leaves its folder behind")
	}
}

// TestReadmeSession pastes the session of the README, before the servers in memory.
func TestReadmeSession(t *testing.T) {
	p := lab.StartProxy(t, "--embedded")
	p.WaitVoting(t)
	all := blocks(t, "README.md")
	for i, b := range all {
		if b.kind == "sh" && strings.Contains(strings.Join(b.text, "\n"), "redis-cli") {
			play(t, all[i:i+2], []string{"6380", portOf(p.Addr)})
			return
		}
	}
	t.Error("the README has no session")
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// play runs the sh blocks of a page in one shell, and compares what each prints with the text
// block behind it. swaps are pairs: what the page says, and what takes its place.
func play(t *testing.T, page []block, swaps []string) {
	t.Helper()
	bash := lab.Tool(t, "bash")
	lab.Tool(t, "redis-cli")
	there := strings.NewReplacer(swaps...)
	var script strings.Builder
	script.WriteString(there.Replace(shell))
	for i, b := range page {
		if b.kind == "sh" {
			fmt.Fprintf(&script, "%s\necho '== end of %d'\n", there.Replace(strings.Join(b.text, "\n")), i)
		}
	}
	output := run(t, bash, script.String())
	known := newTokens()
	for i, b := range page {
		if b.kind != "sh" {
			continue
		}
		printed, rest, ended := strings.Cut(output, fmt.Sprintf("== end of %d\n", i))
		if output = rest; !ended {
			t.Fatalf("the block at line %d did not end; it printed\n%s", b.line, printed)
		}
		var want []string
		if i+1 < len(page) && page[i+1].kind == "text" {
			want = page[i+1].text
		}
		got := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
		if printed == "" {
			got = nil
		}
		if len(got) != len(want) {
			t.Errorf("the block at line %d printed\n%s\nthe page says\n%s", b.line, printed, strings.Join(want, "\n"))
			continue
		}
		for n := range want {
			if !known.matches(there.Replace(want[n]), got[n]) {
				t.Errorf("the block at line %d printed\n%s\nthe page says\n%s", b.line, got[n], want[n])
			}
		}
	}
}

// run runs a script in the top folder of the project and returns what it printed, errors included.
func run(t *testing.T, bash, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "output")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := exec.CommandContext(t.Context(), bash, "-c", script)
	c.Dir, c.Stdout, c.Stderr = root, out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	timer := time.AfterFunc(4*time.Minute, func() { _ = c.Cancel() })
	defer timer.Stop()
	if err := c.Run(); err != nil {
		t.Errorf("the shell: %v", err)
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it may have left in the background
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// endServers kills the servers of the tutorial that a failure has left behind.
func endServers(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "redis-*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		pid, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && err2 == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
