package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNoPasswordShown: the passwords that lockproxy was given, by file, environment or flag, right or wrong, show up nowhere: not in the log at its
// most talkative, nor in errors, INFO, the list of masters, --check, or, but for the flag, on the command line.
func TestNoPasswordShown(t *testing.T) {
	t.Parallel()
	const canary = "cAnArY-%s-hush"
	secret := func(of string) string { return fmt.Sprintf(canary, of) }
	dir := t.TempDir()
	servers := []*redisServer{
		startRedis(t, "--requirepass", secret("upstream")), startRedis(t, "--requirepass", secret("masters")),
		startRedis(t, "--user", "locks", "on", ">"+secret("masters"), "~*", "&*", "+@all"), startRedis(t, "--requirepass", "other"),
	}
	config := filepath.Join(dir, "lockproxy.yaml")
	text := fmt.Sprintf("upstream: %s\nupstream-password-file: %s\nmasters: [\"%s\", \"redis://locks:%s@%s\", \"%s\"]\nmasters-password-file: %s\n",
		servers[0].addr, secretFile(t, dir, secret("upstream")), servers[1].addr, secret("masters"), servers[2].addr, servers[3].addr,
		secretFile(t, dir, secret("masters")))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, "--config", config, "--log-level", "debug", "--restart-guard", "off", "--admin-commands", "on")
	p.waitVoting(t)
	host := dial(t, p.addr)
	var seen strings.Builder
	for _, args := range [][]string{{"LOCKPROXY", "INFO"}, {"LOCKPROXY", "MASTERS"}, {"LOCKPROXY", "HELP"}, {"LOCKPROXY", "LOCKS", "0"}, {"LOCKPROXY", "ADMIT", "x"},
		{"LOCK", "job", "60s"}, {"LOCKINFO", "job"}, {"AUTH", secret("client")}, {"HELLO", "3", "AUTH", "x", secret("client")}} {
		seen.WriteString(host.do(args...))
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	seen.Write(cmdline)
	servers[0].do(t, "AUTH", "x")
	servers[2].kill()
	servers[1].kill()
	seen.WriteString(host.do("LOCK", "other", "60s"))
	servers[0].kill()
	seen.WriteString(dial(t, p.addr).do("GET", "a"))
	p.signal(syscall.SIGHUP)
	waitFor(t, "reload", patience, func() bool { return strings.Contains(p.log.String(), "certificates and passwords reloaded") })
	p.stop(t)
	seen.WriteString(p.log.String())

	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--check", "--config", config}, {"--help"}, {"--check", "--upstream", "redis://:" + secret("flag") + "@h:1", "--masters", "a:1,b:1,c:1"},
		{"--check", "--upstream", "redis://:" + secret("flag") + "@h:x"}, {"--check", "--upstream", "redis+sentinel://:" + secret("flag") + "@h:1/m m"},
		{"--listen", "0.0.0.0:0", "--upstream", "redis://:" + secret("flag") + "@" + servers[3].addr},
	} {
		run := launch(t, "lockproxy", path, args...)
		waitFor(t, "end", patience, func() bool { return !run.running() })
		seen.WriteString(run.log.String())
		if strings.Contains(args[len(args)-1], "b:1") && !strings.Contains(run.log.String(), "upstream: the password stands on the command line") {
			t.Errorf("a password by flag earns no warning: %s", run.log)
		}
	}
	if before, after, found := strings.Cut(seen.String(), "cAnArY"); found {
		t.Fatalf("a password: %s...%.200s", before[max(0, len(before)-200):], after)
	}
	for _, want := range []string{"votes", "upstream", "the settings are valid"} { // what was searched is there at all
		if !strings.Contains(seen.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, seen.String())
		}
	}
}
