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

// shell makes redis-cli print as on a terminal, except inside $( ). lockproxy's tools find the
// proxy at the default address of the page, and masters get a second on a busy machine.
const shell = `set -u
export LOCKPROXY_MASTER_TIMEOUT=1s
export LOCKPROXY_ADDR=127.0.0.1:6380
redis-cli() { if [ -f /dev/stdout ]; then command redis-cli --no-raw "$@"; else command redis-cli "$@"; fi; }
`

// The commands of docs/tutorial.md work line by line, with other ports, another folder, and a
// shorter max-ttl: a reader takes a minute, and the test does not.
func TestTutorial(t *testing.T) {
	lab.Tool(t, "redis-server")
	dir := filepath.Join(t.TempDir(), "tutorial")
	swaps := []string{"~/lockproxy-tutorial", dir, "--max-ttl 1m", "--max-ttl 10s", "LOCK report 1m", "LOCK report 10s",
		"sleep 2", "sleep 4"} // a busy machine takes longer to start servers
	for _, port := range []string{"6380", "7000", "7001", "7002", "7003", "7004", "7005"} {
		swaps = append(swaps, port, portOf(lab.FreeAddr(t)))
	}
	t.Cleanup(func() { endServers(t, dir) })
	play(t, blocks(t, "docs/tutorial.md"), swaps)
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("the tutorial does not remove its folder")
	}
}

// The session of the README works with embedded servers.
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
	t.Error("README: got no session")
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// play runs the sh blocks of a page in one shell, and compares the output of each with the text
// block after it. swaps are pairs: text of the page, and its replacement.
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
			t.Fatalf("the block at line %d did not end; got\n%s", b.line, printed)
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
			t.Errorf("the block at line %d: got\n%s\nwant\n%s", b.line, printed, strings.Join(want, "\n"))
			continue
		}
		for n := range want {
			if !known.matches(there.Replace(want[n]), got[n]) {
				t.Errorf("the block at line %d: got\n%s\nwant\n%s", b.line, got[n], want[n])
			}
		}
	}
}

// run runs a script in the top folder of the project and returns its output, errors included.
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
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // background processes of the script
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// endServers kills the tutorial's servers after a failure.
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
