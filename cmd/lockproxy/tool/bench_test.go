package tool

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// runBench runs lockproxy bench against a proxy for at most a second.
func runBench(t *testing.T, f *fakeProxy, flags ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append([]string{"bench", "--addr", f.addr, "--clients", "2", "--duration", "1s"}, flags...)
	code, _ = Run(t.Context(), args, os.Environ(), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestBenchRefused: an error that stays ends the benchmark at once, with its text and exit code.
func TestBenchRefused(t *testing.T) {
	for text, want := range map[string]int{
		"NOAUTH Authentication required.":                                            exitDenied,
		"NOPERM This user has no permissions to access the 'lock:x' key":             exitDenied,
		"ERR ttl 61000 exceeds max-ttl 60000: it is 61s, and 10ms to 60s is allowed": exitUsage,
		"ERR unknown command 'LOCK', with args beginning with: 'x' '10s' ":           exitUsage,
	} {
		f := startFake(t)
		f.says("LOCK", "-"+text+"\r\n")
		code, out, err := runBench(t, f)
		if code != want || out != "" || !strings.Contains(err, text) || f.times("LOCK") > 2 {
			t.Errorf("%s: exit code %d after %d LOCK, %q, %q", text, code, f.times("LOCK"), out, err)
		}
	}
}
