package quorum

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/fake"
	"lockproxy/quorum/internal/wire"
)

// busy makes the masters answer a packet every 40 ms, and sends so many. Each packet holds one
// operation.
func busy(s *sim, q *Quorum, packets int) {
	s.each(0, 3, func(m *fake.Master) { delayed(m, "packet", 40*time.Millisecond) })
	var others results
	for i := range packets {
		others.ask(q, fmt.Sprint(i), 0)
		time.Sleep(gatherFor)
	}
}

// gatherFor is a little longer than what lanes gather for a packet.
const gatherFor = 1100 * time.Microsecond

// A master that makes progress is not silent, however long it takes to come to a request: an
// attempt waits for it a quarter of the ttl, and a second at most. Then it says that the masters
// are busy, because they work.
func TestProgressIsNoSilence(t *testing.T) {
	for _, c := range []struct {
		name      string
		packets   int // before it
		ttl, want time.Duration
		err       error
	}{
		{"3 packets before it", 3, 10 * time.Second, 4*40*time.Millisecond - 3*gatherFor, nil},
		{"20 packets before it", 20, 10 * time.Second, 21*40*time.Millisecond - 20*gatherFor, nil},
		{"a quarter of the ttl", 20, time.Second, 250 * time.Millisecond, ErrBusy},
		{"a second", 40, 10 * time.Second, time.Second, ErrBusy},
		{"a quarter of the ttl, with few others", 5, 400 * time.Millisecond, 100 * time.Millisecond, ErrBusy},
		{"a master that answers no other request", 0, 80 * time.Millisecond, 20 * time.Millisecond, ErrNoQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				busy(s, q, c.packets)
				began := time.Now()
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: c.ttl})
				if took := time.Since(began); !errors.Is(err, c.err) || took != c.want {
					t.Errorf("%v after %v, want %v after %v", err, took, c.err, c.want)
				}
				time.Sleep(5 * time.Second)
			})
		})
	}
}

// Silent masters no longer count after the longest of: master-timeout, 250 ms under load, twice
// the longest recent round trip up to that, ten times the recent lateness of this process.
func TestSilentMasterCountsNoLonger(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(s *sim, q *Quorum)
		want   time.Duration
	}{
		{"nothing known", func(*sim, *Quorum) {}, 50 * time.Millisecond},
		{"after a short round trip", func(s *sim, q *Quorum) { slowOnce(s, q, 20*time.Millisecond) },
			50 * time.Millisecond},
		{"after a long one", func(s *sim, q *Quorum) { slowOnce(s, q, 80*time.Millisecond) }, 160 * time.Millisecond},
		{"after one that was very long", func(s *sim, q *Quorum) { slowOnce(s, q, 700*time.Millisecond) },
			250 * time.Millisecond},
		{"under load", func(_ *sim, q *Quorum) { q.intake.running += manyAttempts }, 250 * time.Millisecond},
		{"long after a long one", func(s *sim, q *Quorum) {
			slowOnce(s, q, 80*time.Millisecond)
			time.Sleep(4 * time.Second)
		}, 50 * time.Millisecond},
		{"late", func(_ *sim, q *Quorum) { q.fleet.lateness.note(8 * time.Millisecond) }, 80 * time.Millisecond},
		{"late for long", func(_ *sim, q *Quorum) { q.fleet.lateness.note(80 * time.Millisecond) }, 250 * time.Millisecond},
		{"late long ago", func(_ *sim, q *Quorum) {
			q.fleet.lateness.note(8 * time.Millisecond)
			time.Sleep(4 * time.Second)
		}, 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, s *sim) {
				q := s.quorum()
				c.before(s, q)
				s.each(0, 3, (*fake.Master).Pause)
				began := time.Now()
				_, err := q.Acquire(t.Context(), Request{Key: "job", TTL: 10 * time.Second})
				if took := time.Since(began); !errors.Is(err, ErrNoQuorum) || took != c.want {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
			})
		})
	}
}

// slowOnce makes one round trip to each master take d.
func slowOnce(s *sim, q *Quorum, d time.Duration) {
	s.each(0, 3, func(m *fake.Master) { delayed(m, "acquire", d) })
	_, _ = q.Acquire(s.t.Context(), Request{Key: "slow", TTL: 10 * time.Second}) // it may fail
	s.each(0, 3, func(m *fake.Master) { delayed(m, "acquire", 0) })
	time.Sleep(d)
	synctest.Wait()
}

func TestAttemptTime(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{
		{time.Minute, time.Second},
		{4 * time.Second, time.Second},
		{time.Second, 250 * time.Millisecond},
		{10 * time.Millisecond, 2500 * time.Microsecond},
		{time.Millisecond, 2 * time.Millisecond},
	} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			if got := wire.AttemptTime(c.ttl); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
