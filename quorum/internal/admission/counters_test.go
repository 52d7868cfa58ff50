package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// Masters that lose their counters one after another get them back from the others, each before it
// votes.
func TestCountersHandedOn(t *testing.T) {
	for n := 3; n <= 5; n++ {
		s := newStory(t, n)
		p := s.begin()
		all := []int{0, 1, 2, 3, 4}[:n]
		for _, m := range s.masters {
			m.counters[0] += 1000
		}
		fence := s.mustLock(p, time.Second, all...)
		lose := n/2 + 1
		for _, m := range s.masters[:lose] {
			m.flush()
			s.settle(wait + 3*time.Second)
			s.want(p, "restarted", strings.Repeat("v", n))
			if m.counters[0] < fence {
				t.Errorf("counter %d, want that of the others, %d", m.counters[0], fence)
			}
		}
		for _, m := range s.masters[lose:] {
			m.down = true
		}
		s.settle(time.Second)
		if next := s.mustLock(p, time.Second, all[:lose]...); next <= fence {
			t.Errorf("fence %d after %d, from masters that had all lost their counters", next, fence)
		}
	}
}

// An answer on a connection that has ended does not count: another server may be at the address.
func TestToldOnAnotherConnection(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.settle(2 * time.Second)
	m := &p.g.masters[1]
	a := &Action{Kind: ActLearn, Master: 1, Conn: m.o.Conn, Count: true, At: s.now}
	p.disconnect(1)
	s.settle(2 * time.Second)
	if knew := m.known[0].admission; m.o.Conn == a.Conn || knew == (admission{}) {
		t.Fatalf("connection %d as before, or nothing known: %v", m.o.Conn, knew)
	}
	knew := slices.Clone(m.known)
	p.g.Learned(a, Learned{Known: p.g.knownText(make([]knowledge, 3)), Top: 7, Counted: true})
	if !slices.Equal(m.known, knew) || m.count.top == 7 {
		t.Errorf("it knows %v by an answer on another connection, before %v; count %+v", m.known, knew, m.count)
	}
}

// What only the operator can mend is an error in the log, once.
func TestCountersAhead(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.masters[2].counters[5] = 1 << 52
	s.masters[0].flush()
	s.masters[1].flush()
	s.settle(3 * wait)
	s.want(p, "after the wait", "qqv")
	s.wantReason(p, 0, "has fencing counters ahead of the clock: set the clocks right, or LOCKPROXY ADMIT m0")
	if len(p.alarms) != 2 {
		t.Errorf("%d alarms for two masters: %q", len(p.alarms), p.alarms)
	}
	s.admit(p, 0)
	s.admit(p, 1)
	s.settle(2 * time.Second)
	s.want(p, "admitted by the operator", "vvv")
	if s.masters[0].counters[0] < 1<<52 {
		t.Errorf("counter %d", s.masters[0].counters[0])
	}
}

// TestFencesOfOneProxyNeverFall: a clock was ahead when the deployment was new, and is set right;
// all masters start empty while one proxy runs on.
func TestFencesOfOneProxyNeverFall(t *testing.T) {
	for _, late := range []bool{false, true} { // it is stopped when others admit the masters
		for _, forget := range []bool{false, true} {
			t.Run(fmt.Sprintf("late %v, floors forgotten %v", late, forget), func(t *testing.T) {
				fencesOfOneProxy(t, late, forget)
			})
		}
	}
}

// fencesOfOneProxy wipes all masters after a proxy has seen a counter far ahead. late: it is
// stopped while others admit the masters. forget: it has forgotten its floor, so fences must
// fall.
func fencesOfOneProxy(t *testing.T, late, forget bool) {
	s := newStory(t, 3)
	s.masters[0].ahead = 20 * time.Hour
	p := s.begin()
	fence := s.mustLock(p, time.Second, 0, 1, 2)
	if ahead := time.Duration(fence>>floorShift)*time.Millisecond - time.Duration(s.now.UnixNano()); ahead < 19*time.Hour {
		t.Fatalf("fence %d: the test shows nothing", fence)
	}
	s.masters[0].ahead = 0
	// One that came later has seen but few of the counters.
	s.end(p)
	p = s.begin()
	fence = s.mustLock(p, time.Second, 0, 1, 2)
	for i, m := range s.masters {
		p.disconnect(i)
		m.flush()
		m.run++
	}
	if forget {
		p.g.o.Floor = new(Floor)
	}
	s.settle(2 * time.Second)
	s.start()
	s.settle(2 * time.Second)
	p.paused = late
	for end := s.now.Add(wait); s.now.Before(end); s.pass(100 * time.Millisecond) {
		for _, q := range s.proxies {
			if !q.paused {
				q.turn()
			}
		}
	}
	p.paused = false
	s.settle(2 * time.Second)
	s.want(p, "after the wait", "vvv")
	s.lock(p, time.Second, 0, 1, 2)
	if fell := s.wrong != ""; fell != forget {
		t.Errorf("late %v, floors forgotten %v: %q, fence %d after %d", late, forget, s.wrong, s.fence, fence)
	}
	if got := s.masters[0].counters[7] >= fence-2; got == forget {
		t.Errorf("late %v, floors forgotten %v: another counter is %d, was %d", late, forget, s.masters[0].counters[7],
			fence-2)
	}
}

// TestClockFarFromTheOthers: a clock beyond 2109 does not make counters that do not fit.
func TestClockFarFromTheOthers(t *testing.T) {
	for _, ahead := range []time.Duration{100 * 365 * day, 5 * day, -5 * day} {
		s := newStory(t, 3)
		s.masters[1].ahead = ahead
		p := s.begin()
		fence := s.mustLock(p, time.Second, 0, 1, 2)
		if want := uint64(s.now.UnixMilli()) << floorShift; fence > want+1<<40 || fence < want-1<<40 {
			t.Errorf("%v ahead: fence %d, want about %d", ahead, fence, want)
		}
	}
	// Where most are wrong no clock counts, and the counters begin low.
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.ahead = 100 * 365 * day
	}
	p := s.begin()
	if fence := s.mustLock(p, time.Second, 0, 1, 2); fence >= maxFloor {
		t.Errorf("fence %d", fence)
	}
}

// The counters of a majority are waited for as long as they may exist.
func TestCountersAwaited(t *testing.T) {
	s := newStory(t, 5)
	p := s.begin()
	for _, m := range s.masters[:2] {
		m.flush()
	}
	s.settle(5 * time.Second)
	s.masters[4].down = true
	s.settle(2 * wait)
	s.want(p, "one is away", "qqvvd")
	s.wantReason(p, 0, "waits for 1 more to be reached: start m4, or LOCKPROXY ADMIT m0")
	s.masters[4].down = false
	s.settle(2 * time.Second)
	s.want(p, "it is back", "vvvvv")
}

func TestFloorIsTheHighestPossibleCounter(t *testing.T) {
	var f Floor
	f.Raise(10)
	f.Raise(7)
	if f.Top() != 10 {
		t.Errorf("top %d", f.Top())
	}
	if f.Raise(1 << 53); f.Top() != 10 {
		t.Errorf("top %d after a number that no counter may have", f.Top())
	}
}
