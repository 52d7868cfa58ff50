package admission

import (
	"strings"
	"testing"
	"time"
)

func TestSettingsDiffer(t *testing.T) {
	o := func(change func(*Options)) *Options {
		o := &Options{KeyPrefix: "lock:", MaxTTL: time.Minute, Fencing: true, IDs: []string{"b:1", "a:1/2", "m3"},
			Names: []string{"b", "a", "c"}}
		change(o)
		return o
	}
	base := settingsOf(o(func(*Options) {}))
	if want := "format=1 max-ttl=60000ms fencing=on restart-guard=on key-prefix=lock%3A masters=a%3A1%2F2,b%3A1,m3"; base.String() != want {
		t.Errorf("%s, want %s", base, want)
	}
	if got := parseSettings(base.String()); got.maxTTL() != time.Minute || got.String() != base.String() {
		t.Errorf("read as %s, max-ttl %v", got, got.maxTTL())
	}
	for what, change := range map[string]func(*Options){
		"order":  func(o *Options) { o.IDs[0], o.IDs[1] = o.IDs[1], o.IDs[0] },
		"name":   func(o *Options) { o.Names[0] = "other" },
		"strict": func(o *Options) { o.Mode = Strict },
	} {
		t.Run(what, func(t *testing.T) {
			if got := settingsOf(o(change)).fingerprint(); got != base.fingerprint() {
				t.Errorf("another %s changes the fingerprint", what)
			}
		})
	}
	for want, change := range map[string]func(*Options){
		"max-ttl 60000ms (here 30000ms)": func(o *Options) { o.MaxTTL = 30 * time.Second },
		"fencing on (here off)":          func(o *Options) { o.Fencing = false },
		"restart-guard on (here off)":    func(o *Options) { o.Mode = Off },
		"key-prefix lock%3A (here x)":    func(o *Options) { o.KeyPrefix = "x" },
		"another list of masters":        func(o *Options) { o.IDs[1] = "a:1" },
		"max-ttl 60000ms (here 1000ms), another list of masters": func(o *Options) {
			o.MaxTTL, o.IDs = time.Second,
				o.IDs[:1]
		},
	} {
		t.Run(want, func(t *testing.T) {
			ours := settingsOf(o(change))
			if ours.fingerprint() == base.fingerprint() {
				t.Errorf("%s: the same fingerprint", want)
			}
			if got := differ(base, ours); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	if got := differ(parseSettings("junk"), base); !strings.Contains(got, "another max-ttl") {
		t.Errorf("%q", got)
	}
}

func TestOtherSettings(t *testing.T) {
	for says, change := range map[string]func(*Options){
		"belongs to proxies with max-ttl 10000ms (here 3000ms): set the same here, or stop those proxies":                                   func(o *Options) { o.MaxTTL = 3 * time.Second },
		"belongs to proxies with fencing on (here off)":                                                                                     func(o *Options) { o.Fencing = false },
		"belongs to proxies with restart-guard on (here off)":                                                                               func(o *Options) { o.Mode = Off },
		"belongs to proxies with another list of masters: set the same here, or stop those proxies and send LOCKPROXY ADMIT m0 to this one": func(o *Options) { o.IDs[0] = "n0" },
	} {
		t.Run(says, func(t *testing.T) {
			s := newStory(t, 3)
			p := s.begin()
			s.mustLock(p, time.Second, 0, 1, 2)
			other := s.begin(change)
			s.settle(2 * wait)
			s.want(other, "other settings", "rrr")
			s.wantReason(other, 0, says)
			s.want(p, "the first", "vvv")
		})
	}
}

// Growing from 3 to 5: the old proxies are stopped, the old masters are moved.
func TestListOfMastersGrowsByAdmit(t *testing.T) {
	s := newStory(t, 5)
	old := s.begin(func(o *Options) { o.IDs, o.Names = o.IDs[:3], o.Names[:3] })
	fence := s.mustLock(old, wLife, 0, 1, 2)
	s.end(old)
	p := s.begin()
	s.want(p, "new list", "rrrqq")
	s.settle(2 * wait)
	s.want(p, "long after", "rrrqq")
	s.wantReason(p, 3, "waits until no master belongs to proxies with other settings: LOCKPROXY ADMIT m0, LOCKPROXY ADMIT m1, LOCKPROXY ADMIT m2")
	for i := range 3 {
		s.admit(p, i)
	}
	s.want(p, "moved", "qqqqq")
	s.wantReason(p, 0, "was moved by LOCKPROXY ADMIT")
	s.settle(wait + 2*time.Second)
	s.want(p, "after the wait", "vvvvv")
	if next := s.mustLock(p, time.Second, 0, 1, 2, 3, 4); next <= fence || next > fence+5 {
		t.Errorf("fence %d after %d, want just above: counters were kept", next, fence)
	}
	if _, ok, err := p.g.Adopt(0, s.masters[0].probe(s.now), s.now); ok || err != nil {
		t.Errorf("ADMIT of one that votes: %v, %v", ok, err)
	}
}

// New masters that are a majority alone do not vote before the one that comes from others has
// waited for their max-ttl.
func TestGrowFromOne(t *testing.T) {
	s := newStory(t, 3)
	old := s.begin(func(o *Options) { o.IDs, o.Names = o.IDs[:1], o.Names[:1] })
	fence := s.mustLock(old, wLife, 0)
	p := s.begin(func(o *Options) { o.MaxTTL = time.Second })
	s.settle(20 * time.Second)
	s.want(p, "long after", "rqq")
	s.admit(p, 0)
	s.want(p, "moved", "qqq")
	s.want(old, "moved, for the old proxy", "r")
	s.settle(wait - 2*time.Second)
	s.want(p, "just before the end of the wait", "qqq")
	s.settle(3 * time.Second)
	s.want(p, "after the wait", "vvv")
	if next := s.mustLock(p, time.Second, 0, 1, 2); next <= fence {
		t.Errorf("fence %d after %d", next, fence)
	}
}

// A single master has no others that must learn.
func TestSingleMaster(t *testing.T) {
	s := newStory(t, 1)
	p := s.begin()
	s.want(p, "new", "v")
	s.masters[0].flush()
	s.settle(wait - time.Second)
	s.want(p, "flushed", "q")
	s.settle(3 * time.Second)
	s.want(p, "after the wait", "v")
	s.masters[0].durable = true
	s.settle(3 * time.Second)
	p.disconnect(0)
	s.masters[0].run++
	s.settle(3 * time.Second)
	s.want(p, "durable, and restarted", "v")
}

// With Off there is no wait, except when masters are moved.
func TestGuardOffWaitsOnlyForMovedMasters(t *testing.T) {
	off := func(o *Options) { o.Mode = Off }
	s := newStory(t, 3)
	p := s.begin(off)
	s.want(p, "new", "vvv")
	s.masters[0].flush()
	s.settle(2 * time.Second)
	s.want(p, "flushed", "vvv")
	s.end(p)
	on := s.begin()
	s.want(on, "with the guard on", "rrr")
	for i := range 3 {
		s.admit(on, i)
	}
	s.settle(wait + 2*time.Second)
	s.want(on, "moved", "vvv")
	s.end(on)
	p = s.begin(off)
	s.want(p, "with the guard off", "rrr")
	for i := range 3 {
		s.admit(p, i)
	}
	s.want(p, "moved back", "qqq")
	s.settle(wait + 2*time.Second)
	s.want(p, "moved back, after the wait", "vvv")
}

// Counters of a time without fencing do not count.
func TestFencingSwitchedOn(t *testing.T) {
	s := newStory(t, 3)
	s.masters[2].counters[0] = 1000
	off := s.begin(func(o *Options) { o.Fencing, o.Mode = false, Strict })
	for i := range 3 {
		s.admit(off, i)
	}
	s.settle(2 * wait)
	s.want(off, "without fencing", "vvv")
	s.end(off)
	p := s.begin()
	for i := range 3 {
		s.admit(p, i)
	}
	s.settle(wait + 3*time.Second)
	s.want(p, "moved", "vvv")
	if fence := s.mustLock(p, time.Second, 0, 1); fence <= 1000 {
		t.Errorf("fence %d after 1000", fence)
	}
}
