package master

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// The answers of a master do not count if its record has changed, its clock has stepped, or it has
// become a replica. It carries out releases all the same.
func TestVotesDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *fake.Master)
		want   string
		back   func(m *fake.Master)
	}{
		"record": {
			func(m *fake.Master) { m.SetState("record", "A run-1 fingerprint 2-0-00") },
			"acquire not run: has lost its record, check not run: has lost its record, release void: has lost its record",
			func(*fake.Master) {},
		},
		"clock": {
			func(m *fake.Master) { m.Ahead = time.Hour },
			"acquire not run: has stepped its clock, check void: has stepped its clock, release void: has stepped its clock",
			func(*fake.Master) {},
		},
		"replica": {
			func(m *fake.Master) {
				m.Denied, m.Role = "READONLY You can't write against a read only replica.", "slave"
			},
			`acquire void: answered "READONLY You can't write against a read only replica.", check void: has lost its record, release void: has lost its record`,
			func(m *fake.Master) { m.Denied, m.Role = "", "master" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				l, h := start(t, m)
				h.note(func() { h.hold = true })
				m.Set(func() { c.change(m) })
				var got collect
				wantThree(t, l, &got, c.want)
				if err := l.Ask(op(wire.Check, tokenAt("k", 1)), &got); err == nil {
					t.Error("it still votes")
				}
				// A release goes to a master that does not vote, too. Its answer is none.
				if err := l.Release(unlock(tokenAt("a", 1)), time.Minute, true, &got); err == nil {
					t.Error("a release counts as an answer")
				}
				l.Flush()
				synctest.Wait()
				if got.String() != c.want {
					t.Errorf("answered %s\nwant %s", got.String(), c.want)
				}
				m.Set(func() { c.back(m) })
				h.note(func() { h.hold = false })
				time.Sleep(5 * time.Second)
				noKeys(t, m)
				if s := l.Status(); s.State != stat.StateVoting || s.Repairs != 0 {
					t.Errorf("it does not vote again: %+v", s)
				}
			})
		})
	}
}

// wantThree asks for an acquire, a check and a release in one packet, and fails unless it gets
// these answers.
func wantThree(t *testing.T, l *Lane, got *collect, want string) {
	t.Helper()
	_ = l.Ask(op(wire.Acquire, tokenAt("a", 1)), got)
	_ = l.Ask(op(wire.Check, tokenAt("b", 2)), got)
	if err := l.Release(unlock(tokenAt("c", 3)), time.Minute, true, got); err != nil {
		t.Fatal(err)
	}
	l.Flush()
	synctest.Wait()
	if got.String() != want {
		t.Errorf("answered %s\nwant %s", got.String(), want)
	}
}

// TestReadOnlyIsRemembered: a server that refuses writes as a replica does has been one, also if
// it is a master again when it is asked.
func TestReadOnlyIsRemembered(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("whole packet ", whole), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				l, h := start(t, m)
				h.note(func() { h.hold = true })
				m.Set(func() { m.Denied = "READONLY no writes" })
				if whole {
					answering(m, "packet", "-READONLY no writes\r\n")
				}
				mustAsk(t, l, op(wire.Acquire, tokenAt("a", 1)), nil)
				synctest.Wait()
				if o := h.last(); !o.Demoted || l.MayServe() == nil {
					t.Errorf("observed %+v, may serve: %v", o, l.MayServe())
				}
			})
		})
	}
}

// TestFreeCounts: the answer to a Free is no vote.
func TestFreeCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		h.note(func() { h.hold = true })
		m.Set(func() {
			m.SetState("record", "another")
			m.SetLock("lock:k", secret(1), 1, "", time.Now().Add(time.Hour))
		})
		var c collect
		mustAsk(t, l, op(wire.Free, tokenAt("k", 0)), &c)
		synctest.Wait()
		if got := c.String(); got != "free 1" {
			t.Errorf("answered %s", got)
		}
	})
}

// TestStaleObservation: the votes that a proxy asks for after it was stopped do not count before
// it has probed once more.
func TestStaleObservation(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		l.mu.Lock()
		l.server.until -= 2*time.Second + time.Millisecond // as if this process had been stopped
		l.mu.Unlock()
		seen := len(h.sofar().observed)
		var c collect
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
		synctest.Wait()
		if got := c.String(); got != "acquire again: has an admission that was not confirmed for 2s" ||
			len(h.sofar().observed) != seen+1 {
			t.Errorf("answered %s, %d observations, want one more than %d", got, len(h.sofar().observed), seen)
		}
		mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		synctest.Wait()
		if got := c.all()[1]; got != "check 1" {
			t.Errorf("after the probe: %s", got)
		}
	})
}

// TestSuspendAges: after a suspend of this machine the master's clock is further on. That is no
// step, but earlier observations are old.
func TestSuspendAges(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		l.mu.Lock()
		l.server.asleep -= 3 * time.Second // the suspend has come since
		l.server.offset.Forget()
		now := l.cfg.clock()
		l.server.offset.Stepped("run-1", now, now, time.Duration(time.Now().UnixNano()), l.server.asleep)
		l.mu.Unlock()
		m.Set(func() { m.Ahead = 3 * time.Second })
		var c collect
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
		synctest.Wait()
		if got := c.String(); got != "acquire again: has an admission that was not confirmed for 2s" || h.last().Stepped {
			t.Errorf("answered %s, observed %+v", got, h.last())
		}
	})
}
