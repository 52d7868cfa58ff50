package master

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// The host gets the facts about the server when a connection begins, every second, and on demand.
func TestFactsComeAtOnceAndEverySecond(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		m.Set(func() {
			m.SetState("settings", "some settings")
			m.SetState("known", "some admissions")
			m.Facts["maxmemory"], m.Facts["maxmemory_policy"], m.Facts["evicted_keys"] = "100", "allkeys-lru", "7"
		})
		l, h := start(t, m)
		o := h.last()
		if o.Conn != 1 || o.Record != record || o.Settings != "some settings" || o.Known != "some admissions" ||
			o.Fields != 3 || o.Stepped || o.Demoted {
			t.Errorf("observed %+v", o)
		}
		if f := o.ServerInfo; f.RunID != "run-1" || !f.MayEvict() || f.Evicted != 7 || f.Version != "7.0.15" ||
			!f.NoReplicas {
			t.Errorf("facts %+v", f)
		}
		if !o.Sent.Equal(time.Now()) || !o.At.Equal(time.Now()) || o.Clock != time.Duration(time.Now().UnixNano()) {
			t.Errorf("sent %v, answered %v, clock %v", o.Sent, o.At, o.Clock)
		}
		l.Probe()
		synctest.Wait()
		if n := len(h.sofar().observed); n != 2 {
			t.Errorf("%d observations, want 2", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(h.sofar().observed); n != 12 || m.Ran("PING") != 10 {
			t.Errorf("%d observations and %d times PING after ten seconds, want 12 and 10", n, m.Ran("PING"))
		}
		m.Pause()
		l.Probe()
		synctest.Wait()
		l.Probe() // one is on its way
		m.Resume()
		synctest.Wait()
		if n := len(h.sofar().observed); n != 13 {
			t.Errorf("%d observations, want 13", n)
		}
		m.Cut()
		time.Sleep(time.Second)
		if o = h.last(); o.Conn != 2 {
			t.Errorf("connection %d, want 2", o.Conn)
		}
	})
}

// The host gets a probe before the answer to a later request.
func TestObservedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		for range 50 {
			m.Pause()
			before := len(h.sofar().observed)
			l.Probe()
			synctest.Wait()
			answered := -1
			err := l.Send(wire.AppendCommand(nil, "PING"), func(*wire.Reply,
				error) {
				answered = len(h.sofar().observed) - before
			})
			if err != nil {
				t.Fatal(err)
			}
			m.Resume()
			synctest.Wait()
			if answered != 1 {
				t.Fatalf("%d observations before the answer, want 1", answered)
			}
		}
	})
}

// The probe asks for CONFIG if the server has an append-only file, until CONFIG is refused.
func TestAppendOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		m.Set(func() {
			m.Facts["aof_enabled"], m.Config["appendonly"], m.Config["appendfsync"] = "1", "yes", "always"
		})
		l, h := start(t, m)
		if f := h.last().ServerInfo; !f.Durable() || f.ConfigRefused {
			t.Errorf("facts %+v", f)
		}
		answering(m, "CONFIG", "-NOPERM no\r\n")
		l.Probe()
		synctest.Wait()
		if f := h.last().ServerInfo; f.Durable() || !f.ConfigRefused {
			t.Errorf("refused: %+v", f)
		}
		asked := m.Ran("CONFIG")
		m.Set(func() { m.Hook = nil })
		time.Sleep(3 * time.Second)
		if n := m.Ran("CONFIG"); n != asked {
			t.Errorf("asked %d times more", n-asked)
		}
	})
}

// The lane does not ask for the long sections of INFO, such as 45,000 kinds of error.
func TestHugeInfo(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		const huge = 2 << 20
		m.Set(func() {
			m.Hook = func(c *fake.Command) (time.Duration, string) {
				if c.Name == "INFO" {
					return 0, "$2097152\r\n" + strings.Repeat("x", huge) + "\r\n"
				}
				return 0, ""
			}
		})
		l, _ := start(t, m)
		time.Sleep(3 * time.Second)
		if s := l.Status(); s.State != stat.StateVoting || s.Lost != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestAnotherServer: a connection that leads to another server now is given up.
func TestAnotherServer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		m.Set(func() { m.RunID = "run-2" })
		l.Probe()
		synctest.Wait()
		if s := l.Status(); s.State != stat.StateDown || s.Reason != "is another server now" ||
			len(h.sofar().observed) != 1 {
			t.Errorf("%d observations, status %+v", len(h.sofar().observed), s)
		}
		time.Sleep(time.Second)
		if o := h.last(); o.ServerInfo.RunID != "run-2" || l.Status().RunID != "run-2" {
			t.Errorf("observed %+v", o)
		}
	})
}

// TestFormerReplicaIsNamedUntilForgiven: a server that was a replica once is said to have been
// one, until that is forgiven.
func TestFormerReplicaIsNamedUntilForgiven(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		h.note(func() { h.hold = true })
		m.Set(func() { m.Role = "slave" })
		l.Probe()
		synctest.Wait()
		if s := l.Status(); s.State != stat.StateRefused || s.Reason != "is a replica" {
			t.Errorf("status %+v", s)
		}
		m.Set(func() { m.Role = "master" })
		time.Sleep(2 * time.Second)
		if o := h.last(); !o.Demoted {
			t.Errorf("observed %+v", o)
		}
		l.Forgive()
		time.Sleep(time.Second)
		if o := h.last(); o.Demoted {
			t.Errorf("forgiven: %+v", o)
		}
	})
}

// A step of the master's clock is reported until it is forgiven, even if the clock steps back.
func TestClockStepIsReportedUntilForgiven(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		h.note(func() { h.hold = true })
		for _, c := range []struct {
			ahead time.Duration
			want  bool
		}{{50 * time.Millisecond, false}, {time.Minute, true}, {0, true}} {
			m.Set(func() { m.Ahead = c.ahead })
			l.Probe()
			synctest.Wait()
			if o := h.last(); o.Stepped != c.want {
				t.Errorf("%v ahead: stepped %v", c.ahead, o.Stepped)
			}
		}
		l.Forgive()
		l.Probe()
		synctest.Wait()
		if o := h.last(); o.Stepped {
			t.Error("forgiven, and stepped")
		}
	})
	inBubble(t, func(t *testing.T, m *fake.Master) { // another process on the same machine
		l, h := start(t, m)
		h.note(func() { h.hold = true })
		m.Restart("run-2", true)
		m.Set(func() { m.Ahead = time.Minute })
		time.Sleep(time.Second)
		if o := h.last(); o.ServerInfo.RunID != "run-2" || !o.Stepped {
			t.Errorf("observed %+v", o)
		}
		l.Forgive()
	})
	inBubble(t, func(t *testing.T, m *fake.Master) { // without the guard the lane does not look
		l, h := start(t, m, func(c *LaneConfig) { c.Unguarded = true })
		m.Set(func() { m.Ahead = time.Hour })
		l.Probe()
		synctest.Wait()
		if o := h.last(); o.Stepped || l.Status().State != stat.StateVoting {
			t.Errorf("observed %+v", o)
		}
	})
}
