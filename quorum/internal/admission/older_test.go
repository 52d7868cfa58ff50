package admission

import (
	"maps"
	"testing"
	"time"
)

// swapDB makes every connection to a master lead to its other database, like SWAPDB.
func (w *world) swapDB(i int) {
	here := w.masters[i]
	w.masters[i], w.other = w.other, here
	for _, p := range w.proxies {
		if p.lanes[i].server == here {
			p.lanes[i].server = w.masters[i]
		}
	}
}

// disk is a copy of the data of a server.
func (s *wServer) disk() *wServer {
	c := *s
	c.hash, c.counters = maps.Clone(s.hash), maps.Clone(s.counters)
	return &c
}

const durableDisk = "an old disk that was durable"

// Each of these is one way in which an older state of master 0 comes back. The first proxy locks
// on it and on master 1, and is killed; the second cannot reach master 1. It must not lock on 0
// and 2.
var returns = map[string]func(s *story, p *wProxy){
	"another server at the address, and back": func(s *story, p *wProxy) {
		s.move(0, true)
		s.settle(wait + 5*time.Second)
		s.lockAndEnd(p)
		s.move(0, true)
	},
	"another server, which voted for the same proxies before": func(s *story, p *wProxy) {
		for range 3 {
			s.move(0, true)
			s.settle(wait + 5*time.Second)
		}
		s.lockAndEnd(p)
		s.move(0, true)
	},
	"a server that stood in for another master": func(s *story, p *wProxy) {
		s.move(1, true)
		s.settle(wait + 5*time.Second)
		s.move(1, true)
		s.settle(wait + 5*time.Second)
		s.lockAndEnd(p)
		s.move(0, true)
	},
	"SWAPDB there and back": func(s *story, p *wProxy) {
		s.other.name = s.masters[0].name
		s.swapDB(0)
		s.settle(wait + 5*time.Second)
		s.lockAndEnd(p)
		s.swapDB(0)
	},
	"a snapshot of the machine": func(s *story, p *wProxy) {
		snapshot := s.masters[0].disk()
		s.masters[0].flush()
		s.settle(wait + 5*time.Second)
		s.lockAndEnd(p)
		s.masters[0] = snapshot
	},
	durableDisk: func(s *story, p *wProxy) {
		s.masters[0].durable = true
		s.settle(3 * time.Second)
		disk := s.masters[0].disk()
		s.restart(0)
		s.settle(5 * time.Second)
		s.lockAndEnd(p)
		disk.run = 7
		s.masters[0] = disk
	},
}

// lockAndEnd is the lock of the first proxy, and its end.
func (s *story) lockAndEnd(p *wProxy) {
	s.Helper()
	s.want(p, "before it locks", "vvv")
	s.mustLock(p, wLife, 0, 1)
	for i := range p.lanes {
		p.disconnect(i)
	}
	s.end(p)
}

func TestOlderStateComesBack(t *testing.T) {
	for name, comeBack := range returns {
		t.Run(name, func(t *testing.T) {
			run := func(mutation string) *story {
				s := newStory(t, 3)
				s.mutation = mutation
				comeBack(s, s.begin())
				q := s.start()
				q.lanes[1].cut = true
				s.settle(3 * time.Second)
				s.lock(q, time.Second, 0, 2)
				if mutation == "" {
					s.want(q, "an older state is back", "qdv")
					if name != durableDisk {
						s.wantReason(q, 0, "went back to an older state")
					}
					q.lanes[1].cut = false
					s.settle(wait + 5*time.Second)
					s.want(q, "after the wait", "vvv")
				}
				return s
			}
			if s := run(""); s.wrong != "" {
				t.Errorf("%s\n%s", s.wrong, s.text())
			}
			if name == durableDisk {
				return // the next mark would contradict it all the same
			}
			if s := run("the old record believed"); s.wrong == "" {
				t.Error("with the old record believed nothing goes wrong: the test shows nothing")
			}
		})
	}
}

// A proxy whose connection stays on the old server must not lock on it when the others use the new
// one; not right after it was stopped either.
func TestConnectionStaysOnOldServer(t *testing.T) {
	for _, mutation := range []string{"", "nobody is told", "votes of any age"} {
		for _, stopped := range []bool{false, true} {
			s := newStory(t, 3)
			s.mutation = mutation
			p, q := s.begin(), s.begin()
			s.move(0, false)
			p.disconnect(0)
			q.paused = stopped
			for end := s.now.Add(wait + 5*time.Second); s.now.Before(end); s.pass(100 * time.Millisecond) {
				p.turn()
				if !stopped {
					q.turn()
				}
			}
			// While the other is at work on the old server, too, neither server is admitted.
			told := mutation != "nobody is told"
			if got := s.lock(p, wLife, 0, 1); got != (stopped || !told) {
				t.Errorf("%q, stopped %v: granted %v", mutation, stopped, got)
			}
			s.lock(q, time.Second, 0, 2)
			red := !told && !stopped || mutation == "votes of any age" && stopped
			if (s.wrong != "") != red {
				t.Errorf("%q, stopped %v: %q", mutation, stopped, s.wrong)
			}
		}
	}
}

// Two addresses lead one proxy to new servers, and another one to the old. If the second new
// server learns of the first, that is no knowledge of the second old one.
func TestTwoAddressesLeadElsewhere(t *testing.T) {
	s := newStory(t, 5)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	s.masters[0], s.masters[1] = s.other, newServer("another")
	p.disconnect(0)
	p.disconnect(1)
	p.lanes[4].cut = true
	p.disconnect(4)
	for i := 2; i < 4; i++ {
		q.lanes[i].cut = true
		q.disconnect(i)
	}
	s.settle(2 * wait)
	s.mustLock(q, 8*time.Second, 0, 1, 4)
	q.lanes[4].cut = true
	q.disconnect(4)
	p.lanes[4].cut = false
	s.settle(2 * time.Second)
	if s.lock(p, 5*time.Second, 0, 2, 3); s.wrong != "" {
		t.Error(s.wrong)
	}
	s.settle(wait + time.Second)
	s.want(p, "all have been told", "vvvvv")
}

// The wait begins when a majority beside the master knows of its quarantine: a proxy that reaches
// only the others may use an older state of it.
func TestMarkWaitsForOthers(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.masters[2].down = true
	s.masters[0].flush()
	s.settle(3 * wait)
	s.want(p, "the third is away", "qvd")
	s.wantReason(p, 0, "waits for 1 more to be reached: start m2, or LOCKPROXY ADMIT m0")
	s.masters[2].down = false
	s.settle(wait - time.Second)
	s.want(p, "it came back", "qvv")
	s.settle(5 * time.Second)
	s.want(p, "after the wait", "vvv")
	s.masters[2].down = true
	s.masters[0].flush()
	s.settle(wait)
	s.admit(p, 0)
	s.settle(2 * time.Second)
	s.want(p, "admitted by the operator", "vvd")
}

// Without fencing the counters do not count; the others learn of a mark all the same.
func TestMarkWithoutFencing(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin(func(o *Options) { o.Fencing = false })
	s.masters[2].down = true
	s.masters[0].flush()
	s.settle(wait)
	s.want(p, "the third is away", "qvd")
	s.settle(2 * wait)
	s.want(p, "long after", "qvd")
	s.masters[2].down = false
	s.settle(wait + 3*time.Second)
	s.want(p, "all have learned", "vvv")
}

// A proxy that was there contradicts one that takes emptied masters for new.
func TestAllMastersWipedBeforeAnotherStarts(t *testing.T) {
	s := newStory(t, 3)
	p := s.begin()
	s.mustLock(p, wLife, 0, 1, 2)
	p.paused = true
	for _, m := range s.masters {
		m.flush()
	}
	q := s.start()
	for len(q.states()) > 0 && q.states() != "vvv" {
		q.turn()
		s.pass(20 * time.Millisecond)
	}
	p.paused = false
	s.settle(3 * time.Second)
	s.want(p, "after it looked", "qqq")
	s.want(q, "after the other looked", "qqq")
	s.settle(wait + 2*time.Second)
	s.want(p, "after the wait", "vvv")
	s.want(q, "after the wait", "vvv")
	// One that was away for long takes the others' word.
	p.paused = true
	for i := range p.lanes {
		p.disconnect(i)
	}
	s.end(p)
	for _, m := range s.masters {
		m.flush()
	}
	s.settle(2*wait + 2*time.Second)
	s.proxies = append(s.proxies, p)
	p.paused = false
	n := s.quarantines
	s.settle(5 * time.Second)
	s.want(p, "back after long", "vvv")
	if s.quarantines != n {
		t.Errorf("%d quarantines\n%s", s.quarantines-n, s.text())
	}
}

// Records of the last version have no number. They are believed until a record has one.
func TestRecordsOfTheLastVersion(t *testing.T) {
	s := newStory(t, 3)
	g := s.start().g
	s.proxies = nil
	for i, m := range s.masters {
		m.evicted = 5 // as found: the number at its admission is not known
		m.hash["record"] = record{kind: recordVotes, runID: m.runID(), fingerprint: g.fingerprint,
			nonce: parseNonce("0123456789abcde" + string(rune('0'+i)))}.String()
		m.hash["settings"] = g.settings.String()
	}
	p := s.begin()
	s.want(p, "as they were", "vvv")
	s.settle(2 * time.Second)
	if known := s.masters[1].hash["known"]; known != g.fingerprint+" 0123456789abcde0 0123456789abcde1 0123456789abcde2" {
		t.Errorf("known %q", known)
	}
	s.swapDB(0)
	s.settle(wait + 5*time.Second)
	s.want(p, "after SWAPDB", "vvv")
	s.swapDB(0)
	s.settle(2 * time.Second)
	s.want(p, "after SWAPDB back", "qvv")
}

// A proxy that has not learned yet counts an older state of a master for up to MaxAge. A lock
// that it grants then for all of max-ttl expires before the wait ends.
func TestOlderProbe(t *testing.T) {
	s := newStory(t, 3)
	p, q := s.begin(), s.begin()
	s.settle(2 * time.Second)
	s.masters[0] = s.other // for p; the connection of q stays on the older server
	p.disconnect(0)
	for end := s.now.Add(800 * time.Millisecond); s.now.Before(end); s.pass(100 * time.Millisecond) {
		p.turn()
	}
	s.mustLock(q, wLife, 0, 1)
	for p.states() != "vvv" && s.wrong == "" {
		p.turn()
		s.pass(100 * time.Millisecond)
	}
	if s.lock(p, time.Second, 0, 2); s.wrong != "" {
		t.Error(s.wrong)
	}
}

// TestDurableOlderThanOthersKnow: a proxy that granted reports the count of packets when its
// connection breaks. Another proxy asks the other masters after the restarted one, so it learns
// that the disk is older.
func TestDurableOlderThanOthersKnow(t *testing.T) {
	s := newStory(t, 3)
	s.masters[0].durable = true
	p, q := s.begin(), s.begin()
	s.settle(3 * time.Second)
	disk := s.masters[0].disk()
	s.mustLock(p, wLife, 0, 1)
	p.disconnect(0)
	p.lanes[0].cut = true
	for range 5 {
		p.turn()
	}
	s.end(p)
	disk.run = 9
	s.masters[0] = disk
	for i := range q.lanes { // no probe is due
		q.lanes[i].probed = s.now
	}
	q.disconnect(0)
	for range 10 {
		q.turn()
		s.pass(10 * time.Millisecond)
	}
	s.lock(q, time.Second, 0, 2)
	s.want(q, "with an older disk", "qvv")
	if s.wrong != "" {
		t.Error(s.wrong)
	}
}

// goBack makes masters restart, p lock on all that take writes, and end; then the masters go back
// to the disks that they had before. away is another proxy, which is stopped meanwhile.
func (s *story) goBack(p, away *wProxy, masters ...int) {
	s.Helper()
	s.settle(3 * time.Second)
	if away != nil {
		s.end(away)
	}
	var disks []*wServer
	for _, i := range masters {
		disks = append(disks, s.masters[i].disk())
	}
	for _, i := range masters {
		s.restart(i)
		s.settle(5 * time.Second)
	}
	s.want(p, "before it locks", "vvv")
	s.mustLock(p, wLife, 0, 2)
	for i := range p.lanes {
		p.disconnect(i)
	}
	s.end(p)
	for k, i := range masters {
		disks[k].run = 7
		s.masters[i] = disks[k]
	}
}

// meet lets q connect to masters 0 and 1, the second of them later, and wait for master 2 a
// little.
func (s *story) meet(q *wProxy, later time.Duration) {
	for i, wait := range []time.Duration{later, 100 * time.Millisecond} {
		q.lanes[i].cut = false
		for end := s.now.Add(wait); s.now.Before(end); s.pass(20 * time.Millisecond) {
			q.turn()
		}
	}
}

// cutOff cuts the connections of q to some masters.
func cutOff(q *wProxy, masters ...int) *wProxy {
	for _, i := range masters {
		q.lanes[i].cut = true
		q.disconnect(i)
	}
	return q
}

// TestOldDisksMetFirst: masters come back with old disks, and a proxy meets them before it hears
// master 2, which knows better. It must wait for that.
func TestOldDisksMetFirst(t *testing.T) {
	starts := func(later time.Duration) func(s *story) *wProxy {
		return func(s *story) *wProxy {
			s.goBack(s.begin(), nil, 0, 1)
			q := cutOff(s.start(), 0, 1, 2)
			s.meet(q, later)
			return q
		}
	}
	for name, tt := range map[string]struct {
		meet func(s *story) *wProxy // up to the moment before master 2 is heard
		want string                 // afterwards
	}{
		"by a proxy that starts":                      {starts(0), "qqv"},
		"by a proxy that starts, three seconds apart": {starts(3 * time.Second), "qqv"},
		"by a proxy that was cut off": {func(s *story) *wProxy {
			p, q := s.begin(), s.begin()
			s.goBack(p, q, 0, 1)
			s.proxies = append(s.proxies, q)
			cutOff(q, 0, 1, 2)
			s.meet(q, 0)
			return q
		}, "qqv"},
		"by a proxy that was stopped, and is still connected to the third": {func(s *story) *wProxy {
			p, q := s.begin(), s.begin()
			s.goBack(p, q, 0, 1)
			s.proxies = append(s.proxies, q)
			cutOff(q, 0, 1)
			s.masters[2].hangs, q.lanes[2].probed = q, s.now
			s.meet(q, 0)
			return q
		}, "qqv"},
		"one, beside another that could not learn": {func(s *story) *wProxy {
			p := s.begin()
			s.settle(3 * time.Second)
			s.masters[1].broken = true
			s.goBack(p, nil, 0)
			s.masters[1].broken = false
			q := cutOff(s.start(), 0, 1, 2)
			s.meet(q, 0)
			return q
		}, "qvv"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t, 3)
			for _, m := range s.masters {
				m.durable = true
			}
			q := tt.meet(s)
			s.lock(q, time.Second, 0, 1)
			s.wantReason(q, 0, "restarted, waits for an answer of m2")
			q.lanes[2].cut, s.masters[2].hangs = false, nil
			s.settle(3 * time.Second)
			s.lock(q, time.Second, 0, 1)
			s.want(q, "with master 2", tt.want)
			if s.wrong != "" {
				t.Errorf("%s\n%s", s.wrong, s.text())
			}
		})
	}
}

// TestRestartedMastersWaitForTheThirdNotForEver: a master that is silent for MaxAge counts as
// away, and the others are admitted.
func TestRestartedMastersWaitForTheThirdNotForEver(t *testing.T) {
	s := newStory(t, 3)
	for _, m := range s.masters {
		m.durable = true
	}
	p := s.begin()
	s.settle(3 * time.Second)
	cutOff(p, 2)
	s.restart(0)
	s.restart(1)
	s.settle(MaxAge - 500*time.Millisecond)
	s.want(p, "before it is away", "qqd")
	s.settle(time.Second)
	s.want(p, "when it is away", "vvd")
}
