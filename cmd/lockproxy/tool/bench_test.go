package tool

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// runBench runs lockproxy bench against a proxy.
func runBench(t *testing.T, f *fakeProxy, flags ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append([]string{"bench", "--addr", f.addr, "--clients", "2"}, flags...)
	code, _ = Run(t.Context(), args, os.Environ(), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestBenchEndsAtPermanentErrors: an error that stays ends the benchmark at once, with its text
// and exit code.
func TestBenchEndsAtPermanentErrors(t *testing.T) {
	for text, want := range map[string]int{
		"NOAUTH Authentication required.":                                            exitDenied,
		"NOPERM This user has no permissions to access the 'lock:x' key":             exitDenied,
		"ERR ttl 61000 exceeds max-ttl 60000: it is 61s, and 10ms to 60s is allowed": exitUsage,
		"ERR unknown command 'LOCK', with args beginning with: 'x' '10s' ":           exitUsage,
	} {
		t.Run(text, func(t *testing.T) {
			f := startFake(t)
			f.says("LOCK", "-"+text+"\r\n")
			code, out, err := runBench(t, f, "--duration", "1s")
			if code != want || out != "" || !strings.Contains(err, text) || f.times("LOCK") > 2 {
				t.Errorf("%s: exit code %d after %d LOCK, %q, %q", text, code, f.times("LOCK"), out, err)
			}
		})
	}
}

// TestBenchCountsOnlyUnlockedPairs: a LOCK whose UNLOCK is answered with an error is no pair.
func TestBenchCountsOnlyUnlockedPairs(t *testing.T) {
	f := startFake(t)
	f.says("LOCK", "$57\r\n"+fakeToken+"\r\n")
	f.says("UNLOCK", "-NOQUORUM 1 of 3 masters can vote, 2 needed\r\n")
	code, out, err := runBench(t, f, "--duration", "50ms")
	if code != exitFailed || !strings.Contains(out, " 0 LOCK and UNLOCK") || !strings.Contains(out, " times NOQUORUM") {
		t.Errorf("exit code %d, %q, %q", code, out, err)
	}
}
