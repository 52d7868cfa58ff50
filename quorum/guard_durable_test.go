package quorum

import (
	"maps"
	"testing"
	"time"
)

// An append-only file that was switched off is an old copy when it is read again.
func TestDurableSwitchedOff(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, s *sim) {
		s.each(0, 1, makeDurable)
		q := s.guarded()
		time.Sleep(2 * time.Second)
		m := s.masters[0]
		var file map[string]string
		m.set(func() { file = maps.Clone(m.state) })
		m.set(func() { m.facts["aof_enabled"], m.config["appendonly"] = "0", "no" })
		time.Sleep(2 * time.Second)
		m.restart("run-0b", false)
		m.set(func() { m.state = file })
		makeDurable(m)
		time.Sleep(time.Second)
		wantStates(t, q, "with the old file", "qvv")
	})
}

// A clock that was set while the machine was off makes keys run out early, however durable.
func TestDurableClockSetMeanwhile(t *testing.T) {
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		inBubble(t, 3, func(t *testing.T, s *sim) {
			s.each(0, 2, makeDurable)
			q := s.guarded()
			time.Sleep(2 * time.Second)
			mustAcquire(t, q, "job", time.Minute)
			s.each(0, 2, func(m *fakeMaster) {
				m.stop()
				m.set(func() { m.ahead = step })
			})
			time.Sleep(5 * time.Second)
			s.each(0, 2, func(m *fakeMaster) { m.restart(m.runID+"b", true) })
			time.Sleep(time.Second)
			wantHeldOff(t, q, "job", "")
			wantStates(t, q, "restarted with another clock", "qqv")
			time.Sleep(minuteAndMargin)
			wantStates(t, q, "after the wait", "vvv")
		})
	}
}

func TestDurableFacts(t *testing.T) {
	info := func(lines string) string {
		return "aof_enabled:1\r\naof_last_write_status:ok\r\nconnected_slaves:0\r\n" + lines
	}
	config := &reply{kind: '*', texts: []string{"appendonly", "yes", "appendfsync", "always", "no-appendfsync-on-rewrite", "no"}}
	var f facts
	f.readInfo(info(""))
	if f.durable() {
		t.Error("durable before CONFIG was asked")
	}
	f.readConfig(config)
	if !f.durable() || f.perishable() {
		t.Errorf("not durable: %+v", f)
	}
	// CONFIG SET appendonly yes while a snapshot is written: nothing goes to the file until the rewrite that waits for it.
	f.readInfo(info("aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:1\r\n"))
	if f.durable() {
		t.Error("durable while the first rewrite waits")
	}
	// What CONFIG said before the file was switched off proves nothing when it is on again.
	f.readInfo("aof_enabled:0\r\n")
	f.readInfo(info(""))
	if f.durable() {
		t.Error("durable before CONFIG was asked anew")
	}
	f.readConfig(&reply{kind: '-', text: "BUSY Redis is busy running a script."})
	if f.durable() || f.notAsked {
		t.Errorf("CONFIG is given up after BUSY: %+v", f)
	}
	for _, text := range []string{"NOPERM this user has no permissions", "ERR unknown command 'CONFIG'"} {
		if f.readConfig(&reply{kind: '-', text: text}); !f.notAsked {
			t.Errorf("%s: asked again", text)
		}
	}
}
