package master

import (
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// A lane is silent from when the oldest request without an answer was sent, or since it last heard
// of the master. It is not silent if it owes no answer, or while bytes wait to be read.
func TestLaneIsSilentFromItsOldestRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		want := func(when string, silence time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := l.Silence(); got != silence {
				t.Errorf("%s: silent for %v, want %v", when, got, silence)
			}
		}
		check := func(n int) { mustAsk(t, l, op(wire.Check, tokenAt("k", n)), nil) }
		time.Sleep(300 * time.Millisecond)
		want("nothing asked", 0)
		m.Pause()
		_ = l.Ask(op(wire.Check, tokenAt("k", 0)), nil)
		time.Sleep(10 * time.Millisecond)
		want("nothing sent", 0)
		l.Flush()
		want("just sent", 0)
		time.Sleep(10 * time.Millisecond)
		check(1)
		time.Sleep(20 * time.Millisecond)
		want("two wait", 30*time.Millisecond)
		unread := true
		l.mu.Lock()
		l.conn.unread = func() bool { return unread }
		l.mu.Unlock()
		want("bytes are unread", 0)
		unread = false
		want("nothing is unread", 30*time.Millisecond)
		m.Set(func() { m.Hook = func(*fake.Command) (time.Duration, string) { return 20 * time.Millisecond, "" } })
		m.Resume()
		time.Sleep(25 * time.Millisecond)
		want("the first has been answered 5ms ago", 5*time.Millisecond)
		time.Sleep(20 * time.Millisecond)
		want("all are answered", 0)
	})
}

// RTT has the shortest PING of the last minutes and the longest packet of the last seconds.
func TestRTT(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		delay := func(name string, d time.Duration) {
			m.Set(func() {
				m.Hook = func(c *fake.Command) (time.Duration, string) {
					if c.Name == name {
						return d, ""
					}
					return 0, ""
				}
			})
		}
		delay("PING", 3*time.Millisecond)
		l, _ := start(t, m)
		want := func(when string, least, longest time.Duration) {
			t.Helper()
			synctest.Wait()
			if gotLeast, gotLongest := l.RTT(); gotLeast != least || gotLongest != longest {
				t.Errorf("%s: %v and %v, want %v and %v", when, gotLeast, gotLongest, least, longest)
			}
		}
		want("no PING yet", 0, 0)
		time.Sleep(1500 * time.Millisecond)
		want("after a PING", 3*time.Millisecond, 3*time.Millisecond)
		delay("packet", 100*time.Millisecond)
		mustAsk(t, l, op(wire.Check, tokenAt("k", 0)), nil)
		time.Sleep(100 * time.Millisecond)
		want("after a packet", 3*time.Millisecond, 100*time.Millisecond)
		delay("PING", 7*time.Millisecond)
		time.Sleep(5 * time.Second)
		want("the packet was long ago", 3*time.Millisecond, 7*time.Millisecond)
		time.Sleep(2 * leastFor)
		want("the way is longer", 7*time.Millisecond, 7*time.Millisecond)
	})
}

// A master is slow from when a tenth of its votes are late, or a PING is, until none has been for
// five seconds.
func TestSlowUntilFiveSecondsWithoutLateVotes(t *testing.T) {
	for _, c := range []struct {
		name        string
		votes, late int
		later       time.Duration // before the late ones come
		ping        bool
		want        time.Duration
	}{
		{name: "no votes are late", votes: 10},
		{name: "few", votes: 21, late: 2},
		{name: "a tenth", votes: 20, late: 2, want: 200 * time.Millisecond},
		{name: "of late", votes: 19, late: 1, later: sharePeriod, want: 100 * time.Millisecond}, // the older weigh half
		{name: "a PING", votes: 20, ping: true, want: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *fake.Master) {
				l, _ := start(t, m)
				vote := func(n int) {
					mustAsk(t, l, op(wire.Acquire, tokenAt("k", n)), nil)
					synctest.Wait()
				}
				time.Sleep(sharePeriod)
				for i := range c.votes {
					vote(i)
				}
				if c.later > 0 {
					time.Sleep(c.later)
					vote(c.votes)
				}
				for i := range c.late {
					l.NoteLate(time.Duration(1+i)*100*time.Millisecond, true)
				}
				if c.ping {
					l.NoteLate(time.Second, false)
				}
				wantSlow(t, l, c.want, uint64(c.late))
			})
		})
	}
}

// wantSlow fails unless the master is slow by took, with so many late votes, and is not slow
// after a while.
func wantSlow(t *testing.T, l *Lane, took time.Duration, late uint64) {
	t.Helper()
	if s := l.Status(); s.Slow != took || s.Late != late {
		t.Errorf("slow by %v with %d late, want %v", s.Slow, s.Late, took)
	}
	time.Sleep(slowFor - time.Millisecond)
	if s := l.Status(); s.Slow != took {
		t.Errorf("slow by %v before the end", s.Slow)
	}
	time.Sleep(tickEvery + time.Millisecond)
	if s := l.Status(); s.Slow != 0 {
		t.Errorf("slow by %v in the end", s.Slow)
	}
}
