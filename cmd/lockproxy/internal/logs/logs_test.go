package logs

import (
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/stat"
)

// TestRepeatedLinesAreCounted: of each message and master the log has a few lines in a while, then
// one with the number of omitted lines. Debug is not limited.
func TestRepeatedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		log, err := New(&out, Options{"debug", "json", "off"})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		count := func(what string) int {
			log.Sync()
			return strings.Count(out.String(), what)
		}
		for range 500 {
			log.Warn("master is down", zap.String("master", "a"))
			log.With(zap.Int("x", 1)).Warn("master is down", zap.String("master", "b"))
			log.Error("something else")
			log.Debug("a command")
		}
		for what, want := range map[string]int{`"master":"a"`: logBurst, `"master":"b"`: logBurst,
			"something else": logBurst, "a command": 500, "not_shown": 0} {
			if got := count(what); got != want {
				t.Errorf("%s: %d lines, want %d", what, got, want)
			}
		}
		time.Sleep(logWindow)
		log.Warn("master is down", zap.String("master", "a"))
		log.Warn("master is down", zap.String("master", "a"))
		if count(`"not_shown":490`) != 1 || count("not_shown") != 1 {
			t.Errorf("the first line after the window does not tell of 490 others:\n%s", out.String()[len(out.String())-300:])
		}
	})
}

// TestRepeatedLinesAreBounded: any number of messages takes no more memory than so many.
func TestRepeatedLinesAreBounded(t *testing.T) {
	r := &repeats{kinds: map[lineKind]*repeat{}}
	for i := range 10 * logKinds {
		if _, ok := r.take(lineKind{message: strings.Repeat("x", i%100), master: string(rune(i))}, time.Now()); !ok {
			t.Fatal("a new line was dropped")
		}
	}
	if len(r.kinds) > logKinds {
		t.Errorf("%d kinds are remembered", len(r.kinds))
	}
}

// TestAuditIgnoresLogLevel: with audit-log "log" the log has every audit line at any level, and
// only commands that audit covers.
func TestAuditIgnoresLogLevel(t *testing.T) {
	var out lines
	log, err := New(&out, Options{"error", "json", "log"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	client := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 5}
	for range 3 * logBurst {
		log.Audit.Record(stat.Event{Command: "lock", Outcome: stat.OutcomeGranted, Key: "job\n", Owner: "me", Fence: 7,
			TTL: time.Second, User: "u", Client: client})
	}
	for _, d := range []stat.Event{{Command: "lockproxy", Sub: "masters"}, {Command: "lockinfo"}, {Command: "extend"},
		{Command: "lockproxy", Sub: "admit", Key: "m1", Outcome: stat.OutcomeOK},
		{Command: "unlock", Outcome: stat.OutcomeReleased, Key: "a\xff\xfe"},
		{Command: "session", Outcome: stat.OutcomeLost, Key: "s", Session: true},
		{Command: "lock", Outcome: stat.OutcomeGranted, Key: "a", Keys: []string{"b", "c\xff"}, Kind: stat.KindKeys},
		{Command: "lock", Sub: "help"},
		{Command: "lockinfo", Via: stat.ViaAdopt}, {Via: stat.ViaAdopt, Refused: "script"},
		{Command: "extend", Outcome: stat.OutcomeLost, Key: "a", Via: stat.ViaAdopt},
		{Command: "unlock", Outcome: stat.OutcomeReleased, Key: "a", Keep: time.Minute}} {
		d.Client = client
		log.Audit.Record(d)
	}
	log.Sync()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3*logBurst+6 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range map[int]string{
		0: `"msg":"audit","command":"lock","key":"job\n","outcome":"granted","client":"10.0.0.7:5","user":"u",` +
			`"owner":"me","fence":7,"ttl":"1s"}`,
		3 * logBurst:   `"command":"admit","key":"m1","outcome":"ok"`,
		3*logBurst + 1: `"outcome":"released","client":"10.0.0.7:5","key_hex":"61fffe"}`,
		3*logBurst + 2: `"command":"session","key":"s","outcome":"lost","client":"10.0.0.7:5","session":true}`,
		3*logBurst + 3: `"command":"lock","key":"a","outcome":"granted","client":"10.0.0.7:5","keys":3,` +
			`"further_keys":["b","c\\xff"],"kind":"keys"}`,
		3*logBurst + 4: `"command":"extend","key":"a","outcome":"lost","client":"10.0.0.7:5","via":"adopt"}`,
		3*logBurst + 5: `"command":"unlock","key":"a","outcome":"released","client":"10.0.0.7:5","keep":"1m0s"}`,
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("got %s, want %s", lines[i], want)
		}
	}
}

func TestAuditLogCannotBeOpened(t *testing.T) {
	if _, err := New(&lines{}, Options{"info", "json", t.TempDir()}); err == nil ||
		!strings.HasPrefix(err.Error(), "audit-log: ") {
		t.Errorf("got %v", err)
	}
}

// lines collects the log. It is readable while others write.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
