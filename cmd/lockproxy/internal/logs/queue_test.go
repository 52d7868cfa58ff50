package logs

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"lockproxy/stat"
)

// stuck is a destination whose writes block until the test lets them go on, and then return the
// test's error.
type stuck struct {
	lines
	goOn chan struct{} // closed: it takes everything
	err  error
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.goOn
	if s.err != nil {
		return 0, s.err
	}
	return s.lines.Write(p)
}

func stuckLog(t *testing.T) (*stuck, *Logs) {
	t.Helper()
	out := &stuck{goOn: make(chan struct{})}
	log, err := New(out, Options{"debug", "json", "off"})
	if err != nil {
		t.Fatal(err)
	}
	return out, log
}

// TestLogNeverBlocks: logging does not wait for a blocked destination; later the lines arrive in
// order, and the omitted ones are counted.
func TestLogNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, log := stuckLog(t)
		const lines = 20_000
		for i := range lines {
			log.Debug("a line", zap.Int("number", i), zap.String("filled", strings.Repeat("x", 80)))
		}
		start := time.Now()
		if err := log.Sync(); !errors.Is(err, errLinesWait) || time.Since(start) != lastLines {
			t.Errorf("Sync: %v after %v", err, time.Since(start))
		}
		close(out.goOn)
		if err := log.Sync(); err != nil {
			t.Error(err)
		}
		text := out.String()
		kept := strings.Count(text, "a line")
		if len(text) > queueRoom+10_000 || len(text) < queueRoom-1000 {
			t.Errorf("%d lines, %d bytes were kept", kept, len(text))
		}
		all := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range all[:kept] {
			if !strings.Contains(line, `"number":`+strconv.Itoa(i)+",") {
				t.Fatalf("line %d is %s", i, line)
			}
		}
		if last := all[len(all)-1]; !strings.Contains(last, "lines were lost") ||
			!strings.HasSuffix(last, `"lines":`+strconv.Itoa(lines-kept)+"}") {
			t.Errorf("%d lines were kept; the last is %s", kept, last)
		}
		log.Info("behind")
		log.Close()
		if text := out.String(); !strings.HasSuffix(strings.TrimSpace(text), `"msg":"behind"}`) {
			t.Errorf("the last line: %s", text[len(text)-200:])
		}
	})
}

// TestRefusedLinesAreCounted: lines that the destination refuses are counted too, once it takes
// some again.
func TestRefusedLinesAreCounted(t *testing.T) {
	out, log := stuckLog(t)
	out.err = errors.New("no space left on device")
	close(out.goOn)
	for range 3 {
		log.Info("lost")
		log.Sync()
	}
	out.err = nil
	log.Info("written")
	log.Close()
	if text := out.String(); strings.Contains(text, `"lost"`) || !strings.Contains(text, "written") ||
		!strings.Contains(text, `"lines":3}`) {
		t.Errorf("got %s", text)
	}
}

// TestAuditWriteErrorsAreReported: the log reports that the audit log is not written.
func TestAuditWriteErrorsAreReported(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	var out lines
	log, err := New(&out, Options{"info", "json", "/dev/full"})
	if err != nil {
		t.Fatal(err)
	}
	log.Audit.Record(stat.Event{Command: "lock", Key: "k", Client: &net.TCPAddr{}})
	log.Close()
	if text := out.String(); !strings.Contains(text,
		`"msg":"audit-log cannot be written, lines are lost","error":"write /dev/full: no space left on device"}`) {
		t.Errorf("got %q", text)
	}
}
