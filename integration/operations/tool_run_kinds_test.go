package operations

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestRunOnceInAnInterval: of ten that start within 90 ms exactly one runs its command, which ends
// before the last of them asks. Twenty times.
func TestRunOnceInAnInterval(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	const machines, rounds, hold = 10, 20, 3 * time.Second
	for round := range rounds {
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
			lab.WantExit(t, p, 0)
			ran.WriteString(p.Log.String())
		}
		switch took := time.Since(start); {
		case took >= hold:
			t.Logf("round %d took %v: the machine is too busy to tell", round, took)
		case ran.String() != "ran\n":
			t.Fatalf("round %d: they wrote %q, want one line", round, ran.String())
		}
	}
}

// TestRunHoldsTheLock: it is closed for others, who are told so, until the time is over. That holds
// after a command that failed, too.
func TestRunHoldsTheLock(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	const hold = 4 * time.Second
	flags := "--key job --owner web1 --addr " + c.Addr
	start := time.Now()
	finishRun(t, 7, flags+" --hold 4s", "sh", "-c", "exit 7")
	got := finishRun(t, 75, flags, "true")
	told := regexp.MustCompile(`job is kept closed for another [0-9.]+s: web1 held it last`)
	if time.Since(start) < hold && !told.MatchString(got) {
		t.Errorf("the next one says %q", got)
	}
	finishRun(t, 0, flags+" --wait 1m", "true")
	if took := time.Since(start); took < hold {
		t.Errorf("the lock was free after %v", took)
	}
	got = finishRun(t, 64, flags+" --hold 2m", "true")
	if want := "--hold 120s is more than the proxy's max-ttl, 60s"; !strings.Contains(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// holders starts a run for each list of flags, and returns them when their commands have begun.
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

// TestRunShares: readers run at the same time, and nobody else does.
func TestRunShares(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	folder := t.TempDir()
	readers := holders(t, c, folder, "--key k --shared", "--key k --shared --ttl 3s")
	lab.Pass(t, 4*time.Second) // the second must have been extended
	alone := "--key k --addr " + c.Addr
	if got := finishRun(t, 75, alone, "true"); !strings.Contains(got, "host and 1 more hold it") {
		t.Errorf("a writer is told %q", got)
	}
	writeEnd(t, folder)
	for _, p := range readers {
		lab.WantExit(t, p, 0)
	}
	finishRun(t, 0, alone, "true")
}

// TestRunLimits: so many run at the same time, each with a slot of its own.
func TestRunLimits(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	folder := t.TempDir()
	const limited = "--key k --limit 2"
	workers := holders(t, c, folder, limited, limited)
	slots := workers[0].Log.String() + workers[1].Log.String()
	if slots != "slot 0 begun\nslot 1 begun\n" && slots != "slot 1 begun\nslot 0 begun\n" {
		t.Errorf("they say %q", slots)
	}
	finishRun(t, 75, limited+" --addr "+c.Addr, "true")
	writeEnd(t, folder)
	for _, p := range workers {
		lab.WantExit(t, p, 0)
	}
	got := finishRun(t, 0, limited+" --addr "+c.Addr, "sh", "-c", "echo $LOCKPROXY_SLOT")
	if got != "0\n" && got != "1\n" {
		t.Errorf("the next one has slot %q", got)
	}
}

// TestRunLocksSeveralKeys: all or none, and over a move, too.
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
