package master

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

const noPerm = `not run: answered "NOPERM this user has no permissions to access one of the keys used as arguments"`

// forbidding lets the master's user have all keys but lock:no, and returns what lists the packets
// that came since it was asked last: "extend lock:a, check lock:a | release lock:a".
func forbidding(m *fake.Master) (packets func() string) {
	var seen []string
	m.Set(func() {
		m.Forbids = func(key string) bool { return key == "lock:no" }
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			var ops []string
			for i := range c.Ops {
				ops = append(ops, c.Ops[i].Name+" "+strings.TrimPrefix(c.Ops[i].Key, "lock:"))
			}
			if len(ops) > 0 {
				m.Set(func() { seen = append(seen, strings.Join(ops, ", ")) })
			}
			return 0, ""
		}
	})
	return func() (all string) {
		m.Set(func() { all, seen = strings.Join(seen, " | "), nil })
		return all
	}
}

// TestForbiddenKey: a forbidden key fails the operation that names it. The others of its packet
// go out again alone, in their order and before all unsent ones. Acquires ask again, and a top-up
// waits for the next tick.
func TestForbiddenKey(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		packets := forbidding(m)
		var c collect
		held := tokenAt("held", 1)
		mustAsk(t, l, op(wire.Acquire, held), &c)
		synctest.Wait()
		c.got = nil
		packets()
		m.Pause()
		for _, o := range []wire.Op{op(wire.Extend, held), op(wire.Acquire, tokenAt("other", 2)),
			op(wire.Check, tokenAt("no", 3)), op(wire.Acquire, tokenAt("no", 4))} {
			if err := l.Ask(o, &c); err != nil {
				t.Fatal(err)
			}
		}
		l.TopUp(lacks(topUp(tokenAt("filled", 5))))
		if err := l.Release(unlock(held), time.Minute, true, &c); err != nil {
			t.Fatal(err)
		}
		l.Flush()
		synctest.Wait()
		mustAsk(t, l, op(wire.Acquire, tokenAt("held", 6)), &c) // waits for the answers
		synctest.Wait()
		m.Resume()
		synctest.Wait()
		want := "acquire noperm, acquire noperm, extend 0000000000000001, check " + noPerm + ", release 1, acquire 2"
		if got := c.String(); got != want {
			t.Errorf("answered %s\nwant %s", got, want)
		}
		const together = "acquire other, extend held, check no, acquire no, topup filled, release held"
		if got := packets(); got != together+" | extend held | check no | release held | acquire held" {
			t.Errorf("packets %s", got)
		}
		if n := l.Status().ByKind["NOPERM"]; n != 2 {
			t.Errorf("%d errors, want that of the packet and that of the check", n)
		}
		time.Sleep(1100 * time.Millisecond)
		if _, ours := m.Holds("lock:filled", secret(5)); !ours || l.Status().Repairs != 0 {
			t.Errorf("the top-up was not sent again: %d pending", l.Status().Repairs)
		}
	})
}

// TestAloneForAWhile: after a forbidden packet operations go out one by one for a while, all in
// one write. So the next forbidden one has no packet to spoil.
func TestAloneForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		packets := forbidding(m)
		n := 0
		ask := func(want string) {
			t.Helper()
			var c collect
			for _, key := range []string{"a", "no", "b"} {
				n++
				_ = l.Ask(op(wire.Check, tokenAt(key, n)), &c)
			}
			l.Flush()
			synctest.Wait()
			if got := c.String(); got != "check 0, check "+noPerm+", check 0" {
				t.Errorf("answered %s", got)
			}
			if got := packets(); got != want {
				t.Errorf("packets %s\nwant %s", got, want)
			}
		}
		packets()
		const alone, shared = "check a | check no | check b", "check a, check no, check b"
		ask(shared + " | " + alone)
		ask(alone)
		time.Sleep(aloneFor - time.Microsecond)
		ask(alone) // and for a while from here on
		time.Sleep(aloneFor - time.Microsecond)
		ask(alone)
		time.Sleep(aloneFor)
		ask(shared + " | " + alone)
	})
}

// TestForbiddenBesideScriptFlush: the master answers NOPERM and NOSCRIPT to the same operations.
// The allowed ones are carried out all the same, and each goes out a bounded number of times.
func TestForbiddenBesideScriptFlush(t *testing.T) {
	for name, flush := range map[string]func(m *fake.Master, packets int) bool{
		"before the packet":      func(_ *fake.Master, packets int) bool { return packets == 1 },
		"behind it":              func(_ *fake.Master, packets int) bool { return packets == 2 },
		"behind the first alone": func(_ *fake.Master, packets int) bool { return packets == 3 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				l, _ := start(t, m)
				var c collect
				held := tokenAt("held", 1)
				mustAsk(t, l, op(wire.Acquire, held), &c)
				synctest.Wait()
				packets := forbidding(m)
				flushScriptsAt(m, flush)
				for _, o := range []wire.Op{op(wire.Check, tokenAt("no", 2)), op(wire.Extend, held),
					op(wire.Check, tokenAt("no", 3))} {
					_ = l.Ask(o, &c)
				}
				if err := l.Release(unlock(held), time.Minute, true, &c); err != nil {
					t.Fatal(err)
				}
				l.Flush()
				synctest.Wait()
				want := fmt.Sprintf("acquire 1, check %s, extend 0000000000000001, check %s, release 1", noPerm, noPerm)
				if got := c.String(); got != want {
					t.Errorf("answered %s\nwant %s\npackets %s", got, want, packets())
				}
				noKeys(t, m)
			})
		})
	}
}

// flushScriptsAt flushes the scripts before a packet if flush says so; it gets the packet's
// number.
func flushScriptsAt(m *fake.Master, flush func(m *fake.Master, packets int) bool) {
	note, n := m.Hook, 0
	m.Set(func() {
		m.Hook = func(cmd *fake.Command) (time.Duration, string) {
			if cmd.Name != "packet" {
				return note(cmd)
			}
			if n++; flush(m, n) {
				m.FlushScripts()
				return 0, "-NOSCRIPT No matching script.\r\n"
			}
			return note(cmd)
		}
	})
}

// TestForbiddenCommand: a user without the right to run scripts fails every operation, after one
// more try.
func TestForbiddenCommand(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		answering(m, "packet", "-NOPERM no evalsha\r\n")
		var c collect
		for range 2 {
			_ = l.Ask(op(wire.Check, tokenAt("k", 1)), &c)
			_ = l.Ask(op(wire.Acquire, tokenAt("k", 2)), &c)
			l.Flush()
			synctest.Wait()
		}
		const no = `not run: answered "NOPERM no evalsha"`
		if got := c.String(); got != "acquire noperm, check "+no+", check "+no+", acquire "+no {
			t.Errorf("answered %s", got)
		}
		if n := l.Status().ByKind["NOPERM"]; n != 4 {
			t.Errorf("%d errors, want 4", n)
		}
	})
}

// TestForbiddenRelease: a release that is forbidden is tried again, by itself. The others travel
// together all the same.
func TestForbiddenRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		packets := forbidding(m)
		if err := l.Release(unlock(tokenAt("no", 1)), time.Minute, true, nil); err != nil {
			t.Fatal(err)
		}
		l.Flush()
		time.Sleep(aloneFor + 10*time.Millisecond)
		packets()
		m.Pause()
		time.Sleep(tickEvery) // it is due, and waits at the master
		for i := range 3 {
			_ = l.Ask(op(wire.Check, tokenAt("k", i)), nil)
		}
		m.Resume()
		l.Flush()
		synctest.Wait()
		if got := packets(); got != "release no | check k, check k, check k" {
			t.Errorf("packets %s", got)
		}
		m.Set(func() { m.Forbids = nil })
		time.Sleep(tickEvery)
		if n := l.Status().Repairs; n != 0 {
			t.Errorf("%d pending", n)
		}
	})
}

// TestManyForbiddenReleases: releases of forbidden keys leave room in the queue, and each is
// tried in turn.
func TestManyForbiddenReleases(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		forbidding(m)
		const releases = maxUnanswered + maxAlone
		for i := range releases {
			if err := l.Release(unlock(tokenAt("no", i)), time.Minute, true, nil); err != nil {
				t.Fatal(err)
			}
			if i%wire.MaxOps == 0 {
				l.Flush()
				synctest.Wait()
			}
		}
		l.Flush()
		synctest.Wait()
		m.Pause()
		time.Sleep(tickEvery) // they are due, and wait at the master
		if err := l.Ask(op(wire.Check, tokenAt("k", 1)), nil); err != nil {
			t.Errorf("an operation beside them: the master %v", err)
		}
		m.Set(func() { m.Forbids = nil })
		m.Resume()
		for left := releases; left > 0; left = l.Status().Repairs {
			time.Sleep(tickEvery)
			synctest.Wait() // the tick may be due at this instant
			if next := l.Status().Repairs; next >= left {
				t.Fatalf("%d pending, before the last tick %d", next, left)
			}
		}
	})
}
