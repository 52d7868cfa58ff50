package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRunEndsRemainingChildren: processes that outlive the command end before the lock, unless a
// flag says otherwise.
func TestRunEndsRemainingChildren(t *testing.T) {
	for name, test := range map[string]struct {
		flags, child string
		alive        bool
		atLeast      time.Duration
	}{
		"ends": {"--grace 10s", "sleep 60 & echo $!", false, 0},
		"stubborn": {"--grace 300ms", `sh -c 'trap "" TERM; echo $$; : > "$0"; sleep 60; sleep 60' "$0" & ` +
			`while [ ! -e "$0" ]; do sleep 0.01; done`, false, 300 * time.Millisecond},
		"left": {"--leave-children", "sleep 60 & echo $!", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			start := time.Now()
			code, out := runTool(t, "--addr "+f.addr+" "+test.flags, "sh", "-c", test.child+"; exit 5",
				filepath.Join(t.TempDir(), "trapped"))
			took := time.Since(start)
			pid, err := strconv.Atoi(strings.TrimSpace(out))
			if code != 5 || err != nil || took < test.atLeast {
				t.Fatalf("exit code %d after %v, it wrote %q", code, took, out)
			}
			alive := runs(pid)
			if alive != test.alive {
				t.Errorf("the child runs: %v, want %v", alive, test.alive)
			}
			if alive {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			if got := f.commands("UNLOCK "); len(got) != 1 {
				t.Errorf("it sent %q", got)
			}
		})
	}
}

// runs reports whether a process is there and has not ended.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}
