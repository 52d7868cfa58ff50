package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/lab"
)

// No password given by file, environment or flag, right or wrong, appears anywhere: not in the
// log at level debug, nor in errors, INFO, the list of masters, --check, or, except for the flag,
// on the command line.
func TestNoPasswordShown(t *testing.T) {
	t.Parallel()
	const canary = "cAnArY-%s-hush"
	secret := func(of string) string { return fmt.Sprintf(canary, of) }
	dir := t.TempDir()
	servers := []*lab.Redis{
		lab.StartRedis(t, "--requirepass", secret("upstream")), lab.StartRedis(t, "--requirepass", secret("masters")),
		lab.StartRedis(t, "--user", "locks", "on", ">"+secret("masters"), "~*", "&*", "+@all"),
		lab.StartRedis(t, "--requirepass", "other"),
	}
	config := filepath.Join(dir, "lockproxy.yaml")
	text := fmt.Sprintf("upstream: %s\nupstream-password-file: %s\nmasters: [\"%s\", \"redis://locks:%s@%s\", \"%s\"]\nmasters-password-file: %s\n",
		servers[0].Addr, secretFile(t, dir, secret("upstream")), servers[1].Addr, secret("masters"), servers[2].Addr,
		servers[3].Addr,
		secretFile(t, dir, secret("masters")))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := lab.StartProxy(t, "--config", config, "--log-level", "debug", "--restart-guard", "off", "--admin-commands", "on")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	var seen strings.Builder
	for _, args := range [][]string{{"LOCKPROXY", "INFO"}, {"LOCKPROXY", "MASTERS"}, {"LOCKPROXY", "HELP"},
		{"LOCKPROXY", "LOCKS", "0"}, {"LOCKPROXY", "ADMIT", "x"},
		{"LOCK", "job", "60s"}, {"LOCKINFO", "job"}, {"AUTH", secret("client")},
		{"HELLO", "3", "AUTH", "x", secret("client")}} {
		seen.WriteString(host.Do(args...))
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	seen.Write(cmdline)
	servers[0].Do(t, "AUTH", "x")
	servers[2].Kill()
	servers[1].Kill()
	seen.WriteString(host.Do("LOCK", "other", "60s"))
	servers[0].Kill()
	seen.WriteString(lab.Dial(t, p.Addr).Do("GET", "a"))
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "reload", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), "certificates and passwords reloaded")
	})
	p.Stop(t)
	seen.WriteString(p.Log.String())

	seen.WriteString(runsWithPasswords(t, config, secret("flag"), servers[3].Addr))
	if before, after, found := strings.Cut(seen.String(), "cAnArY"); found {
		t.Fatalf("got a password: %s...%.200s", before[max(0, len(before)-200):], after)
	}
	// the text that was searched is complete
	for _, want := range []string{"votes", "upstream", "the settings are valid"} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("the searched text has no %q:\n%s", want, seen.String())
		}
	}
}

// runsWithPasswords runs lockproxy with passwords in a file or a flag, and returns the output.
func runsWithPasswords(t *testing.T, config, password, upstream string) string {
	t.Helper()
	var seen strings.Builder
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--check", "--config", config}, {"--help"}, {"--check", "--upstream", "redis://:" + password + "@h:1", "--masters",
			"a:1,b:1,c:1"},
		{"--check", "--upstream", "redis://:" + password + "@h:x"}, {"--check", "--upstream",
			"redis+sentinel://:" + password + "@h:1/m m"},
		{"--listen", "0.0.0.0:0", "--upstream", "redis://:" + password + "@" + upstream},
	} {
		run := lab.Launch(t, "lockproxy", path, args...)
		lab.WaitFor(t, "end", lab.Patience, func() bool { return !run.Running() })
		seen.WriteString(run.Log.String())
		if strings.Contains(args[len(args)-1], "b:1") && !strings.Contains(run.Log.String(),
			"upstream: the password is on the command line") {
			t.Errorf("a password by flag: got no warning in %s", run.Log)
		}
	}
	return seen.String()
}
