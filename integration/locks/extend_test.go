package locks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// EXTEND never revives a lost lock, and restores a held one on masters that lack it.

// TestExtendAndUnlock: commands with the tokens of earlier and present locks. The last test pauses
// masters.
func TestExtendAndUnlock(t *testing.T) {
	t.Parallel()
	inTurn(t, lab.StartTwoProxies(t), []shared{
		{"EXTEND after a takeover changes nothing", testExtendAfterTakeoverChangesNothing},
		{"EXTEND clears the token of a minority", testExtendClearsTokenOfMinority},
		{"a retried UNLOCK keeps the next lock", testRetriedUnlockKeepsNextLock},
		{"EXTEND raises the expiry", testExtendRaisesExpiry},
	})
}

// testExtendAfterTakeoverChangesNothing: EXTEND by a token whose lock has expired answers 0,
// changes neither value nor expiry of the next holder's lock, and leaves no key of the old token.
// redlock-rb#36 and redis-semaphore#175 revived the old lock (B8).
func testExtendAfterTakeoverChangesNothing(t *testing.T, p *lab.TwoProxies) {
	for _, extender := range []*lab.Client{p.Near, p.Far} {
		old := p.Near.Lock("job", "4s")
		lab.WaitFor(t, "the lock's expiry", lab.Patience, func() bool { return p.Holders(t, "job") == 0 })
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		extender.WantDo("*2\r\n:0\r\n:0\r\n", "EXTEND", "job", old, "60s", "FULL")
		if n := p.Holders(t, "job"); n != 0 {
			t.Errorf("keys after EXTEND of an expired lock: got %d, want none", n)
		}
		asked := time.Now()
		token := p.Far.Lock("job", "20s")
		p.WantHolders(t, "job", 5)
		before := p.Values(t, "job")
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		lab.Settle(t, p.Masters, p.Proxy, p.Second)
		if after := p.Values(t, "job"); !slices.Equal(before, after) {
			t.Errorf("values after EXTEND by the old token: got %q, want %q", after, before)
		}
		wantLeft(t, p, "job", 20*time.Second, asked)
		p.Near.Unlock("job", token) // taken over and released again
		extender.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
		p.WantNoStray(t)
	}
}

// wantLeft fails unless the key expires on each master after ttl, counted from the LOCK or EXTEND
// that the test began to send at the given time.
func wantLeft(t testing.TB, p *lab.TwoProxies, key string, ttl time.Duration, sent time.Time) {
	t.Helper()
	left := p.Left(t, key)
	least := ttl - time.Since(sent) - time.Millisecond
	if left[0] < least || left[len(left)-1] > ttl {
		t.Errorf("expiry of %s: got %v, want %v to %v", key, left, least, ttl)
	}
}

// testExtendClearsTokenOfMinority: EXTEND does not extend a token that only a minority holds, and
// removes it there.
func testExtendClearsTokenOfMinority(t *testing.T, p *lab.TwoProxies) {
	old := p.Near.Lock("job", "60s")
	p.WantHolders(t, "job", 5)
	for _, s := range p.Masters[:3] {
		s.Do(t, "DEL", "lock:job")
	}
	token := p.Far.Lock("job", "60s")
	before := p.Values(t, "job")
	p.Near.WantDo(":0\r\n", "EXTEND", "job", old, "60s")
	p.WantHolders(t, "job", 3)
	if after := p.Values(t, "job"); !slices.Equal(before[:3], after[:3]) {
		t.Errorf("values after EXTEND by the old token: got %q, want %q", after[:3], before[:3])
	}
	p.Near.WantDo(":0\r\n", "UNLOCK", "job", old)
	p.Near.Unlock("job", token)
	p.WantNoStray(t)
}

// testExtendRaisesExpiry: EXTEND raises the expiry, never lowers it, and FULL adds the validity.
func testExtendRaisesExpiry(t *testing.T, p *lab.TwoProxies) {
	token := p.Near.Lock("job", "10s")
	p.WantHolders(t, "job", 5)
	asked := time.Now()
	p.Far.WantDo(":1\r\n", "EXTEND", "job", token, "30s")
	lab.WaitFor(t, "an expiry over 10s on all masters", lab.Patience,
		func() bool { return p.Left(t, "job")[0] > 10*time.Second })
	wantLeft(t, p, "job", 30*time.Second, asked)
	p.Far.WantDo(":1\r\n", "EXTEND", "job", token, "2s")
	lab.Settle(t, p.Masters, p.Proxy, p.Second)
	wantLeft(t, p, "job", 30*time.Second, asked)
	for _, c := range []*lab.Client{p.Near, lab.Dial3(t, p.Addr)} {
		asked := time.Now()
		reply := c.Do("EXTEND", "job", token, "60s", "FULL")
		const most = 60_000 - 600 - 2
		least := most - int(time.Since(asked).Milliseconds()) - 1
		ms := lab.Number(t, lab.Scalar(lab.LastOf(reply)))
		if !strings.HasPrefix(reply, "*2\r\n:1\r\n:") || ms > most || ms < least {
			t.Errorf("EXTEND FULL: got %q, want 1 and a validity of %d to %d ms", reply, least, most)
		}
	}
	for _, s := range p.Masters[:3] {
		s.Pause(t)
	}
	if reply := p.Near.Do("EXTEND", "job", token, "60s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
		t.Errorf("EXTEND without a majority: got %q, want -NOQUORUM", reply)
	}
	for _, s := range p.Masters[:3] {
		s.Resume()
	}
	lab.WaitFor(t, "EXTEND by a majority again", lab.Patience,
		func() bool { return p.Near.Do("EXTEND", "job", token, "60s") == ":1\r\n" })
	p.Near.Unlock("job", token)
	p.Near.WantDo(":0\r\n", "EXTEND", "job", token, "60s")
	p.WantNoStray(t)
}

// TestExtendFillsRestartedMasters: EXTEND sets the lock on masters that came back empty. B9:
// another library never did, and the next restart lost the lock (redsync#147).
func TestExtendFillsRestartedMasters(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Near.Lock("job", "60s")
	p.WantHolders(t, "job", 5)
	for _, pair := range [][]*lab.Redis{p.Masters[:2], p.Masters[1:3], p.Masters[3:]} {
		for _, s := range pair {
			s.RestartEmpty(t)
		}
		if n := p.Holders(t, "job"); n < 3 { // more if the proxy still owed a restarted master a top-up
			t.Fatalf("masters with the lock: got %d, want the 3 that did not restart", n)
		}
		healed := func() bool {
			if reply := p.Far.Do("EXTEND", "job", token, "60s"); reply != ":1\r\n" {
				t.Fatalf("EXTEND after two of five restarted: got %q, want 1", reply)
			}
			return p.Holders(t, "job") == 5
		}
		lab.WaitFor(t, "the lock on all five again", lab.Patience, healed)
		p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	}
	p.WaitVoting(t) // the near proxy may reach the masters again later than the far one
	p.Near.Unlock("job", token)
	p.WantNoStray(t)
}

// TestLockIsToppedUp: the proxy sets a lock on masters that missed its SET. B10: another library
// left it on a bare majority, and the loss of one key let a second client in (redsync#186).
func TestLockIsToppedUp(t *testing.T) {
	t.Parallel()
	p, relays := lab.StartTwoRelayed(t)
	for _, r := range relays[:2] {
		r.Freeze()
	}
	token := lab.LockSoon(t, p.Near, "job", "60s")
	if info := lab.MapOf(p.Near.Do("LOCKINFO", "job")); info["held"] != "3" || info["masters"] != "5" {
		t.Errorf("LOCKINFO: got %v, want held by 3 of 5", info)
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

// testRetriedUnlockKeepsNextLock: a repeated UNLOCK of a session's first token leaves its second
// lock alone. B25: in etcd it deleted the newer lock (etcd#22082).
func testRetriedUnlockKeepsNextLock(t *testing.T, p *lab.TwoProxies) {
	host := lab.Dial(t, p.Addr)
	first := host.LockSession("job", "4s")
	host.Unlock("job", first)
	second := host.LockSession("job", "4s")
	for _, c := range []*lab.Client{host, p.Near, p.Far} {
		c.WantDo(":0\r\n", "UNLOCK", "job", first)
		c.WantDo(":0\r\n", "EXTEND", "job", first, "60s")
	}
	lab.Pass(t, 5*time.Second) // longer than the ttl: only a renewal keeps the lock
	p.Far.WantDo(lab.Null2, "LOCK", "job", "60s")
	host.Unlock("job", second)
	p.WantNoStray(t)
}
