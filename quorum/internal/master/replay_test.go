package master

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

// carriedOut logs the commands that the master carries out from here on, and for a packet its
// operations.
func carriedOut(m *fake.Master, log *[]string) {
	m.Set(func() {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			m.Set(func() {
				if len(c.Ops) == 0 {
					*log = append(*log, c.Name)
				}
				for i := range c.Ops {
					*log = append(*log, c.Ops[i].Name)
				}
			})
			return 0, ""
		}
	})
}

// TestMissedReleasesGoBeforeNewWork: after a break the connection before is killed, then the
// master gets the releases that it missed, and only then new work. A SET that was on its way is
// never carried out after that.
func TestMissedReleasesGoBeforeNewWork(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		k := tokenAt("job", 1)
		m.Pause()
		mustAsk(t, l, op(wire.Acquire, k), &c)
		if err := l.Release(unlock(k), time.Minute, false, &c); err != nil {
			t.Fatal(err)
		}
		l.Flush()
		synctest.Wait()
		m.Cut() // the written bytes are still in the master's buffers
		time.Sleep(3 * time.Second)
		if got := c.String(); got != "acquire may land, release may land" || l.Status().Repairs != 1 {
			t.Errorf("answered %s, %d pending", got, l.Status().Repairs)
		}
		var log []string
		carriedOut(m, &log)
		m.Resume()
		time.Sleep(3 * time.Second)
		noKeys(t, m)
		mustAsk(t, l, op(wire.Acquire, tokenAt("job", 2)), &c)
		synctest.Wait()
		if _, ours := m.Holds("lock:job", secret(2)); !ours {
			t.Error("the master does not vote again")
		}
		order := strings.Join(log, ",")
		kill, release, acquire := strings.Index(order, "CLIENT KILL"), strings.LastIndex(order, "release"),
			strings.LastIndex(order, "acquire")
		if kill < 0 || release < kill || acquire < release {
			t.Errorf("carried out %s: want CLIENT KILL, release, acquire", order)
		}
		if s := l.Status(); s.Repairs != 0 || s.State != stat.StateVoting {
			t.Errorf("status %+v", s)
		}
	})
}

// TestReplayComesFirst: a master votes only when it has answered everything that it missed, which
// comes in full packets.
func TestReplayComesFirst(t *testing.T) {
	const n = maxUnanswered + 1000 // more than the lane carries at once
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		for i := range n {
			mustAsk(t, l, op(wire.Acquire, tokenAt(fmt.Sprint(i), i)), &c)
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		for i := range n {
			if err := l.Release(unlock(tokenAt(fmt.Sprint(i), i)), time.Minute, true, nil); err == nil {
				t.Fatal("no error while it is down")
			}
		}
		packets := countPackets(t, m)
		m.Start()
		for l.Status().State != stat.StateVoting {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		noKeys(t, m)
		if s := l.Status(); s.Repairs != 0 || s.Errors != 0 || *packets > n/wire.MaxOps+3 {
			t.Errorf("%d pending, %d packets, %d errors", s.Repairs, *packets, s.Errors)
		}
	})
}

// countPackets makes the master take 10ms for a packet, and counts them.
func countPackets(t *testing.T, m *fake.Master) *int {
	packets := new(int)
	m.Set(func() {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			if len(c.Ops) > wire.MaxOps {
				t.Errorf("a packet of %d operations", len(c.Ops))
			}
			if len(c.Ops) > 0 {
				*packets++
				return 10 * time.Millisecond, ""
			}
			return 0, ""
		}
	})
	return packets
}

// TestReplayKeepsWhatFails: a release that is answered with an error is sent again.
func TestReplayKeepsWhatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		k := tokenAt("job", 1)
		mustAsk(t, l, op(wire.Acquire, k), nil)
		synctest.Wait()
		m.Stop()
		synctest.Wait()
		_ = l.Release(unlock(k), time.Minute, true, nil)
		m.Set(func() { m.Denied = "MISCONF no disk" })
		m.Start()
		time.Sleep(2 * time.Second)
		if s := l.Status(); s.Repairs != 1 || s.State != stat.StateVoting {
			t.Errorf("status %+v", s)
		}
		m.Set(func() { m.Denied = "" })
		time.Sleep(time.Second)
		noKeys(t, m)
		if len(h.sofar().late) != 0 {
			t.Errorf("%d late releases, though no master had said that the token was not its own", len(h.sofar().late))
		}
	})
}

// TestKillUntilItIsAnswered: a connection is killed by the next ones until one of these gets the
// answer.
func TestKillUntilItIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var killed []string
		m.Set(func() {
			m.Hook = func(c *fake.Command) (time.Duration, string) {
				if c.Name != "CLIENT KILL" {
					return 0, ""
				}
				if killed = append(killed, c.Args[3]); len(killed) < 3 {
					return 0, "garbage\r\n"
				}
				return 0, ""
			}
		})
		m.Cut()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !slices.Equal(killed, []string{"1", "1", "1"}) || l.Status().State != stat.StateVoting {
			t.Errorf("killed %v, status %+v", killed, l.Status())
		}
	})
}

// TestNewProcess: with another run_id the lane kills no connection, because ids start anew.
func TestNewProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		m.Stop()
		synctest.Wait()
		h.note(func() {
			if len(h.claimed) != 0 {
				t.Errorf("it keeps its claim: %v", h.claimed)
			}
		})
		m.Restart("run-2", false)
		time.Sleep(time.Second)
		if s := l.Status(); s.State != stat.StateVoting || s.RunID != "run-2" || m.Ran("CLIENT KILL") != 0 {
			t.Errorf("%d times CLIENT KILL, status %+v", m.Ran("CLIENT KILL"), s)
		}
	})
}

// TestKillForbidden: where CLIENT KILL or CLIENT ID is forbidden the lane goes on.
func TestKillForbidden(t *testing.T) {
	for _, name := range []string{"CLIENT KILL", "CLIENT ID", "CLIENT SETNAME"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				answering(m, name, "-NOPERM no\r\n")
				l, _ := start(t, m)
				m.Cut()
				time.Sleep(time.Second)
				if s := l.Status(); s.State != stat.StateVoting || s.Lost != 1 {
					t.Errorf("%s: status %+v", name, s)
				}
			})
		})
	}
}
