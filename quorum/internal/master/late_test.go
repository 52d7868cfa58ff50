package master

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// lasting makes an operation or a top-up one of a lock with that ttl.
func lasting(o wire.Op, ttl time.Duration) wire.Op {
	o.TTL = ttl
	return o
}

// A master refuses an acquire and a top-up that reach it when the lock has all but ended, and what
// follows them finds no key. The next ones are not late.
func TestLateOnTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, h := start(t, m)
		var c collect
		job, missed := tokenAt("job", 1), tokenAt("missed", 2)
		m.Pause()
		mustAsk(t, l, lasting(op(wire.Acquire, job), time.Second), &c)
		up := topUp(missed)
		up.Until, up.TTL = time.Now().Add(time.Second), time.Second
		l.TopUp(lacks(up))
		mustAsk(t, l, op(wire.Extend, job), &c)
		time.Sleep(995 * time.Millisecond)
		m.Resume()
		synctest.Wait()
		if got := c.String(); got != "acquire toolate, extend 0" {
			t.Errorf("answered %s", got)
		}
		noKeys(t, m)
		if n := len(h.sofar().landed); n != 0 {
			t.Errorf("told that %d have landed", n)
		}
		time.Sleep(2 * time.Second)
		if s := l.Status(); s.Repairs != 0 || s.ByKind[wire.CodeTooLate] == 0 {
			t.Errorf("%d repairs are pending, errors %v", s.Repairs, s.ByKind)
		}
		c.got = nil
		mustAsk(t, l, lasting(op(wire.Acquire, job), 20*time.Millisecond), &c)
		synctest.Wait()
		if got := c.String(); got != "acquire 1" {
			t.Errorf("then answered %s", got)
		}
	})
}

// An operation is as old as its round, also if its lane was asked later, or wrote it later.
func TestLateBeforeTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		var c collect
		time.Sleep(time.Millisecond) // 0 is now
		began := l.cfg.clock()
		time.Sleep(600 * time.Millisecond)
		for i := range 2 {
			o := lasting(op(wire.Acquire, tokenAt(fmt.Sprint("job", i), i)), time.Second)
			o.Begun = began
			if err := l.Ask(o, &c); err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				time.Sleep(400 * time.Millisecond) // until Flush
			}
			l.Flush()
			synctest.Wait()
		}
		if got := c.String(); got != "acquire 1, acquire toolate" {
			t.Errorf("answered %s", got)
		}
	})
}

// A new connection learns the clock again. The server behind it may be another.
func TestClockOfNewConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fake.Master) {
		l, _ := start(t, m)
		m.Stop()
		synctest.Wait()
		m.Set(func() { m.Ahead = -time.Hour })
		m.Restart("run-2", true)
		time.Sleep(5 * time.Second)
		var c collect
		m.Pause()
		mustAsk(t, l, lasting(op(wire.Acquire, tokenAt("job", 1)), time.Second), &c)
		time.Sleep(995 * time.Millisecond)
		m.Resume()
		synctest.Wait()
		if got := c.String(); got != "acquire toolate" {
			t.Errorf("answered %s", got)
		}
	})
}

// A top-up may be on its way for less than its lock has left. A clock that is 1 % fast ends the
// keys of the lock that much earlier, and another that is slow takes the top-up for younger.
func TestTopUpComesInTime(t *testing.T) {
	const ttl = 100 * time.Second
	began := time.Now()
	for _, after := range []time.Duration{0, time.Second, 50 * time.Second, 97 * time.Second, ttl} {
		r := repair{until: began.Add(ttl), lives: ttl}
		within := r.within(began.Add(after))
		if arrives := after + within*100/99; arrives > ttl*99/100 || arrives < ttl*95/100 {
			t.Errorf("sent after %v it arrives until %v after the lock began", after, arrives)
		}
	}
}
