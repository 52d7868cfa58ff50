package locks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// EXTEND: never for a lock that is lost, and it heals one that is held.

// TestExtendTakenOver: EXTEND after expiry and takeover answers 0, changes nothing of the new
// holder's, and leaves nothing of the old token. redlock-rb#36 and redis-semaphore#175 revived the
// old lock (B8).
func TestExtendTakenOver(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	for _, extender := range []*lab.Client{p.Near, p.Far} {
		old := p.Near.Lock("job", "1s")
		lab.WaitFor(t, "expired", lab.Patience, func() bool { return p.Holders(t, "job") == 0 })
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s") // nobody has it
		extender.WantDo("*2\r\n:0\r\n:0\r\n", "EXTEND", "job", old, "60s", "FULL")
		if n := p.Holders(t, "job"); n != 0 {
			t.Errorf("EXTEND after expiry made %d keys", n)
		}
		token := p.Far.Lock("job", "20s")
		p.WantHolders(t, "job", 5)
		before := p.Values(t, "job")
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		lab.Settle(t, p.Masters, p.Proxy, p.Second)
		if after := p.Values(t, "job"); !slices.Equal(before, after) {
			t.Errorf("EXTEND by the old token changed %q to %q", before, after)
		}
		if left := p.Left(t, "job"); left[0] < 10*time.Second || left[4] > 20*time.Second {
			t.Errorf("EXTEND by the old token changed the expiry to %v, want 20s", left)
		}
		p.Near.Unlock("job", token) // taken over and released again
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		p.WantNoStray(t)
	}
}

// TestExtendMinority: a token that is left on a minority is not extended but cleared away.
func TestExtendMinority(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	old := p.Near.Lock("job", "60s")
	p.WantHolders(t, "job", 5)
	for _, s := range p.Masters[:3] {
		s.Do(t, "DEL", "lock:job")
	}
	token := p.Far.Lock("job", "60s")
	before := p.Values(t, "job")
	p.Near.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
	lab.WaitFor(t, "the old token gone from the minority", lab.Patience, func() bool { return p.Holders(t, "job") == 3 })
	if after := p.Values(t, "job"); !slices.Equal(before[:3], after[:3]) {
		t.Errorf("EXTEND by the old token changed %q to %q", before, after)
	}
	p.Near.WantDo(":0\r\n", "UNLOCK", "job", old)
	p.Near.Unlock("job", token)
	p.WantNoStray(t)
}

// TestExtendRaises: EXTEND makes the rest of the ttl longer, never shorter, and says what validity
// is left.
func TestExtendRaises(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Near.Lock("job", "1s")
	p.Far.WantDo(":1\r\n", "EXTEND", "job", token, "30s")
	if left := p.Left(t, "job"); left[2] < 25*time.Second || left[4] > 30*time.Second {
		t.Errorf("extended to 30s: %v", left)
	}
	p.Far.WantDo(":1\r\n", "EXTEND", "job", token, "2s")
	if left := p.Left(t, "job"); left[2] < 20*time.Second {
		t.Errorf("EXTEND by less lowered the expiry: %v", left)
	}
	for _, c := range []*lab.Client{p.Near, lab.Dial3(t, p.Addr)} {
		reply := c.Do("EXTEND", "job", token, "60s", "FULL")
		ms := lab.Number(t, lab.Scalar(lab.LastOf(reply)))
		if !strings.HasPrefix(reply, "*2\r\n:1\r\n:") || ms > 60_000-600-2 || ms < 55_000 {
			t.Errorf("EXTEND FULL: %q, want 1 and the validity", reply)
		}
	}
	for _, s := range p.Masters[:3] {
		s.Pause(t)
	}
	if reply := p.Near.Do("EXTEND", "job", token, "60s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
		t.Errorf("EXTEND without a majority: %q", reply)
	}
	for _, s := range p.Masters[:3] {
		s.Resume()
	}
	lab.WaitFor(t, "extended again", lab.Patience, func() bool { return p.Near.Do("EXTEND", "job", token, "60s") == ":1\r\n" })
	p.Near.Unlock("job", token)
	p.Near.WantDo(":0\r\n", "EXTEND", "job", token, "60s")
	p.WantNoStray(t)
}

// TestExtendHeals: a master that came back empty was never filled, and the next restart lost the
// lock (B9: redsync#147).
func TestExtendHeals(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Near.Lock("job", "60s")
	p.WantHolders(t, "job", 5)
	for _, pair := range [][]*lab.Redis{p.Masters[:2], p.Masters[1:3], p.Masters[3:]} {
		for _, s := range pair {
			s.RestartEmpty(t)
		}
		if n := p.Holders(t, "job"); n < 3 { // more where a top-up of the last EXTEND was still owed when its master ended
			t.Fatalf("job is on %d masters, want the three that went on", n)
		}
		healed := func() bool {
			if reply := p.Far.Do("EXTEND", "job", token, "60s"); reply != ":1\r\n" {
				t.Fatalf("EXTEND after two of five restarted: %q", reply)
			}
			return p.Holders(t, "job") == 5
		}
		lab.WaitFor(t, "the lock on all five again", lab.Patience, healed)
		p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	}
	p.Near.Unlock("job", token)
	p.WantNoStray(t)
}

// TestToppedUp: a lock that only a bare majority held was granted to another when one key was lost
// (B10: redsync#186).
func TestToppedUp(t *testing.T) {
	t.Parallel()
	p, relays := lab.StartTwoRelayed(t)
	for _, r := range relays[:2] {
		r.Freeze()
	}
	token := p.Near.Lock("job", "60s")
	if info := lab.MapOf(p.Near.Do("LOCKINFO", "job")); info["held"] != "3" || info["masters"] != "5" {
		t.Errorf("LOCKINFO: %v, want held by 3 of 5", info)
	}
	for _, r := range relays[:2] {
		r.Refuse(true)
		r.CutAll()
		r.Thaw()
		r.Refuse(false)
	}
	p.WantHolders(t, "job", 5)
	for _, s := range p.Masters[3:] {
		s.Do(t, "DEL", "lock:job")
	}
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	p.Near.Unlock("job", token)
	p.WantNoStray(t)
}

// TestRetriedUnlock: a retried unlock deleted a newer lock of the same session (B25: etcd#22082).
func TestRetriedUnlock(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial(t, p.Addr)
	first := host.LockSession("job", "1s")
	host.Unlock("job", first)
	second := host.LockSession("job", "1s")
	for _, c := range []*lab.Client{host, p.Near, p.Far} {
		c.WantDo(":0\r\n", "UNLOCK", "job", first)
		c.WantDo(":0\r\n", "EXTEND", "job", first, "60s")
	}
	lab.Pass(t, 1500*time.Millisecond) // the second is renewed still
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", second)
	p.WantNoStray(t)
}
