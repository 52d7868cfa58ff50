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

// TestOperationsKeepTheirOrder: the master carries operations out in the order in which they were
// asked, inside packets and between them, and the answers come in that order.
func TestOperationsKeepTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var log packetLog
		log.keep(m)
		m.Pause()
		var c collect
		var want, said []string
		for i := range 300 {
			ran, says := queueThird(t, l, i, &c)
			want, said = append(want, ran), append(said, says)
			switch i {
			case 9:
				l.Flush() // goes out, and waits at the paused master
				synctest.Wait()
			case 99:
				_ = l.Send(wire.AppendCommand(nil, "PING"), func(*wire.Reply, error) { c.add("pong") })
				said = append(said, "pong")
				synctest.Wait() // also goes out
			}
		}
		l.Flush()
		m.Resume()
		synctest.Wait()
		// Tokens have no order among them.
		slices.SortStableFunc(log.ops, func(a, b string) int { return strings.Compare(keyOf(a), keyOf(b)) })
		slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(keyOf(a), keyOf(b)) })
		if !slices.Equal(log.ops, want) {
			t.Errorf("carried out %v\nwant %v", log.ops, want)
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
		if sizes := []int{10, wire.MaxOps, 26, wire.MaxOps, wire.MaxOps, wire.MaxOps, 8}; !slices.Equal(log.sizes, sizes) {
			t.Errorf("packets of %v operations, want %v: what waits travels together", log.sizes, sizes)
		}
		noKeys(t, m)
	})
}

// packetLog is the packets that a master carries out.
type packetLog struct {
	sizes []int
	ops   []string // of all packets
}

// keep makes a master log its packets.
func (p *packetLog) keep(m *fake.Master) {
	m.Set(func() {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			if len(c.Ops) > 0 {
				p.sizes = append(p.sizes, len(c.Ops))
			}
			for i := range c.Ops {
				p.ops = append(p.ops, c.Ops[i].Name+" "+c.Ops[i].Key)
			}
			return 0, ""
		}
	})
}

// queueThird queues the acquire, the check or the release of a token, by turns. It returns the
// operation as the master sees it, and its answer.
func queueThird(t *testing.T, l *Lane, i int, c *collect) (ran, says string) {
	t.Helper()
	key := tokenAt(fmt.Sprint("k", i/3), i/3)
	kind, err := wire.Acquire, error(nil)
	switch says = "acquire 1"; i % 3 {
	case 1:
		kind, says = wire.Check, "check 1"
	case 2:
		kind, says = wire.Release, "release 1"
	}
	if kind == wire.Release {
		err = l.Release(op(kind, key), time.Minute, false, c)
	} else {
		err = l.Ask(op(kind, key), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return names[kind] + " " + key.Key, says
}

// keyOf is the key in "acquire lock:k".
func keyOf(op string) string { return op[strings.IndexByte(op, ' '):] }

// Queued operations wait for Flush.
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

// A lane without room takes no more acquires, but every operation of holders. With 65,536
// unanswered requests it refuses these, too. Repairs go out when there is room.
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

// Each answer reaches its own operation, however many callers ask at the same time.
func TestRepliesMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Set(func() { m.SetLock("lock:k", secret(1), 1, "", time.Now().Add(time.Hour)) })
		for g := range 8 {
			go func() {
				for i := range 200 {
					checkOne(t, l, (i+g)%3 == 0)
				}
			}()
		}
		time.Sleep(time.Second)
	})
}

// checkOne checks the token that holds the key k, or another one.
func checkOne(t *testing.T, l *Lane, holds bool) {
	n, want := 2, "check 0"
	if holds {
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

// When the connection breaks, the answers distinguish operations that were never written from
// operations that may land.
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

// A closing lane takes no operations but releases, and reports each answer.
func TestClosingLaneTakesOnlyReleases(t *testing.T) {
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
