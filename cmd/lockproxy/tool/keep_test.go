package tool

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// untilFile is a command that runs until a file is there.
func untilFile(t *testing.T) (command []string, end func()) {
	path := filepath.Join(t.TempDir(), "end")
	return []string{"sh", "-c", `while [ ! -e "$0" ]; do sleep 0.02; done`, path}, func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// heldShort is held, for less time.
const heldShort = "*2\r\n:1\r\n:5900\r\n"

// inTurn returns an answer that is another each time; the last one stays.
func inTurn(answers ...string) func([]string) string {
	n := -1
	return func([]string) string {
		n = min(n+1, len(answers)-1)
		return answers[n]
	}
}

// onceThere returns one answer until a file is there, and then another.
func onceThere(file, before, then string) func([]string) string {
	return func([]string) string {
		if _, err := os.Stat(file); err != nil {
			return before
		}
		return then
	}
}

// refuseSession answers EXTEND as a proxy that cannot take a lock over.
func refuseSession(args []string) string {
	if slices.Contains(args, "SESSION") {
		return "-ERR syntax error\r\n"
	}
	return held
}

// TestRunContinuesOverNextProxy: if the first proxy has any fault, the next one renews the lock
// and the command runs on.
func TestRunContinuesOverNextProxy(t *testing.T) {
	for name, fault := range map[string]func(f *fakeProxy){
		"ends":        (*fakeProxy).end,
		"hangs up":    func(f *fakeProxy) { f.says("EXTEND", hangUp) },
		"hangs":       func(f *fakeProxy) { f.says("EXTEND", silence) },
		"no majority": func(f *fakeProxy) { f.says("EXTEND", "-NOQUORUM 1 of 3\r\n") },
	} {
		for _, old := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", old"}[old], func(t *testing.T) {
				t.Parallel()
				first, second := startFake(t), startFake(t)
				if old {
					second.on("EXTEND", refuseSession)
				}
				command, end := untilFile(t)
				go func() {
					defer end()
					waitFor(t, "the lock", func() bool { return first.commands("EXTEND ") != nil })
					fault(first)
					waitForSecond(t, second)
					if name == "hangs" && first.clientsGone() > 0 {
						t.Error("it has ended a connection that a SESSION lock belongs to")
					}
				}()
				code, out := runTool(t, "--ttl 900ms --addr "+first.addr+","+second.addr, command...)
				if code != 0 || !strings.Contains(out, "kept over "+second.addr) {
					t.Errorf("exit code %d, it says %q", code, out)
				}
				wantUnlockOverSecond(t, first, second)
			})
		}
	}
}

// wantUnlockOverSecond: the tool has unlocked once, over the second proxy alone.
func wantUnlockOverSecond(t *testing.T, first, second *fakeProxy) {
	t.Helper()
	if len(second.commands("UNLOCK ")) != 1 || len(first.commands("UNLOCK ")) != 0 {
		t.Error("it does not unlock over the second proxy alone")
	}
}

// waitForSecond waits until the second proxy has extended the lock for some time.
func waitForSecond(t *testing.T, second *fakeProxy) {
	t.Helper()
	const extend = "EXTEND k " + fakeToken + " 900ms FULL"
	waitFor(t, "the second proxy, for some time", func() bool {
		return second.heardOne(extend+" SESSION") && second.times(extend) >= 3
	})
}

// TestRunReturnsToItsProxy: to the only proxy that it knows.
func TestRunReturnsToItsProxy(t *testing.T) {
	f := startFake(t)
	f.on("EXTEND", inTurn(held, hangUp, hangUp, "-NOQUORUM 1 of 3\r\n", held))
	command, end := untilFile(t)
	go func() {
		waitFor(t, "one more behind the five answers", func() bool { return f.times("EXTEND") >= 6 })
		end()
	}()
	code, out := runTool(t, "--quiet --ttl 3s --addr "+f.addr, command...)
	if code != 0 || out != "" || len(f.commands("UNLOCK ")) != 1 {
		t.Errorf("exit code %d, it says %q", code, out)
	}
}

// TestRunEndsCommandWhenLockIsLost: TERM as soon as it is known, or when there is little time
// left, and exit code 74.
func TestRunEndsCommandWhenLockIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		before, first string // the first proxy's answer, until the command has set its trap, and then
		second        string
		says          string
		soon          bool
	}{
		"not held":       {held, notHeld, held, "not held any more", true},
		"not held there": {held, hangUp, notHeld, "closed the connection", true},
		"nowhere":        {heldShort, hangUp, hangUp, "no proxy says", false},
		"unknown":        {heldShort, "-NOQUORUM\r\n", "-NOQUORUM\r\n", "no proxy says", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second, trapped := startFake(t), startFake(t), filepath.Join(t.TempDir(), "trapped")
			first.on("EXTEND", onceThere(trapped, test.before, test.first))
			second.says("EXTEND", test.second)
			start := time.Now()
			addrs := " --addr " + first.addr + " --addr " + second.addr
			code, out := runTool(t, "--ttl 6s --grace 1s"+addrs, "sh", "-c",
				`trap 'echo got TERM' TERM; : > "$0"; while :; do sleep 0.05; done`, trapped)
			took := time.Since(start)
			if code != 74 || !strings.Contains(out, test.says) {
				t.Errorf("exit code %d, it says %q", code, out)
			}
			if !strings.Contains(out, "got TERM") || !test.soon && took < 4*time.Second {
				t.Errorf("it took %v, and wrote %q", took, out)
			}
			if got := append(first.commands("UNLOCK "), second.commands("UNLOCK ")...); got != nil {
				t.Errorf("it sent %q", got)
			}
		})
	}
}

// TestRunAsksAfterPush: a push makes it ask at once.
func TestRunAsksAfterPush(t *testing.T) {
	for name, test := range map[string]struct {
		then string
		code int
		runs string // seconds: a command whose lock is lost does not come to its end
	}{"lost": {notHeld, 74, "1000"}, "the proxy drains": {held, 0, "1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			push := ">4\r\n+lock\r\n+lost\r\n+k\r\n+" + fakeToken + "\r\n"
			f.on("EXTEND", inTurn(held+push, test.then))
			if code, out := runTool(t, "--addr "+f.addr, "sleep", test.runs); code != test.code {
				t.Errorf("exit code %d, it says %q", code, out)
			}
		})
	}
}

// TestRunUnlocksOverNextProxy: an UNLOCK without an answer is repeated over the next proxy, whose
// 0 is no proof of a lost lock.
func TestRunUnlocksOverNextProxy(t *testing.T) {
	for name, test := range map[string]struct {
		first, second, hold string
		says                string
	}{
		"released":      {hangUp, ":0\r\n", "1ms", ""},
		"kept":          {hangUp, ":1\r\n", "20s", ""},
		"kept, later":   {"-NOQUORUM 1 of 3\r\n", ":1\r\n", "20s", ""},
		"nowhere":       {hangUp, hangUp, "1ms", ""},
		"kept, nowhere": {hangUp, "-NOQUORUM\r\n", "20s", "may not stay closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := startFake(t), startFake(t)
			first.says("UNLOCK", test.first)
			second.says("UNLOCK", test.second)
			for _, f := range []*fakeProxy{first, second} {
				f.says("EXTEND", "*2\r\n:1\r\n:1500\r\n")
			}
			addrs := " --addr " + first.addr + " --addr " + second.addr
			code, out := runTool(t, "--ttl 1500ms --hold "+test.hold+addrs, "sleep", "0.05")
			if code != 0 || !strings.Contains(out, test.says) || test.says == "" && out != "" {
				t.Errorf("exit code %d, it says %q", code, out)
			}
			if second.commands("UNLOCK ") == nil {
				t.Errorf("the second heard %q", second.commands(""))
			}
		})
	}
}
