package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A user without the rights of this version loses no lock, and takes none away.
func TestKindsWithoutRights(t *testing.T) {
	s := startRedis(t)
	if said := s.do("ACL", "SETUSER", "default", "-zadd"); said != "OK" {
		t.Skip("this Redis has no ACL: ", said)
	}
	a := acquire("lock:a", mine)
	a.Owner = "me"
	s.run(a)
	share := lasting(Share, "lock:a", mine, 20*time.Second)
	if got := s.run(share); got[0] != '!' {
		t.Errorf("shared: %s", got)
	}
	s.value("lock:a", mine+"0000000000000001me")
	s.expires("lock:a", 50*time.Second)

	s.must("ACL", "SETUSER", "default", "+zadd")
	s.must("DEL", "lock:a")
	s.run(shared("lock:a", mine, 20*time.Second), shared("lock:a", theirs, 50*time.Second),
		limited("lock:b", mine, 3, 0), limited("lock:b", theirs, 3, 1))
	s.must("ACL", "SETUSER", "default", "-zrevrange")
	s.run(op(Release, "lock:a", theirs), op(Release, "lock:b", theirs))
	s.want("the others", s.run(op(Check, "lock:a", mine), op(Check, "lock:b", mine)), "1 1")
	if got := s.run(limited("lock:b", third, 2, 0, 0)); got[0] != '!' {
		t.Errorf("a slot where it cannot be seen which are taken: %s", got)
	}
	s.want("who has it", s.run(op(Check, "lock:b", mine)), "1")
}

// A release that the master refuses is not published.
func TestRefusedReleaseIsNotTold(t *testing.T) {
	s := startRedis(t)
	if said := s.do("ACL", "SETUSER", "default", "-del"); said != "OK" {
		t.Skip("this Redis has no ACL: ", said)
	}
	watcher := s.another()
	watcher.do("SUBSCRIBE", ReleasedPrefix)
	watcher.do("SUBSCRIBE", ReleasedPrefix+"lock:a")
	for _, o := range []*Op{acquire("lock:a", mine), shared("lock:a", mine, time.Minute), limited("lock:a", mine, 1, 0)} {
		for _, release := range []*Op{likely("lock:a", mine, o.Mode()), likely("lock:a", mine, Shared),
			op(Free, "lock:a", "")} {
			s.must("FLUSHALL")
			if got := s.run(o, release); !strings.Contains(got, " !") {
				t.Errorf("mode %v: %s", o.Mode(), got)
			}
		}
	}
	s.must("PUBLISH", ReleasedPrefix+"lock:a", "end")
	var r Reply
	watcher.receive(&r)
	s.want("told", text(&r), "[message "+ReleasedPrefix+"lock:a end]")
}

// An extension that cannot move the expiry of its key is none: the key would run out under its
// holder. Nor is a place kept that opens too early.
func TestKindsExtendedWithoutRights(t *testing.T) {
	s := startRedis(t)
	if said := s.do("ACL", "SETUSER", "default", "+@all"); said != "OK" {
		t.Skip("this Redis has no ACL: ", said)
	}
	slot := limited("lock:a", mine, 3, 0)
	slot.TTL = 20 * time.Second
	for _, c := range []struct {
		acquire *Op
		lacks   string
	}{
		{shared("lock:a", mine, 20*time.Second), "zrevrange"},
		{shared("lock:a", mine, 20*time.Second), "pexpireat"},
		{slot, "zrevrange"},
		{slot, "pexpireat"},
	} {
		s.sub(fmt.Sprintf("mode %v without %s", c.acquire.Mode(), c.lacks), func() {
			for _, o := range []*Op{
				lasting(Extend, "lock:a", mine, time.Minute), lasting(Share, "lock:a", mine, time.Minute),
				topUp("lock:a", mine, time.Minute, 1), keep("lock:a", mine, time.Minute),
			} {
				s.must("ACL", "SETUSER", "default", "+@all")
				s.must("DEL", "lock:a")
				s.run(c.acquire)
				s.must("ACL", "SETUSER", "default", "-"+c.lacks)
				if o.Kind == TopUp {
					o.Terms = &Terms{Mode: c.acquire.Mode()}
				}
				if got := s.run(o); got[0] != '!' {
					s.t.Errorf("%s: %s", o.operation().name, got)
				}
				s.expires("lock:a", 20*time.Second)

				another := *c.acquire // lives as long as it should
				another.Secret, another.TTL = theirs, 45*time.Second
				s.must("ACL", "SETUSER", "default", "+@all")
				if got := s.run(&another); got[0] == '!' || got[0] == '-' {
					s.t.Errorf("after %s: %s", o.operation().name, got)
				}
				s.expires("lock:a", 45*time.Second)
			}
			s.must("DEL", "lock:a")
			s.must("ACL", "SETUSER", "default", "-pexpireat", "-zrevrange", "-del")
			if got := s.run(c.acquire); got[0] != '!' {
				s.t.Errorf("a key that never ends: %s", got)
			}
			s.want("left", s.do("EXISTS", "lock:a"), "0")
			s.must("ACL", "SETUSER", "default", "+@all")
		})
	}
}
