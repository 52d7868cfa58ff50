package operations

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// look is the part of lockproxy status --json that the tests read.
type look struct {
	Info     map[string]string
	Upstream struct {
		OK    bool
		Error string
	}
	Majority bool `json:"majority_votes"`
	Masters  []struct{ Address, State, Reason string }
	Locks    []struct {
		Key, Owner           string
		Held, Fence, Waiting int
	}
	LocksError string `json:"locks_error"`
}

func lookAt(t *testing.T, code int, addr string, args ...string) (l look) {
	t.Helper()
	text := lab.FinishTool(t, code, append([]string{"status", "--json", "--addr", addr}, args...)...)
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return l
}

func TestStatusShowsDeployment(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	host := lab.Dial(t, c.Addr)
	host.WantToken("LOCK", "job\x1b[2J", "60s", "OWNER", "me@here")
	lab.WantHolders(t, c.Masters, "job\x1b[2J", 3)
	lab.WaitStates(t, host, lab.Patience, "voting", "voting", "voting")
	l := lookAt(t, 0, c.Addr)
	if !l.Upstream.OK || !l.Majority || len(l.Masters) != 3 || l.Masters[0].State != "voting" ||
		l.Info["connected_clients"] != "2" {
		t.Errorf("healthy deployment: got %+v", l)
	}
	if len(l.Locks) != 1 || l.Locks[0].Key != "job\x1b[2J" || l.Locks[0].Owner != "me@here" || l.Locks[0].Held != 3 ||
		l.Locks[0].Fence == 0 {
		t.Errorf("got locks %+v", l.Locks)
	}
	text := lab.FinishTool(t, 0, "status", "--addr", c.Addr)
	for _, want := range []string{"upstream  answers in", c.Masters[2].Addr + "  voting", `job\x1b[2J`, "3 of 3",
		"me@here"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("got a key with raw control characters: %q", text)
	}

	c.Masters[0].Kill()
	lab.WaitFor(t, "a master reported as down", lab.Patience, func() bool {
		return lookAt(t, 0, c.Addr).Masters[0].State == "down"
	})
	c.Masters[1].Kill()
	lab.WaitFor(t, "the loss of the majority", lab.Patience, func() bool {
		return strings.Contains(host.Do("LOCK", "other", "60s"), "NOQUORUM")
	})
	if text := lab.FinishTool(t, 1, "status", "--addr", c.Addr); !strings.Contains(text, "NONE CAN BE HAD") {
		t.Errorf("without a majority: got\n%s", text)
	}
	c.Upstream.Pause(t)
	if l := lookAt(t, 1, c.Addr); l.Upstream.OK || l.Upstream.Error != "no answer to PING in 2s" || len(l.Masters) != 3 {
		t.Errorf("with a hung upstream: got %+v", l)
	}
	c.Upstream.Resume()
	c.Upstream.Kill()
	if l := lookAt(t, 1, c.Addr); l.Upstream.OK {
		t.Error("with a dead upstream: got it reported as up")
	}
}

// status works without admin-commands, without a password, and for an unknown user.
func TestStatusWorksWithFewRights(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	addr := "redis://:secret@" + c.Addr
	if l := lookAt(t, 0, addr); !l.Upstream.OK || !strings.Contains(l.LocksError, "NOPERM") {
		t.Errorf("without admin-commands: got %+v", l)
	}
	if text := lab.FinishTool(t, 77, "status", "--addr", c.Addr); !strings.Contains(text, "NOAUTH") ||
		strings.Contains(text, "secret") {
		t.Errorf("without a password: got %s", text)
	}
	lab.FinishTool(t, 69, "status", "--addr", "127.0.0.1:1")
	lab.FinishTool(t, 64, "status", "--nonsense")
}

func TestHealthReportsStateByExitCode(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	addr := "redis://:secret@" + c.Addr
	lab.FinishTool(t, 0, "health", "--addr", c.Addr) // the request for a password proves that it is up
	lab.FinishTool(t, 77, "health", "--ready", "--addr", c.Addr)
	lab.FinishTool(t, 0, "health", "--ready", "--addr", addr)
	lab.FinishTool(t, 77, "health", "--ready", "--addr", "redis://:wrong@"+c.Addr)
	c.Masters[0].Kill()
	c.Masters[1].Kill()
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "secret")
	lab.WaitFor(t, "the loss of the majority", lab.Patience, func() bool {
		return strings.Contains(host.Do("LOCK", "a", "60s"), "NOQUORUM")
	})
	if text := lab.FinishTool(t, 1, "health", "--ready=locks", "--addr", addr); !strings.Contains(text,
		"majority of the 3 masters") {
		t.Errorf("got %s", text)
	}
	host.WantDo("+OK\r\n", "SET", "a", "b")
	lab.FinishTool(t, 0, "health", "--ready", "--addr", addr)
	lab.FinishTool(t, 0, "health", "--addr", addr)
	c.Pause(t)
	lab.FinishTool(t, 69, "health", "--addr", addr, "--timeout", "300ms")
	c.Resume()
	c.Upstream.Pause(t)
	lab.FinishTool(t, 69, "health", "--ready", "--addr", addr, "--timeout", "300ms")
	lab.FinishTool(t, 0, "health", "--addr", addr)
	c.Upstream.Resume()
	c.Upstream.Kill() // no fault of the user
	if text := lab.FinishTool(t, 69, "health", "--ready", "--addr", addr); !strings.Contains(text, "connection refused") {
		t.Errorf("got %s", text)
	}
	lab.FinishTool(t, 69, "run", "--addr", addr, "--key", "a", "--", "true")
}

// Operators can inspect the proxy through its Unix socket while the upstream is away, even if the
// proxy does not know whether the upstream wants a password, and with any password.
func TestStatusWorksWithoutUpstream(t *testing.T) {
	t.Parallel()
	masters, gone := lab.StartMasters(t, 3), lab.FreeAddr(t)
	socket := filepath.Join(t.TempDir(), "proxy.sock")
	p := lab.StartProxy(t, "--listen", "127.0.0.1:0,unix://"+socket, "--upstream", gone, "--masters",
		strings.Join(lab.Addrs(masters), ","), "--restart-guard", "off")
	const notSaid = "-NOAUTH the upstream has not said yet whether it wants a password: connection refused\r\n"
	lab.Dial(t, p.Addr).WantDo(notSaid, "LOCK", "job", "60s")
	lab.Dial(t, p.Addr).WantDo(notSaid, "LOCKPROXY", "MASTERS")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--password-file", secret}} {
		addr := append([]string{"--addr", "unix://" + socket}, more...)
		lab.WaitFor(t, "three masters that vote", lab.Patience, func() bool {
			l := lookAt(t, 0, "unix://"+socket, more...)
			return len(l.Masters) == 3 && l.Majority && !l.Upstream.OK &&
				strings.Contains(l.Upstream.Error, "connection refused") && l.LocksError == ""
		})
		lab.FinishTool(t, 0, append([]string{"health"}, addr...)...)
		if text := lab.FinishTool(t, 1, append([]string{"health", "--ready"}, addr...)...); !strings.Contains(text,
			"connection refused") {
			t.Errorf("%q: got %s", more, text)
		}
		// locks do need the password
		lab.FinishTool(t, 69, append(append([]string{"run"}, addr...), "--key", "a", "--", "true")...)
	}
	lab.FinishTool(t, 69, "status", "--addr", p.Addr) // the user does not matter
	lab.FinishTool(t, 69, "health", "--ready", "--addr", p.Addr)
	lab.FinishTool(t, 0, "health", "--addr", p.Addr)
	local, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	local.SetDeadline(time.Now().Add(lab.Patience))
	replies := bufio.NewReader(local)
	for command, want := range map[string]string{"LOCKPROXY HELP": "*", "LOCKPROXY INFO": "$",
		"LOCKPROXY MASTERS": "*3\r\n", "LOCKPROXY LOCKS 0": "*2\r\n",
		"LOCKPROXY RELEASE job": ":0\r\n", "LOCKPROXY ADMIT " + masters[0].Addr: "+OK\r\n", "LOCK job 60s": notSaid} {
		io.WriteString(local, lab.Encode(strings.Fields(command)...))
		if got, err := lab.ReadFrame(replies); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q %v, want %q", command, got, err, want)
		}
	}
}

// A proxy at max-clients is healthy, but not ready.
func TestHealthAtMaxClientsIsNotReady(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t, "--max-clients", "5")
	lab.WaitFor(t, "no more room", lab.Patience, func() bool {
		return strings.Contains(lab.Dial(t, c.Addr).Do("PING"), "max number of clients reached")
	})
	lab.FinishTool(t, 0, "health", "--addr", c.Addr)
	for _, addr := range []string{c.Addr, "redis://:secret@" + c.Addr} {
		if text := lab.FinishTool(t, 1, "health", "--ready", "--addr", addr); !strings.Contains(text,
			"max number of clients reached") {
			t.Errorf("got %s", text)
		}
	}
}

func TestBenchMeasures(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	for _, more := range [][]string{nil, {"--shared"}} {
		text := lab.FinishTool(t, 0, append([]string{"bench", "--json", "--addr", c.Addr, "--duration", "300ms", "--clients",
			"4"}, more...)...)
		var got struct {
			Pairs  int
			Rate   float64 `json:"pairs_per_second"`
			Lock   map[string]int
			Errors map[string]int
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Pairs < 1 || got.Rate <= 0 ||
			got.Lock["p50_us"] <= 0 || got.Lock["max_us"] < got.Lock["p50_us"] {
			t.Errorf("bench %q: %v in %s", more, err, text)
		}
	}
	if text := lab.FinishTool(t, 0, "bench", "--addr", c.Addr, "--duration", "100ms", "--clients",
		"1"); !strings.Contains(text, "pairs a second") {
		t.Errorf("got %s", text)
	}
	lab.FinishTool(t, 64, "bench", "--clients", "100000")
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// bash completes commands; zsh and fish, if installed, accept their scripts.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(shell string) string { return filepath.Join(dir, shell) }
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if err := os.WriteFile(path(shell), []byte(lab.FinishTool(t, 0, "completion", shell)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, words := range map[string][]string{
		"run":           {"r"},
		"status":        {"st"},
		"--max-ttl":     {"--max-t"},
		"--key":         {"run", "--k"},
		"--watch":       {"status", "--w"},
		"zsh":           {"completion", "z"},
		"--max-waiters": {"--max-ttl", "1s", "--max-w"},
		path("bash"):    {"--config", path("ba")},
		"bash zsh fish": {"completion", ""},
	} {
		got := bashCompletes(t, path("bash"), words)
		if got != want && !(words[0] == "completion" && strings.HasSuffix(got, want)) {
			t.Errorf("complete %q: got %q, want %q", words, got, want)
		}
	}
	lab.FinishTool(t, 64, "completion", "tcsh")
	for _, shell := range []string{"zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			if out, err := exec.Command(program, "-n", path(shell)).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
			if shell == "zsh" {
				wantZshWords(t, program, path("zsh"))
			}
		})
	}
}

// bashCompletes returns what bash, with this script, proposes for the last of the words.
func bashCompletes(t *testing.T, script string, words []string) string {
	t.Helper()
	line := `source "$0"; COMP_WORDS=(lockproxy "$@"); COMP_CWORD=$#; _lockproxy; echo "${COMPREPLY[*]}"`
	out, err := exec.Command("bash", append([]string{"-c", line, script}, words...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("bash: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// wantZshWords: the script for zsh gives _arguments the words from the tool's name on, because
// _arguments completes flags only at the first word.
func wantZshWords(t *testing.T, zsh, path string) {
	t.Helper()
	script := `_arguments() { print -r -- "$CURRENT $words"; print -rl -- "$@" }; words=("${@:2}"); CURRENT=$#words; source $1`
	for want, words := range map[string][]string{
		"2 run --gr\n":                          {"lockproxy", "run", "--gr"},
		"2 lockproxy --max\n":                   {"lockproxy", "--max"},
		"2 completion 1:word:(bash zsh fish)\n": {"lockproxy", "completion", "1:word:(bash zsh fish)"},
	} {
		out, err := exec.Command(zsh, append([]string{"-f", "-c", script, "zsh", path}, words...)...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) || !strings.Contains(string(out), "\n"+words[len(words)-1]) {
			t.Errorf("zsh, %q: %v, got %.100s", words, err, out)
		}
	}
}
