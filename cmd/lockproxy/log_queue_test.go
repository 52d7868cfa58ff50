package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"lockproxy/commands"
	"lockproxy/conf"
)

// stuck is a destination that takes nothing until it is told to, and then fails if it is to.
type stuck struct {
	output
	goOn chan struct{} // closed: it takes everything
	err  error
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.goOn
	if s.err != nil {
		return 0, s.err
	}
	return s.output.Write(p)
}

func stuckLog(t *testing.T) (*stuck, *logs) {
	t.Helper()
	out := &stuck{goOn: make(chan struct{})}
	cfg := conf.Default()
	cfg.LogLevel, cfg.LogFormat = "debug", "json"
	log, err := newLogs(out, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out, log
}

// TestLogNeverBlocks: whoever logs goes on although nobody takes the lines; later they come in order, but for those that are too many, which are
// counted.
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
		if last := all[len(all)-1]; !strings.Contains(last, "lines were lost") || !strings.HasSuffix(last, `"lines":`+strconv.Itoa(lines-kept)+"}") {
			t.Errorf("%d lines were kept; the last is %s", kept, last)
		}
		log.Info("behind")
		log.close()
		if text := out.String(); !strings.HasSuffix(strings.TrimSpace(text), `"msg":"behind"}`) {
			t.Errorf("the last line: %s", text[len(text)-200:])
		}
	})
}

// TestLogWithoutRoom: lines that the destination refuses are counted too, once it takes some again.
func TestLogWithoutRoom(t *testing.T) {
	out, log := stuckLog(t)
	out.err = errors.New("no space left on device")
	close(out.goOn)
	for range 3 {
		log.Info("lost")
		log.Sync()
	}
	out.err = nil
	log.Info("written")
	log.close()
	if text := out.String(); strings.Contains(text, `"lost"`) || !strings.Contains(text, "written") || !strings.Contains(text, `"lines":3}`) {
		t.Errorf("got %s", text)
	}
}

// TestAuditWithoutRoom: the log tells that the audit log is not written.
func TestAuditWithoutRoom(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	var out output
	cfg := conf.Default()
	cfg.LogFormat, cfg.AuditLog = "json", "/dev/full"
	log, err := newLogs(&out, cfg)
	if err != nil {
		t.Fatal(err)
	}
	log.audit.done(commands.Done{Command: "lock", Key: "k", Client: &net.TCPAddr{}})
	log.close()
	if text := out.String(); !strings.Contains(text, `"msg":"audit-log cannot be written, lines are lost","error":"write /dev/full: no space left on device"}`) {
		t.Errorf("got %q", text)
	}
}

// TestStderrThatBlocks: locks are granted, renewed and released although nobody takes what is logged, and the proxy ends.
func TestStderrThatBlocks(t *testing.T) {
	out := &stuck{goOn: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	socket := filepath.Join(t.TempDir(), "s")
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "unix://" + socket, "--log-level", "debug", "--audit-log", "log", "--drain-timeout", "0s"}, nil, io.Discard, out)
	}()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, PoolSize: 2})
	defer client.Close()
	waitFor(t, "the first grant", func() bool { return client.Do(ctx, "LOCK", "a", "1s").Err() == nil })
	holder := client.Conn()
	defer holder.Close()
	const ttl = 600 * time.Millisecond
	if err := holder.Do(ctx, "LOCK", "job", "600ms", "SESSION").Err(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 3*ttl; { // meanwhile more is logged than there is room for
		if client.Do(ctx, "LOCK", "job", "600ms").Err() == nil {
			t.Fatal("a session lock was not renewed")
		}
	}
	cancel(errors.New("test is over"))
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("run does not end")
	}
	close(out.goOn)
}
