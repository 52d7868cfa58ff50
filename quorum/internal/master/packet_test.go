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

// answering makes the master answer every command of that name with reply.
func answering(m *fake.Master, name, reply string) {
	m.Set(func() {
		m.Hook = func(c *fake.Command) (time.Duration, string) {
			if c.Is(name) || strings.HasPrefix(c.Name, name) {
				return 0, reply
			}
			return 0, ""
		}
	})
}

// TestScriptFlush: after SCRIPT FLUSH acquires and top-ups fail for this time. Everything else
// goes out again, in its order and with the body of the script.
func TestScriptFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		held, other := tokenAt("held", 1), tokenAt("other", 2)
		mustAsk(t, l, op(wire.Acquire, held), &c)
		synctest.Wait()
		for range 3 {
			askAfterFlush(t, l, m, held, other, &c)
		}
		time.Sleep(1100 * time.Millisecond)
		if _, ours := m.Holds("lock:filled", secret(3)); !ours || l.Status().Repairs != 0 {
			t.Errorf("the top-up was not sent again: %d pending", l.Status().Repairs)
		}
		if n := noScripts(m); n != 3 {
			t.Errorf("%d NOSCRIPT, want one for each flush", n)
		}
		c.got = nil
		m.FlushScripts()
		for range 2 { // an acquire is not sent again: the next packet brings the body
			mustAsk(t, l, op(wire.Acquire, other), &c)
			synctest.Wait()
		}
		if got := c.all(); len(got) != 2 || got[0] != "acquire noscript" || got[1] == got[0] {
			t.Errorf("answered %s", got)
		}
	})
}

// askAfterFlush sends a packet after SCRIPT FLUSH: all its operations but acquires and top-ups go
// out again.
func askAfterFlush(t *testing.T, l *Lane, m *fake.Master, held, other wire.TokenAt, c *collect) {
	t.Helper()
	c.got = nil
	m.FlushScripts()
	for _, o := range []wire.Op{op(wire.Check, held), op(wire.Acquire, other), op(wire.Extend, held)} {
		if err := l.Ask(o, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Release(op(wire.Release, other), time.Minute, false, c); err != nil {
		t.Fatal(err)
	}
	l.TopUp(lacks(topUp(tokenAt("filled", 3))))
	l.Flush()
	synctest.Wait()
	const want = "acquire noscript, check 1, extend 0000000000000001, release 0"
	if got := c.String(); got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
	if _, ours := m.Holds("lock:filled", secret(3)); ours {
		t.Error("the top-up went out again at once: its release may have been behind it")
	}
}

// A release still follows its acquire if both go out twice.
func TestScriptFlushKeepsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		k := tokenAt("k", 1)
		mustAsk(t, l, op(wire.Acquire, k), &c)
		synctest.Wait()
		m.FlushScripts()
		m.Pause()
		for range 3 {
			mustAsk(t, l, op(wire.Extend, k), &c)
			synctest.Wait()
		}
		if err := l.Release(unlock(k), time.Minute, true, &c); err != nil {
			t.Fatal(err)
		}
		l.Flush()
		synctest.Wait()
		m.Resume()
		synctest.Wait()
		if got := c.String(); got != "acquire 1"+strings.Repeat(", extend 0000000000000001", 3)+", release 1" {
			t.Errorf("answered %s", got)
		}
		noKeys(t, m)
	})
}

// TestOperationsTravelTogether: while a packet is on its way others wait for its answer, so that
// they travel together; not for long, and not when they fill a packet.
func TestOperationsTravelTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Pause()
		var c collect
		unsent := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.queue.unsent
		}
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := unsent(); n != want {
				t.Errorf("%s: %d unsent, want %d", when, n, want)
			}
		}
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
		for range gatherFrom - 1 {
			check("few", 0)
			mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		}
		check("the first that may wait", 0)
		mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		time.Sleep(gather - time.Microsecond)
		if left := l.Flush(); left != time.Microsecond {
			t.Errorf("waits for %v more, want 1µs", left)
		}
		mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		check("behind it", 2)
		time.Sleep(time.Microsecond)
		if left := l.Flush(); left != 0 {
			t.Errorf("waits for %v more", left)
		}
		check("after a while", 0)
		for i := range wire.MaxOps {
			check("not full", i)
			mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		}
		check("full", 0)
		mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		check("behind the full one", 1)
		m.Resume()
		check("answered", 0)
		if got := len(c.all()); got != gatherFrom+2+wire.MaxOps+1 {
			t.Errorf("%d answers", got)
		}
	})
}

// TestScriptFlushKeepsOrderOfUnsent: what goes out for the second time stays before what had not
// gone out at all.
func TestScriptFlushKeepsOrderOfUnsent(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		k := tokenAt("k", 1)
		mustAsk(t, l, op(wire.Acquire, k), &c)
		synctest.Wait()
		m.FlushScripts()
		m.Pause()
		for range gatherFrom {
			mustAsk(t, l, op(wire.Extend, k), &c)
			synctest.Wait()
		}
		if err := l.Release(unlock(k), time.Minute, true, &c); err != nil {
			t.Fatal(err)
		}
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 2)), &c)
		m.Resume()
		synctest.Wait()
		if got := c.String(); got != "acquire 1"+strings.Repeat(", extend 0000000000000001",
			gatherFrom)+", release 1, acquire 2" {
			t.Errorf("answered %s", got)
		}
	})
}

// TestScriptLoadForbidden: without the right to SCRIPT LOAD the body travels with the first
// packet.
func TestScriptLoadForbidden(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		answering(m, "SCRIPT", "-NOPERM no\r\n")
		l, _ := start(t, m)
		var c collect
		mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
		mustAsk(t, l, op(wire.Check, tokenAt("k", 1)), &c)
		synctest.Wait()
		if got := c.String(); got != "acquire 1, check 1" || noScripts(m) != 0 {
			t.Errorf("answered %s, %d NOSCRIPT", got, noScripts(m))
		}
	})
}

// A packet that brings the script and is refused as a whole does not load it. The next one brings
// it again, and no packet goes out in between.
func TestScriptRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		answering(m, "SCRIPT", "-NOPERM no\r\n")
		l, _ := start(t, m)
		answering(m, "extend", "-BUSY running a script\r\n")
		m.Pause()
		var c collect
		mustAsk(t, l, op(wire.Extend, tokenAt("k", 1)), &c)
		synctest.Wait()
		for i := range 3 {
			mustAsk(t, l, op(wire.Acquire, tokenAt(fmt.Sprint("k", i), 1)), &c)
			synctest.Wait()
		}
		m.Resume()
		synctest.Wait()
		if got := c.String(); got != `extend not run: answered "BUSY running a script", acquire 1, acquire 1, acquire 1` {
			t.Errorf("answered %s", got)
		}
		if n := noScripts(m); n != 0 {
			t.Errorf("%d NOSCRIPT, want none", n)
		}
	})
}

// TestErrorIsOfItsOperationOrPacket: an error to one operation is of that one, an error to the
// packet is of all.
func TestErrorIsOfItsOperationOrPacket(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Set(func() {
			m.Fault = func(c fake.Call) string {
				if c.Key() == "lock:bad" {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		var c collect
		_ = l.Ask(op(wire.Acquire, tokenAt("good", 1)), &c)
		_ = l.Ask(op(wire.Acquire, tokenAt("bad", 2)), &c)
		mustAsk(t, l, op(wire.Check, tokenAt("good", 1)), &c)
		synctest.Wait()
		if got := c.String(); got != `acquire 1, acquire void: answered "OOM command not allowed", check 1` {
			t.Errorf("answered %s", got)
		}
		c.got = nil
		answering(m, "packet", "-BUSY running a script\r\n")
		_ = l.Ask(op(wire.Acquire, tokenAt("other", 3)), &c)
		if err := l.Release(unlock(tokenAt("good", 1)), time.Minute, true, &c); err != nil {
			t.Fatal(err)
		}
		l.Flush()
		synctest.Wait()
		const busy = `not run: answered "BUSY running a script"`
		if got := c.String(); got != "acquire "+busy+", release "+busy {
			t.Errorf("answered %s", got)
		}
		if s := l.Status(); s.ByKind["BUSY"] != 1 || s.ByKind["OOM"] != 1 || s.Errors != 2 || s.Repairs != 1 ||
			s.Grants != 1 {
			t.Errorf("status %+v", s)
		}
		m.Set(func() { m.Hook, m.Fault = nil, nil })
		time.Sleep(1100 * time.Millisecond) // the release goes out again
		noKeys(t, m)
	})
}
