package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// atWork is a script that fails if another runs under the same key, and ends when a file called
// end exists. Its argument is the folder.
const atWork = `mkdir "$0/$LOCKPROXY_KEY" || exit 9; echo begun
while [ ! -e "$0/end" ]; do sleep 0.1; done; rmdir "$0/$LOCKPROXY_KEY"`

func writeEnd(t *testing.T, folder string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Both proxies are restarted, the first one twice, under twenty runs of ten keys. No command is
// stopped, and no two of one key run at once.
func TestRunSurvivesRollingRestart(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	second := c.Another(t)
	folder := t.TempDir()
	var all []*lab.Process
	keys := lab.Long(5, 10)
	for i := range 2 * keys {
		addrs := []string{c.Addr + "," + second.Addr, second.Addr + "," + c.Addr}[i%2]
		flags := fmt.Sprintf("--addr %s --key job-%d --wait forever", addrs, i/2)
		all = append(all, launchRun(t, flags, "sh", "-c", atWork, folder))
	}
	begun := func() (n int) {
		for _, p := range all {
			n += strings.Count(p.Log.String(), "begun\n")
		}
		return n
	}
	lab.WaitFor(t, "a command of each key", lab.Patience, func() bool { return begun() == keys })
	for _, p := range []*lab.Proxy{c.Proxy, second, c.Proxy} {
		p.Stop(t)
		p.Restart(t)
		p.WaitVoting(t)
		lab.Pass(t, time.Second)
	}
	if n := begun(); n != keys {
		t.Errorf("got %d started commands, want %d", n, keys)
	}
	writeEnd(t, folder)
	for _, p := range all {
		lab.WantExit(t, p, 0)
	}
}

// A run keeps its lock over the other proxy if the first hangs. The first one, when it resumes,
// does not release the lock.
func TestRunLeavesAHungProxy(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	second := c.Another(t)
	folder := t.TempDir()
	flags := "--key job --ttl 6s --addr " + c.Addr + " --addr " + second.Addr
	p := launchRun(t, flags, "sh", "-c", atWork, folder)
	waitWritten(t, p, "begun")
	c.Proxy.Pause(t)
	waitWritten(t, p, "kept over "+second.Addr)
	lab.Pass(t, 6*time.Second) // the ttl
	c.Proxy.Resume()
	lab.Pass(t, time.Second)
	host := lab.Dial(t, second.Addr)
	if token, reply, _ := host.TryLock("job", "60s"); token != "" {
		t.Errorf("LOCK while the command runs: got %q, want null", reply)
	}
	writeEnd(t, folder)
	lab.WantExit(t, p, 0)
	host.Unlock("job", host.Lock("job", "60s")) // free at once
}

// With one address a run survives a restart of the proxy.
func TestRunComesBackToItsProxy(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	folder := t.TempDir()
	p := launchRun(t, "--key job --addr "+c.Addr, "sh", "-c", atWork, folder)
	waitWritten(t, p, "begun")
	c.Restart(t)
	waitWritten(t, p, "kept over "+c.Addr)
	writeEnd(t, folder)
	lab.WantExit(t, p, 0)
}

// session-max-hold does not limit a run, because the run renews its lock itself.
func TestRunOutlivesSessionMaxHold(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--session-max-hold", "1s")
	finishRun(t, 0, "--key job --ttl 9s --addr "+c.Addr, "sleep", "5")
}

// If the lock runs out while lockproxy run is paused, UNLOCK reports the loss.
func TestRunFindsTheLossAtItsEnd(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	folder := t.TempDir()
	p := launchRun(t, "--key job --addr "+c.Addr, "sh", "-c", atWork, folder)
	waitWritten(t, p, "begun")
	p.Pause(t)
	lab.Dial(t, c.Addr).WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	writeEnd(t, folder)
	lab.WaitFor(t, "the end of the command", lab.Patience, func() bool {
		_, err := os.Stat(filepath.Join(folder, "job"))
		return err != nil
	})
	p.Signal(syscall.SIGCONT)
	lab.WantExit(t, p, 74)
}

// Processes that the command leaves running end before the lock is released.
func TestRunEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	const leaves = "sleep 60 >/dev/null 2>&1 & echo $!"
	got := finishRun(t, 0, "--key job --addr "+c.Addr, "sh", "-c", leaves)
	waitGone(t, strings.TrimSpace(got))
	host := lab.Dial(t, c.Addr)
	host.Unlock("job", host.Lock("job", "60s"))
}
