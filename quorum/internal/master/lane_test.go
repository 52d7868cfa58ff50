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

// TestOrder: the master carries operations out in the order in which they were asked, inside
// packets and between them, and the answers come in that order.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var packets []int
		var seen []string
		m.Set(func() {
			m.Hook = func(c *fake.Command) (time.Duration, string) {
				if len(c.Ops) > 0 {
					packets = append(packets, len(c.Ops))
				}
				for i := range c.Ops {
					seen = append(seen, c.Ops[i].Name+" "+c.Ops[i].Key)
				}
				return 0, ""
			}
		})
		m.Pause()
		var c collect
		var want, said []string
		for i := range 300 {
			key := fmt.Sprint("k", i/3)
			kind, says := wire.Acquire, "acquire 1"
			switch i % 3 {
			case 1:
				kind, says = wire.Check, "check 1"
			case 2:
				kind, says = wire.Release, "release 1"
			}
			o := op(kind, tokenAt(key, i/3))
			if kind == wire.Release {
				if err := l.Release(o, time.Minute, false, &c); err != nil {
					t.Fatal(err)
				}
			} else if err := l.Ask(o, &c); err != nil {
				t.Fatal(err)
			}
			want, said = append(want, names[kind]+" lock:"+key), append(said, says)
			switch i {
			case 9:
				l.Flush() // goes out, and waits at the paused master
				synctest.Wait()
			case 99:
				_ = l.Send(wire.AppendCommand(nil, "PING"), func(*wire.Reply, error) { c.mu.Lock(); c.got = append(c.got, "pong"); c.mu.Unlock() })
				said = append(said, "pong")
			}
		}
		l.Flush()
		m.Resume()
		synctest.Wait()
		// Tokens have no order among them.
		slices.SortStableFunc(seen, func(a, b string) int { return strings.Compare(keyOf(a), keyOf(b)) })
		slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(keyOf(a), keyOf(b)) })
		if !slices.Equal(seen, want) {
			t.Errorf("carried out %v\nwant %v", seen, want)
		}
		// Every fence of a counter is one more, so only the form is compared.
		got := c.all()
		for i := range got {
			if strings.HasPrefix(got[i], "acquire ") {
				got[i] = "acquire 1"
			}
		}
		if !slices.Equal(got, said) {
			t.Errorf("answered %v\nwant %v", got, said)
		}
		if slices.Max(packets) != wire.MaxOps || packets[0] != 10 || len(packets) > 9 {
			t.Errorf("packets of %v operations: what waits travels together, at most %d", packets, wire.MaxOps)
		}
		noKeys(t, m)
	})
}

// keyOf is the key in "acquire lock:k".
func keyOf(op string) string { return op[strings.IndexByte(op, ' '):] }

// TestNothingGoesWithoutFlush: what is queued waits for the end of the turn.
func TestNothingGoesWithoutFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		if err := l.Ask(op(wire.Check, tokenAt("k", 1)), &c); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := c.String(); got != "" {
			t.Errorf("answered %s before Flush", got)
		}
		l.Flush()
		synctest.Wait()
		if got := c.String(); got != "check 0" {
			t.Errorf("answered %q after Flush", got)
		}
	})
}

// TestDeadlineKeepsLane: the lane outlives a pause shorter than the silence that kills it.
func TestDeadlineKeepsLane(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		var c collect
		m.Pause()
		mustAsk(t, l, op(wire.Acquire, tokenAt("job", 1)), &c)
		time.Sleep(1900 * time.Millisecond)
		m.Resume()
		synctest.Wait()
		if got := c.String(); got != "acquire 1" || m.Ran("CLIENT ID") != 1 || h.sofar().lost != 0 {
			t.Errorf("answered %s on connection %d, %d lost", got, m.Ran("CLIENT ID"), h.sofar().lost)
		}
	})
}

// TestSilentLaneDies: a PING that goes unanswered for two seconds ends the connection.
func TestSilentLaneDies(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		m.Pause()
		began := time.Now()
		for l.Status().State == stat.StateVoting {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("dead after %v, want 2s to 3s", took)
		}
		if s := l.Status(); s.State != stat.StateDown || s.Reason != "gave no answer in 2s" {
			t.Errorf("status %+v", s)
		}
		m.Resume()
		time.Sleep(5 * time.Second)
		if s := l.Status(); s.State != stat.StateVoting || s.Lost != 1 || h.sofar().lost == 0 {
			t.Errorf("status %+v, want voting again", s)
		}
	})
}

// TestFullLane: a lane without room takes no more acquires, but everything that holders ask for. With
// 65,536 unanswered requests it refuses that, too. What the master misses goes out when there is room.
func TestFullLane(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Pause()
		var c collect
		l.SetRoom(1000)
		for i := range maxHolders {
			if i == 1000 {
				if err := l.Ask(op(wire.Acquire, tokenAt("k", i)), &c); err != ErrFull {
					t.Errorf("one more acquire: %v", err)
				}
			}
			if err := l.Ask(op(wire.Check, tokenAt("k", i)), &c); err != nil {
				t.Fatalf("operation %d: %v", i, err)
			}
		}
		l.Flush()
		if err := l.Ask(op(wire.Check, tokenAt("k", 1)), &c); err != ErrFull {
			t.Errorf("one more: %v", err)
		}
		m.Set(func() { m.SetLock("lock:job", secret(1), 1, "", time.Now().Add(time.Hour)) })
		if err := l.Release(unlock(tokenAt("job", 1)), time.Minute, true, &c); err == nil {
			t.Error("a release was taken")
		}
		m.Resume()
		synctest.Wait()
		noKeys(t, m)
		if got := c.all(); len(got) != maxHolders || l.Status().Repairs != 0 {
			t.Errorf("%d answers, want %d; %d repairs left", len(got), maxHolders, l.Status().Repairs)
		}
	})
}

// TestRepliesMatch: answers reach the operations they belong to, whoever asks at the same time.
func TestRepliesMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Set(func() { m.SetLock("lock:k", secret(1), 1, "", time.Now().Add(time.Hour)) })
		for g := range 8 {
			go func() {
				for i := range 200 {
					n, want := 2, "check 0"
					if (i+g)%3 == 0 {
						n, want = 1, "check 1"
					}
					var c collect
					mustAsk(t, l, op(wire.Check, tokenAt("k", n)), &c)
					for c.String() == "" {
						time.Sleep(time.Millisecond)
					}
					if got := c.String(); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
			}()
		}
		time.Sleep(time.Second)
	})
}

// TestConnectionLostSaysWhatWasWritten: operations that were never written are told apart from
// those that may land.
func TestConnectionLostSaysWhatWasWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Pause()
		var c collect
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
		synctest.Wait()
		if err := l.Ask(op(wire.Raise, tokenAt("k", 1)), &c); err != nil {
			t.Fatal(err)
		}
		m.Cut()
		synctest.Wait()
		if got := c.String(); got != "acquire may land, raise not run: closed the connection" {
			t.Errorf("got %s", got)
		}
	})
}

// TestClose: a lane that closes takes nothing new but releases, and tells when they are answered.
func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		var c collect
		mustAsk(t, l, op(wire.Acquire, tokenAt("job", 1)), &c)
		synctest.Wait()
		l.BeginClose()
		if err := l.Ask(op(wire.Check, tokenAt("job", 1)), &c); err != ErrClosing {
			t.Errorf("Ask: %v", err)
		}
		m.Pause()
		if err := l.Release(unlock(tokenAt("job", 1)), time.Minute, true, nil); err != nil || l.PendingReleases() != 1 {
			t.Errorf("Release: %v, %d releases pending", err, l.PendingReleases())
		}
		l.Flush()
		synctest.Wait()
		if h.sofar().drained != 0 {
			t.Error("drained too early")
		}
		m.Resume()
		synctest.Wait()
		if h.sofar().drained == 0 || l.PendingReleases() != 0 {
			t.Errorf("reported %d times, %d releases pending", h.sofar().drained, l.PendingReleases())
		}
		noKeys(t, m)
	})
}
