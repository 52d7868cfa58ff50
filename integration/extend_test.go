package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// EXTEND: never for a lock that is lost, and it heals one that is held.

// values returns what each master holds at key.
func (p *pair) values(t testing.TB, key string) (list []string) {
	t.Helper()
	for _, s := range p.masters {
		list = append(list, s.Do(t, "GET", "lock:"+key))
	}
	return list
}

// TestExtendTakenOver: EXTEND after expiry and takeover answers 0, changes nothing of the new holder's, and leaves nothing of
// the old token. redlock-rb#36 and redis-semaphore#175 revived the old lock (B8).
func TestExtendTakenOver(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, extender := range []*lab.Client{p.desk, p.far} {
		old := p.desk.Lock("job", "1s")
		lab.WaitFor(t, "expired", lab.Patience, func() bool { return p.holders(t, "job") == 0 })
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s") // nobody has it
		extender.WantDo("*2\r\n:0\r\n:0\r\n", "EXTEND", "job", old, "60s", "FULL")
		if n := p.holders(t, "job"); n != 0 {
			t.Errorf("EXTEND after expiry made %d keys", n)
		}
		token := p.far.Lock("job", "20s")
		p.wantHolders(t, "job", 5)
		before := p.values(t, "job")
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		lab.Settle(t, p.masters, p.Proxy, p.two)
		if after := p.values(t, "job"); !slices.Equal(before, after) {
			t.Errorf("EXTEND by the old token changed %q to %q", before, after)
		}
		if left := p.left(t, "job"); left[0] < 10*time.Second || left[4] > 20*time.Second {
			t.Errorf("EXTEND by the old token changed the expiry to %v, want 20s", left)
		}
		p.desk.Unlock("job", token) // taken over and released again
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		p.wantNoStray(t)
	}
}

// TestExtendMinority: a token that is left on a minority is not extended but cleared away.
func TestExtendMinority(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	old := p.desk.Lock("job", "60s")
	p.wantHolders(t, "job", 5)
	for _, s := range p.masters[:3] {
		s.Do(t, "DEL", "lock:job")
	}
	token := p.far.Lock("job", "60s")
	before := p.values(t, "job")
	p.desk.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
	lab.WaitFor(t, "the old token gone from the minority", lab.Patience, func() bool { return p.holders(t, "job") == 3 })
	if after := p.values(t, "job"); !slices.Equal(before[:3], after[:3]) {
		t.Errorf("EXTEND by the old token changed %q to %q", before, after)
	}
	p.desk.WantDo(":0\r\n", "UNLOCK", "job", old)
	p.desk.Unlock("job", token)
	p.wantNoStray(t)
}

// TestExtendRaises: EXTEND makes the rest of the ttl longer, never shorter, and says what validity is left.
func TestExtendRaises(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	token := p.desk.Lock("job", "1s")
	p.far.WantDo(":1\r\n", "EXTEND", "job", token, "30s")
	if left := p.left(t, "job"); left[2] < 25*time.Second || left[4] > 30*time.Second {
		t.Errorf("extended to 30s: %v", left)
	}
	p.far.WantDo(":1\r\n", "EXTEND", "job", token, "2s")
	if left := p.left(t, "job"); left[2] < 20*time.Second {
		t.Errorf("EXTEND by less lowered the expiry: %v", left)
	}
	for _, c := range []*lab.Client{p.desk, lab.Dial3(t, p.Addr)} {
		reply := c.Do("EXTEND", "job", token, "60s", "FULL")
		ms := lab.Number(t, lab.Scalar(lab.LastOf(reply)))
		if !strings.HasPrefix(reply, "*2\r\n:1\r\n:") || ms > 60_000-600-2 || ms < 55_000 {
			t.Errorf("EXTEND FULL: %q, want 1 and the validity", reply)
		}
	}
	for _, s := range p.masters[:3] {
		s.Pause(t)
	}
	if reply := p.desk.Do("EXTEND", "job", token, "60s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
		t.Errorf("EXTEND without a majority: %q", reply)
	}
	for _, s := range p.masters[:3] {
		s.Resume()
	}
	lab.WaitFor(t, "extended again", lab.Patience, func() bool { return p.desk.Do("EXTEND", "job", token, "60s") == ":1\r\n" })
	p.desk.Unlock("job", token)
	p.desk.WantDo(":0\r\n", "EXTEND", "job", token, "60s")
	p.wantNoStray(t)
}

// TestExtendHeals: a master that came back empty was never filled, and the next restart lost the lock (B9: redsync#147).
func TestExtendHeals(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	token := p.desk.Lock("job", "60s")
	p.wantHolders(t, "job", 5)
	for _, pair := range [][]*lab.Redis{p.masters[:2], p.masters[1:3], p.masters[3:]} {
		for _, s := range pair {
			s.RestartEmpty(t)
		}
		if n := p.holders(t, "job"); n < 3 { // more where a top-up of the last EXTEND was still owed when its master ended
			t.Fatalf("job is on %d masters, want the three that went on", n)
		}
		healed := func() bool {
			if reply := p.far.Do("EXTEND", "job", token, "60s"); reply != ":1\r\n" {
				t.Fatalf("EXTEND after two of five restarted: %q", reply)
			}
			return p.holders(t, "job") == 5
		}
		lab.WaitFor(t, "the lock on all five again", lab.Patience, healed)
		p.far.WantDo(lab.Null2, "LOCK", "job", "60s")
	}
	p.desk.Unlock("job", token)
	p.wantNoStray(t)
}

// TestToppedUp: a lock that only a bare majority held was granted to another when one key was lost (B10: redsync#186).
func TestToppedUp(t *testing.T) {
	t.Parallel()
	p, relays := relayedPair(t)
	for _, r := range relays[:2] {
		r.Freeze()
	}
	token := p.desk.Lock("job", "60s")
	if info := lab.MapOf(p.desk.Do("LOCKINFO", "job")); info["held"] != "3" || info["masters"] != "5" {
		t.Errorf("LOCKINFO: %v, want held by 3 of 5", info)
	}
	for _, r := range relays[:2] {
		r.Refuse(true)
		r.CutAll()
		r.Thaw()
		r.Refuse(false)
	}
	p.wantHolders(t, "job", 5)
	for _, s := range p.masters[3:] {
		s.Do(t, "DEL", "lock:job")
	}
	p.far.WantDo(lab.Null2, "LOCK", "job", "60s")
	p.desk.Unlock("job", token)
	p.wantNoStray(t)
}

// TestRetriedUnlock: a retried unlock deleted a newer lock of the same session (B25: etcd#22082).
func TestRetriedUnlock(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	host := lab.Dial(t, p.Addr)
	first := host.LockSession("job", "1s")
	host.Unlock("job", first)
	second := host.LockSession("job", "1s")
	for _, c := range []*lab.Client{host, p.desk, p.far} {
		c.WantDo(":0\r\n", "UNLOCK", "job", first)
		c.WantDo(":0\r\n", "EXTEND", "job", first, "60s")
	}
	lab.Pass(t, 1500*time.Millisecond) // the second is renewed still
	p.far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", second)
	p.wantNoStray(t)
}
