package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRunSendsFlagsAsOptions: the flags determine LOCK, UNLOCK and the command's environment.
func TestRunSendsFlagsAsOptions(t *testing.T) {
	const lockEnd = " SESSION OWNER me FULL"
	for name, test := range map[string]struct {
		flags  string
		lock   string
		unlock string
		env    string
	}{
		"plain":  {"", "LOCK k 30s" + lockEnd, "UNLOCK k TOKEN", "k 7"},
		"ttl":    {"--ttl 5s", "LOCK k 5s" + lockEnd, "UNLOCK k TOKEN", "k 7"},
		"shared": {"--shared", "LOCK k 30s SHARED" + lockEnd, "UNLOCK k TOKEN", "k 7"},
		"limit":  {"--limit 4", "LOCK k 30s LIMIT 4" + lockEnd, "UNLOCK k TOKEN", "k 7 3"},
		"keys": {"--key b --key c", "LOCK k 30s KEYS 2 b c" + lockEnd,
			"UNLOCK k TOKEN KEYS 2 b c", "k 7"},
		"wait":      {"--wait 7s", "LOCK k 30s" + lockEnd + " WAIT 6", "UNLOCK k TOKEN", "k 7"},
		"for ever":  {"--wait forever", "LOCK k 30s" + lockEnd + " WAIT 0", "UNLOCK k TOKEN", "k 7"},
		"hold":      {"--hold 20s", "LOCK k 30s" + lockEnd, "UNLOCK k TOKEN KEEP 19", "k 7"},
		"long hold": {"--hold 50s", "LOCK k 50s" + lockEnd, "UNLOCK k TOKEN KEEP 49", "k 7"},
		"held keys": {"--key b --hold 20s", "LOCK k 30s KEYS 1 b" + lockEnd,
			"UNLOCK k TOKEN KEYS 1 b KEEP 19", "k 7"},
		"hold over": {"--hold 1ms", "LOCK k 30s" + lockEnd, "UNLOCK k TOKEN", "k 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			if strings.Contains(test.flags, "--limit") {
				f.says("LOCK", strings.Replace(grant, "*3", "*4", 1)+":3\r\n")
			}
			code, out := runTool(t, "--owner me --addr "+f.addr+" "+test.flags, "sh", "-c",
				"sleep 0.01; echo $LOCKPROXY_KEY $LOCKPROXY_FENCE $LOCKPROXY_SLOT")
			if code != 0 || strings.TrimSpace(out) != test.env {
				t.Errorf("exit code %d, it wrote %q, want %q", code, out, test.env)
			}
			wantCommand(t, f, "LOCK ", test.lock)
			wantCommand(t, f, "UNLOCK ", test.unlock)
		})
	}
}

// wantCommand compares the one command that begins with prefix. A number at the end of want may be
// the beginning of another.
func wantCommand(t *testing.T, f *fakeProxy, prefix, want string) {
	t.Helper()
	want = strings.ReplaceAll(want, "TOKEN", fakeToken)
	got := f.commands(prefix)
	open := strings.HasSuffix(want, "WAIT 6") || strings.Contains(want, "KEEP")
	if len(got) != 1 || got[0] != want && !(open && strings.HasPrefix(got[0], want)) {
		t.Errorf("it sent %q, want %q", got, want)
	}
}

// answers are those of a proxy, by the names of the commands.
type answers map[string]string

// info is a reply to LOCKINFO.
func info(fields ...string) string {
	return fmt.Sprintf("%%%d\r\n+%s\r\n", len(fields)/2, strings.Join(fields, "\r\n+"))
}

const exceeds = "-ERR ttl 30000 exceeds max-ttl 9000: it is 30s, and 10ms to 9s is allowed\r\n"

// exits are the exit codes and messages for a command that ends with 3.
var exits = map[string]struct {
	answers answers
	flags   string
	code    int
	says    string // "": no message
}{
	"its own": {nil, "", 3, ""},
	"taken":   {answers{"LOCK": "$-1\r\n"}, "", 75, "k is taken"},
	"taken by": {answers{"LOCK": "$-1\r\n", "LOCKINFO": info("owner", "web1", "ttl", "9")},
		"", 75, "k is taken: web1 holds it"},
	"shared by": {answers{"LOCK": "_\r\n", "LOCKINFO": info("owner", "web1", "holders", "3")},
		"", 75, "k is taken: web1 and 2 more hold it"},
	"kept closed": {answers{"LOCK": "_\r\n", "LOCKINFO": info("owner", "web1", "mode", "kept", "ttl", "41500")},
		"", 75, "k is kept closed for another 41s: web1 held it last"},
	"nobody says":  {answers{"LOCK": "_\r\n", "LOCKINFO": hangUp}, "", 75, "k is taken"},
	"two keys":     {answers{"LOCK": "_\r\n"}, "--key b", 75, "k and 1 more is taken"},
	"quiet":        {answers{"LOCK": "_\r\n"}, "--quiet", 75, ""},
	"its code":     {answers{"LOCK": "_\r\n"}, "--quiet --conflict-exit-code 0", 0, ""},
	"queue full":   {answers{"LOCK": "-LOCKQUEUEFULL too many\r\n"}, "--conflict-exit-code 9", 9, "LOCKQUEUEFULL"},
	"waits":        {answers{"LOCK": "_\r\n"}, "--wait 300ms", 75, "k is taken"},
	"no majority":  {answers{"LOCK": "-NOQUORUM 1 of 3\r\n"}, "--quiet", 69, "NOQUORUM 1 of 3"},
	"no answer":    {answers{"LOCK": hangUp}, "", 69, "closed the connection"},
	"not allowed":  {answers{"LOCK": "-NOPERM no\r\n"}, "", 77, "NOPERM no"},
	"ttl too long": {answers{"LOCK": exceeds}, "--ttl 30s", 64, "exceeds max-ttl"},
	"hold too long": {answers{"LOCK": exceeds}, "--hold 30s",
		64, "--hold 30s is more than the proxy's max-ttl, 9s"},
	"old proxy":    {answers{"LOCK": "-ERR syntax error\r\n"}, "--shared", 64, "too old"},
	"odd grant":    {answers{"LOCK": "+OK\r\n"}, "", 69, "not RESP"},
	"gone at once": {answers{"EXTEND": notHeld}, "", 69, "it is not held any more"},
	"lost unseen":  {answers{"UNLOCK": ":0\r\n"}, "", 74, "k was lost"},
	"not released": {answers{"UNLOCK": "-NOQUORUM 1 of 3\r\n"}, "", 3, ""},
	"no KEEP":      {answers{"UNLOCK": "-ERR syntax error\r\n"}, "--hold 9s", 3, "does not stay closed"},

	"wait for how long": {nil, "--wait long", 64, "--wait: \"long\" is not a time"},
	"no slots":          {nil, "--limit 0", 64, "from 1 to 128"},
	"many slots":        {nil, "--limit 129", 64, "from 1 to 128"},
	"both":              {nil, "--limit 2 --shared", 64, "exclude each other"},
	"shared keys":       {nil, "--key b --shared", 64, "one --key"},
	"limited keys":      {nil, "--key b --limit 2", 64, "one --key"},
	"no such code":      {nil, "--conflict-exit-code 256", 64, "from 0 to 255"},
}

func TestRunExitCodes(t *testing.T) {
	for name, test := range exits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			for command, answer := range test.answers {
				f.says(command, answer)
			}
			code, out := runTool(t, "--addr "+f.addr+" "+test.flags, "sh", "-c", "exit 3")
			if code != test.code || !strings.Contains(out, test.says) {
				t.Errorf("exit code %d, it says %q; want %d, %q", code, out, test.code, test.says)
			}
			if test.says == "" && out != "" {
				t.Errorf("it says %q", out)
			}
		})
	}
}

// TestRunFitsDefaultTTLToLimits: the default ttl gives way to the limits of the proxy.
func TestRunFitsDefaultTTLToLimits(t *testing.T) {
	for refusal, want := range map[string]string{
		"-ERR ttl 30000 exceeds max-ttl 9000\r\n":                                       "9s",
		"-ERR ttl 30s exceeds max-ttl 9s (one)\r\n":                                     "9s",
		"-ERR ttl 30000 is under min-ttl 60000\r\n":                                     "60s",
		"-ERR ttl 30000 exceeds max-ttl 9000: it is 30s, and 10ms to 9s is allowed\r\n": "9s",
	} {
		t.Run(refusal, func(t *testing.T) {
			f := startFake(t)
			f.on("LOCK", func(args []string) string {
				if args[2] != want {
					return refusal
				}
				return grant
			})
			if code, out := runTool(t, "--addr "+f.addr, "true"); code != 0 || out != "" {
				t.Errorf("%q: exit code %d, it says %q", refusal, code, out)
			}
			got := f.commands("EXTEND ")
			if len(got) != 1 || !strings.HasSuffix(got[0], " "+want+" FULL") {
				t.Errorf("%q: then it sent %q", refusal, got)
			}
		})
	}
}

// TestRunKeepsLockClosedForHold: --hold keeps the lock closed however the command ends, but not if
// it could not start.
func TestRunKeepsLockClosedForHold(t *testing.T) {
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	if err := os.WriteFile(nonsense, []byte("\x00text"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		command []string
		code    int
		keeps   bool
	}{
		"succeeds":      {[]string{"true"}, 0, true},
		"fails":         {[]string{"sh", "-c", "exit 7"}, 7, true},
		"is killed":     {[]string{"sh", "-c", "kill -9 $$"}, 128 + 9, true},
		"cannot be run": {[]string{nonsense}, 126, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			code, out := runTool(t, "--hold 50s --addr "+f.addr, test.command...)
			got := f.commands("UNLOCK ")
			if code != test.code || len(got) != 1 || strings.Contains(got[0], " KEEP 49") != test.keeps {
				t.Errorf("a command that %s: exit code %d, it sent %q, said %q", name, code, got, out)
			}
		})
	}
}

// TestRunHoldMayEndBelowMinTTL: the rest of --hold may be shorter than min-ttl.
func TestRunHoldMayEndBelowMinTTL(t *testing.T) {
	f := startFake(t)
	f.on("UNLOCK", func(args []string) string {
		if args[len(args)-1] != "90s" {
			return "-ERR ttl 49000 is under min-ttl 90000\r\n"
		}
		return ":1\r\n"
	})
	code, out := runTool(t, "--hold 50s --addr "+f.addr, "true")
	if got := f.commands("UNLOCK "); code != 0 || out != "" || len(got) != 2 {
		t.Errorf("exit code %d, it sent %q, and said %q", code, got, out)
	}
}

// TestRunTriesProxiesInTurn: the proxies are tried in turn until one has an answer.
func TestRunTriesProxiesInTurn(t *testing.T) {
	for name, test := range map[string]struct {
		first, second, flags string
		code                 int
		says                 string
	}{
		"gone":             {hangUp, grant, "", 0, ""},
		"no majority":      {"-NOQUORUM 1 of 3\r\n", grant, "", 0, ""},
		"ending":           {"-TRYAGAIN the proxy is ending\r\n", grant, "--wait forever", 0, ""},
		"not this one":     {"-NOPERM no\r\n", grant, "", 0, ""},
		"taken":            {"_\r\n", grant, "", 75, "is taken"},
		"none":             {"-NOQUORUM 1\r\n", "-NOQUORUM 2\r\n", "", 69, "NOQUORUM 1\nNOQUORUM 2"},
		"denied, and gone": {"-NOPERM no\r\n", hangUp, "--wait forever", 77, "NOPERM no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := startFake(t), startFake(t)
			first.says("LOCK", test.first)
			second.says("LOCK", test.second)
			addrs := "--addr " + first.addr + " --addr " + second.addr + " "
			code, out := runTool(t, addrs+test.flags, "true")
			if code != test.code || !strings.Contains(out, test.says) {
				t.Errorf("exit code %d, want %d; it says %q", code, test.code, out)
			}
		})
	}
}

// TestRunWaitsForEver: for the lock, and for a proxy.
func TestRunWaitsForEver(t *testing.T) {
	f := startFake(t)
	answers := []string{"_\r\n", hangUp, "-NOQUORUM 1 of 3\r\n", grant}
	asked := 0
	f.on("LOCK", func([]string) string {
		asked++
		return answers[asked-1]
	})
	start := time.Now()
	code, out := runTool(t, "--wait forever --addr "+f.addr, "true")
	if code != 0 || out != "" || asked != 4 || time.Since(start) < 3*lockRetry {
		t.Errorf("exit code %d after %d LOCK, it said %q", code, asked, out)
	}
}

// TestRunOwnerNamesProcess: the default label names this process, and fits.
func TestRunOwnerNamesProcess(t *testing.T) {
	f := startFake(t)
	runTool(t, "--addr "+f.addr, "true")
	words := strings.Fields(f.commands("LOCK ")[0])
	owner := words[slices.Index(words, "OWNER")+1]
	host, _ := os.Hostname()
	pid := ":" + strconv.Itoa(os.Getpid())
	if len(owner) > maxOwner || !strings.HasSuffix(owner, pid) || !strings.HasSuffix(host+pid, owner) {
		t.Errorf("the owner is %q", owner)
	}
}
