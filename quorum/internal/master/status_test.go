package master

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// TestExcludedMasterDoesNotVote: a master does not vote for the reason that the host gives;
// warnings are logged once.
func TestExcludedMasterDoesNotVote(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m, func(c *LaneConfig) { c.Log = zap.New(core) })
		h.note(func() { h.hold = true })
		reason := errors.New("does not please")
		waits := func() error { return &admission.Quarantine{Until: time.Now().Add(time.Minute)} }
		l.Exclude(7, stat.StateRefused, reason, false)
		if s := l.Status(); s.State != stat.StateVoting {
			t.Errorf("on another connection: %+v", s)
		}
		for range 3 {
			l.Exclude(1, stat.StateRefused, reason, false)
			l.Exclude(1, stat.StateQuarantined, waits(), false)
			l.Exclude(1, stat.StateQuarantined, waits(), false)
		}
		if s := l.Status(); !strings.HasPrefix(s.Reason, "was put in quarantine") || s.VotesIn != time.Minute ||
			s.Quarantines != 1 || l.MayServe() == nil {
			t.Errorf("status %+v", s)
		}
		if n := logs.FilterMessage("master does not vote").Len(); n != 6 {
			t.Errorf("logged %d times, want 6: a reason once in a row", n)
		}
		l.Admit(7, record, time.Time{})
		if l.MayServe() == nil {
			t.Error("admitted on another connection")
		}
		m.Pause()
		l.Probe()
		synctest.Wait()
		l.Admit(1, record, time.Time{})
		if l.MayServe() == nil {
			t.Error("admitted while a probe is on its way")
		}
		m.Resume()
		synctest.Wait()
		l.Admit(1, record, time.Time{})
		if s := l.Status(); s.State != stat.StateVoting || s.Reason != "" || l.MayServe() != nil {
			t.Errorf("status %+v", s)
		}
		logs.TakeAll()
		m.Stop()
		time.Sleep(3 * time.Second)
		if n := logs.Len(); n != 2 {
			t.Errorf("logged %v, want that it is down, and that it refuses connections", logs.All())
		}
	})
}

// TestDescribeNamesTheServer: people see which server they run, not which Redis it is compatible
// with.
func TestDescribeNamesTheServer(t *testing.T) {
	for info, want := range map[string]string{"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n": "valkey 9.1.2",
		"redis_version:7.0.15\r\n": "redis 7.0.15", "role:master\r\n": ""} {
		t.Run(want, func(t *testing.T) {
			var f admission.ServerInfo
			f.ReadInfo(info)
			core, logs := observer.New(zap.InfoLevel)
			l := New(LaneConfig{Names: []string{"m"}, Log: zap.New(core)})
			describe(&l.cfg, &f)
			if got := logs.All()[0].ContextMap()["version"]; got != want {
				t.Errorf("%q: logged %q, want %q", info, got, want)
			}
		})
	}
}

// TestCallGoesToAnyConnectedMaster: a command of its own goes to any master that is connected.
func TestCallGoesToAnyConnectedMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		h.note(func() { h.hold = true })
		l.Exclude(1, stat.StateRefused, errors.New("must not"), true)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := l.Call(ctx, wire.AppendCommand(nil, "HSET", "h", "field", "value")); err != nil {
			t.Error(err)
		}
		if r, err := l.Call(ctx, wire.AppendCommand(nil, "HGET", "h", "field")); err != nil || r.Text != "value" {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := l.Call(ctx, wire.AppendCommand(nil, "NONSENSE")); err == nil ||
			!strings.Contains(err.Error(), "unknown command") {
			t.Errorf("error reply: %v", err)
		}
		r, err := l.Call(ctx, wire.Probe.Eval("lockproxy:state:lock:"))
		if said, ok := wire.ParseProbe(&r); !ok || said.Record != record || err != nil {
			t.Errorf("probe: %+v, %v", r, err)
		}
		m.Pause()
		if _, err := l.Call(ctx, wire.AppendCommand(nil, "PING")); err == nil || err.Error() != "gave no answer in 50ms" {
			t.Errorf("paused: %v", err)
		}
		wantCutShort(t, l, m)
		if _, err := l.Call(t.Context(), wire.AppendCommand(nil, "PING")); err == nil {
			t.Error("a lane that is down took a command")
		}
	})
}

// wantCutShort fails unless a command ends with the connection.
func wantCutShort(t *testing.T, l *Lane, m *fake.Master) {
	t.Helper()
	ended := make(chan error, 1)
	if err := l.Send(wire.AppendCommand(nil, "PING"), func(_ *wire.Reply, err error) { ended <- err }); err != nil {
		t.Error(err)
	}
	m.Cut()
	if err := <-ended; err == nil || err.Error() != "closed the connection" {
		t.Errorf("cut: %v", err)
	}
}

// The reason of a state ends with the command to copy, so nothing of it is cut.
func TestReasonIsWhole(t *testing.T) {
	const command = "LOCKPROXY ADMIT 127.0.0.1:17111 to this one"
	s := status{reason: errors.New(strings.Repeat("a difference, ", 20) + command)}
	if got := s.snapshot().Reason; !strings.HasSuffix(got, command) {
		t.Errorf("got %q, want %q at its end", got, command)
	}
}
