package operations

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// waitWritten waits until a command has written text.
func waitWritten(t testing.TB, p *lab.Process, text string) {
	t.Helper()
	lab.WaitFor(t, "the command's "+text, lab.Patience, func() bool {
		if !p.Running() {
			t.Fatalf("the command has ended: %s", p.Log)
		}
		return strings.Contains(p.Log.String(), text)
	})
}

// launchRun starts lockproxy run with some flags and a command.
func launchRun(t testing.TB, flags string, command ...string) *lab.Process {
	t.Helper()
	args := append([]string{"run"}, strings.Fields(flags)...)
	return lab.LaunchTool(t, append(append(args, "--"), command...)...)
}

// finishRun runs launchRun to the end, and returns the output of lockproxy run and the command.
func finishRun(t testing.TB, code int, flags string, command ...string) string {
	t.Helper()
	p := launchRun(t, flags, command...)
	lab.WantExit(t, p, code)
	return p.Log.String()
}

// stubborn is a command that prints its process id and begun, says when it gets TERM, and goes on.
const stubborn = `trap 'echo got TERM' TERM; echo pid $$ begun; while :; do sleep 1 & wait $!; done`

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	c, protected := lab.StartCluster(t, 3), lab.StartProtected(t)
	host := lab.Dial(t, c.Addr)
	host.Lock("taken", "60s")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		code int
		args []string
		says string
	}{
		"its own":  {7, []string{"--addr", c.Addr, "--key", "a", "--", "sh", "-c", "exit 7"}, ""},
		"a signal": {128 + 15, []string{"--addr", c.Addr, "--key", "b", "--", "sh", "-c", "kill $$"}, ""},
		"environment": {0, []string{"--addr", c.Addr, "--key", "c", "--", "sh", "-c",
			`test "$LOCKPROXY_KEY" = c && test $LOCKPROXY_FENCE -gt 0 && echo "${#LOCKPROXY_TOKEN} long"`}, "57 long"},
		"taken": {75, []string{"--addr", c.Addr, "--key", "taken", "--", "true"}, "taken is taken"},
		"taken for long": {75, []string{"--addr", c.Addr, "--key", "taken", "--wait", "600ms", "--", "true"},
			"taken is taken"},
		"no key":          {64, []string{"--addr", c.Addr, "--", "true"}, "needs --key"},
		"no command":      {64, []string{"--addr", c.Addr, "--key", "d"}, "needs --key and a command"},
		"ttl too long":    {64, []string{"--addr", c.Addr, "--key", "d", "--ttl", "10h", "--", "true"}, "exceeds max-ttl"},
		"wrong duration":  {64, []string{"--ttl", "x", "--", "true"}, "is not a time"},
		"wrong address":   {64, []string{"--addr", "x@y", "--key", "d", "--", "true"}, "has a name before"},
		"nobody there":    {69, []string{"--addr", "127.0.0.1:1", "--key", "d", "--", "true"}, "connection refused"},
		"the second of 2": {0, []string{"--addr", "127.0.0.1:1," + c.Addr, "--key", "e", "--", "true"}, ""},
		"no password":     {77, []string{"--addr", protected.Addr, "--key", "f", "--", "true"}, "NOAUTH"},
		"wrong password": {77, []string{"--addr", "redis://:wrong@" + protected.Addr, "--key", "f", "--", "true"},
			"WRONGPASS"},
		"a password": {0, []string{"--addr", protected.Addr, "--password-file", secret, "--key", "f", "--", "true"},
			""},
		"no such command": {127, []string{"--addr", c.Addr, "--key", "g", "--", "/nonsense"}, "no such command"},
		"no program":      {126, []string{"--addr", c.Addr, "--key", "g", "--", plain}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lab.FinishTool(t, test.code, append([]string{"run"}, test.args...)...); !strings.Contains(got,
				test.says) {
				t.Errorf("got %q, want %q", got, test.says)
			}
		})
	}
	for _, key := range []string{"a", "b", "c", "e", "g"} {
		host.Unlock(key, host.Lock(key, "60s")) // free at once
	}
}

// Two runs that start at once run their commands one after the other.
func TestRunsTakeTurns(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	notes := filepath.Join(t.TempDir(), "notes")
	script := `echo begin >>"` + notes + `"; sleep 0.3; echo end >>"` + notes + `"`
	var all []*lab.Process
	for range 3 {
		all = append(all, lab.LaunchTool(t, "run", "--addr", c.Addr, "--key", "job", "--ttl", "30s", "--wait", "20s", "--",
			"sh", "-c", script))
	}
	for _, p := range all {
		lab.WantExit(t, p, 0)
	}
	if got, err := os.ReadFile(notes); string(got) != strings.Repeat("begin\nend\n", 3) {
		t.Errorf("%v, got this order of commands:\n%s", err, got)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// The command gets the signals, and the run keeps the lock until it has ended.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	p := lab.LaunchTool(t, "run", "--addr", c.Addr, "--key", "job", "--wait", "10s", "--", "sh", "-c",
		`trap 'echo hup' HUP; `+stubborn)
	waitWritten(t, p, "begun")
	p.Signal(syscall.SIGHUP)
	waitWritten(t, p, "hup")
	p.Signal(syscall.SIGTERM)
	waitWritten(t, p, "got TERM")
	p.Signal(syscall.SIGTERM)
	host := lab.Dial(t, c.Addr)
	if token, reply, _ := host.TryLock("job", "60s"); token != "" {
		t.Errorf("LOCK while the command runs: got %q, want null", reply)
	}
	p.Signal(syscall.SIGINT) // it traps only TERM
	lab.WantExit(t, p, 128+int(syscall.SIGINT))
	host.Unlock("job", host.Lock("job", "60s"))
}

// The command ignores a signal that lockproxy run was started to ignore: nohup does that.
func TestRunPassesIgnoredSignals(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	path, err := lab.Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := lab.Launch(t, "lockproxy-run", "sh", "-c", `trap '' HUP INT; exec "$0" "$@"`, path, "run", "--addr", c.Addr,
		"--key", "job", "--", "sh", "-c", stubborn)
	waitWritten(t, p, "begun")
	p.Signal(syscall.SIGHUP)
	p.Signal(syscall.SIGINT)
	p.Signal(syscall.SIGTERM)
	waitWritten(t, p, "got TERM") // and the command has not ended
	p.Signal(syscall.SIGUSR1)
	lab.WantExit(t, p, 128+int(syscall.SIGUSR1))
}

// If the only proxy of a run is killed or hangs, the run stops its command. A command that ignores
// TERM is killed before the lock can run out, even if that cuts its grace short.
func TestRunStopsCommandBeforeItsLockRunsOut(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*lab.Proxy){
		"killed": func(p *lab.Proxy) { p.Kill() },
		"hung":   func(p *lab.Proxy) { p.Pause(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := lab.StartCluster(t, 3)
			other := c.Another(t)
			// The grace of 3s begins when a third of the ttl is left: in full it would outlast the lock.
			p := lab.LaunchTool(t, "run", "--addr", c.Addr, "--key", "job", "--ttl", "6s", "--wait", "10s", "--grace", "3s",
				"--", "sh", "-c", stubborn)
			waitWritten(t, p, "begun")
			starvation, start := lab.WatchStarvation(t, p), time.Now()
			fault(c.Proxy)
			desk := lab.Dial(t, other.Addr)
			waitWritten(t, p, "got TERM")
			pid := regexp.MustCompile(`pid (\d+) begun`).FindStringSubmatch(p.Log.String())[1]
			next := desk.Later("LOCK", "job", "60s", "WAIT", "0")
			lab.WantToken(t, "LOCK after the run's lock", next)
			// It gets KILL at the end of the validity: a hundredth of the ttl before the masters free the
			// lock.
			running, starved := !hasEnded(pid) && !isKilled(pid), starvation.Longest(start, time.Now())
			if running && starved < 50*time.Millisecond {
				t.Errorf("the command was running when its lock had run out; run waited %v for a processor", starved)
			}
			lab.WantExit(t, p, 74)
			if got := p.Log.String(); !strings.Contains(got, "lock job is lost") {
				t.Errorf("got %q, want it to say that the lock is lost", got)
			}
		})
	}
}

// An operator releases the lock; the next renewal notices, and the run stops the command.
func TestRunStopsCommandWhenLockIsReleased(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	p := lab.LaunchTool(t, "run", "--addr", c.Addr, "--key", "job", "--ttl", "9s", "--wait", "10s", "--grace", "10s",
		"--", "sh", "-c", `trap 'echo got TERM; exit 0' TERM; sleep 60 & echo child $! begun; wait`)
	waitWritten(t, p, "begun")
	child := strings.Fields(p.Log.String())[1]
	lab.Dial(t, c.Addr).WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	lab.WantExit(t, p, 74) // although the command itself succeeded
	if got := p.Log.String(); !strings.Contains(got, "got TERM") {
		t.Errorf("got output %q", got)
	}
	waitGone(t, child)
}

// waitGone waits for the end of a process that a command started.
func waitGone(t testing.TB, pid string) {
	t.Helper()
	lab.WaitFor(t, "the end of process "+pid, lab.Patience, func() bool { return hasEnded(pid) })
}

// hasEnded reports whether a process has ended, perhaps without its parent's notice so far.
func hasEnded(pid string) bool {
	state, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(state), ") Z ")
}

// isKilled reports whether a process has been sent KILL: it does nothing more, though it may wait
// for a processor to end.
func isKilled(pid string) bool {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return false
	}
	for _, pending := range regexp.MustCompile(`(?m)^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)$`).FindAllStringSubmatch(string(status), -1) {
		if set, err := strconv.ParseUint(pending[1], 16, 64); err == nil && set&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// The kill of lockproxy run releases the lock at once, so the command must not continue.
func TestRunDiesWithItsCommand(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	p := lab.LaunchTool(t, "run", "--addr", c.Addr, "--key", "job", "--wait", "10s", "--", "sh", "-c",
		"echo pid $$ begun; while :; do sleep 0.1; done")
	waitWritten(t, p, "begun")
	pid := strings.Fields(p.Log.String())[1]
	_ = syscall.Kill(p.Cmd.Process.Pid, syscall.SIGKILL)
	waitGone(t, pid)
	host := lab.Dial(t, c.Addr)
	host.WantFree("job")
}
