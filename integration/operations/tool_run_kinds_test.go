package operations

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Of ten runs that start within 90 ms, exactly one runs its command, which ends before the last
// of them asks.
func TestRunHoldRunsOnceInAnInterval(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	const machines, hold = 10, 3 * time.Second
	for round := range lab.Long(2, 20) {
		flags := fmt.Sprintf("--quiet --conflict-exit-code 0 --addr %s --key job-%d --hold %v",
			c.Addr, round, hold)
		start := time.Now()
		var all []*lab.Process
		for i := range machines {
			lab.Pass(t, time.Until(start.Add(time.Duration(i)*10*time.Millisecond)))
			all = append(all, launchRun(t, flags, "echo", "ran"))
		}
		var ran strings.Builder
		for _, p := range all {
			<-p.Done
			ran.WriteString(p.Log.String())
		}
		if took := time.Since(start); took >= hold {
			t.Logf("round %d took %v, too long for a verdict", round, took)
			continue
		}
		for _, p := range all {
			lab.WantExit(t, p, 0)
		}
		if ran.String() != "ran\n" {
			t.Fatalf("round %d: got %q, want one line", round, ran.String())
		}
	}
}

// After a command, even a failed one, the lock stays closed until the time has passed, and other
// runs say so.
func TestRunHoldKeepsLockClosed(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	const hold = 4 * time.Second
	flags := "--key job --owner web1 --addr " + c.Addr
	start := time.Now()
	finishRun(t, 7, flags+" --hold 4s", "sh", "-c", "exit 7")
	next := launchRun(t, flags, "true")
	<-next.Done
	closed := regexp.MustCompile(`job is kept closed for another [0-9.]+s: web1 held it last`)
	if got, code := next.Log.String(), next.Cmd.ProcessState.ExitCode(); time.Since(start) < hold &&
		(code != 75 || !closed.MatchString(got)) {
		t.Errorf("next run: got %q and exit code %d, want %s and 75", got, code, closed)
	}
	finishRun(t, 0, flags+" --wait 1m", "true")
	if took := time.Since(start); took < hold {
		t.Errorf("the lock was free after %v, want at least %v", took, hold)
	}
	got := finishRun(t, 64, flags+" --hold 2m", "true")
	if want := "--hold 120s is more than the proxy's max-ttl, 60s"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// holders starts a run for each list of flags, and returns them once their commands have started.
func holders(t *testing.T, c *lab.Cluster, folder string, flags ...string) (all []*lab.Process) {
	t.Helper()
	script := `echo "slot ${LOCKPROXY_SLOT-none} begun"
while [ ! -e "$0/end" ]; do sleep 0.1; done`
	for _, text := range flags {
		flags := "--owner host --addr " + c.Addr + " " + text
		all = append(all, launchRun(t, flags, "sh", "-c", script, folder))
	}
	for _, p := range all {
		waitWritten(t, p, "begun")
	}
	return all
}

// Readers run at the same time; a writer does not.
func TestRunSharedExcludesWriters(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	folder := t.TempDir()
	readers := holders(t, c, folder, "--key k --shared", "--key k --shared --ttl 6s")
	lab.Pass(t, 7*time.Second) // longer than the second's ttl, which must thus be extended
	alone := "--key k --addr " + c.Addr
	if got := finishRun(t, 75, alone, "true"); !strings.Contains(got, "host and 1 more hold it") {
		t.Errorf("a writer: got %q, want the holders", got)
	}
	writeEnd(t, folder)
	for _, p := range readers {
		lab.WantExit(t, p, 0)
	}
	finishRun(t, 0, alone, "true")
}

// The limit of runs holds, each has a slot of its own, and a freed slot is used again.
func TestRunLimitGivesSlots(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	folder := t.TempDir()
	const limited = "--key k --limit 2"
	workers := holders(t, c, folder, limited, limited)
	slots := workers[0].Log.String() + workers[1].Log.String()
	if slots != "slot 0 begun\nslot 1 begun\n" && slots != "slot 1 begun\nslot 0 begun\n" {
		t.Errorf("got slots %q", slots)
	}
	finishRun(t, 75, limited+" --addr "+c.Addr, "true")
	writeEnd(t, folder)
	for _, p := range workers {
		lab.WantExit(t, p, 0)
	}
	got := finishRun(t, 0, limited+" --addr "+c.Addr, "sh", "-c", "echo $LOCKPROXY_SLOT")
	if got != "0\n" && got != "1\n" {
		t.Errorf("next run: got slot %q", got)
	}
}

// A run locks all its keys or none, also over a move to another proxy.
func TestRunLocksSeveralKeys(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	folder := t.TempDir()
	p := holders(t, c, folder, "--key a --key b --key c --ttl 9s")[0]
	c.Restart(t)
	waitWritten(t, p, "a and 2 more is kept over "+c.Addr)
	for _, key := range []string{"a", "b", "c"} {
		finishRun(t, 75, "--key "+key+" --addr "+c.Addr, "true")
	}
	finishRun(t, 75, "--key d --key c --addr "+c.Addr, "true")
	finishRun(t, 0, "--key d --addr "+c.Addr, "true")
	writeEnd(t, folder)
	lab.WantExit(t, p, 0)
	finishRun(t, 0, "--key c --key b --key a --addr "+c.Addr, "true")
}
