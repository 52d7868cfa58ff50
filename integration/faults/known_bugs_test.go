package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Bugs seen in other lock systems, numbered B1, B2, ... with the report that tells of each. Others
// have a test of their own elsewhere: B3 and B33 TestResetWhileDeciding, B6 TestFull, B11
// TestMastersKilled, B15 TestArguments, B34 TestGoRedis.

// TestB1LateGrant: the SET timed out at the client but landed, and the lock was held by nobody
// until its ttl (redlock-rb#76). Here a hung majority grants after the reply.
func TestB1LateGrant(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	host := lab.Dial(t, c.Addr)
	for round := range 5 {
		for _, s := range c.Masters[:3] {
			s.Pause(t)
		}
		for i := range 20 {
			key := fmt.Sprintf("job-%d-%d", round, i)
			if reply := host.Do("LOCK", key, "60s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
				t.Fatalf("LOCK with a hung majority: %q", reply)
			}
		}
		for _, s := range c.Masters[:3] {
			s.Resume()
		}
		lab.WantNoStray(t, c.Masters, c.Proxy)
	}
}

// TestB2ReleaseOvertakes: after an early reply the release overtook the SET that was still on its
// way to a slow master (redsync WithFailFast, pottery). The relay holds exactly that SET until
// UNLOCK was answered.
func TestB2ReleaseOvertakes(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	for i, r := range relays {
		for j, unlocker := range []*lab.Client{first, second} {
			key := fmt.Sprintf("held-%d-%d", i, j)
			held := r.Hold("lock:"+key, 1)
			token := first.Lock(key, "60s")
			lab.WantHeld(t, held)
			unlocker.Unlock(key, token)
			r.Thaw()
			lab.WantNoStray(t, masters, one, two)
		}
	}
	// The same where the LOCK fails: two of five hold the key for another, and the SETs of two
	// more are on their way.
	for _, s := range masters[:3] {
		s.Do(t, "SET", "lock:taken", "other", "PX", "60000")
	}
	held := relays[4].Hold("lock:taken", 1)
	first.WantDo(lab.Null2, "LOCK", "taken", "60s")
	lab.WantHeld(t, held)
	relays[4].Thaw()
	lab.Settle(t, masters, one, two)
	for _, s := range masters[3:] {
		if got := s.Do(t, "EXISTS", "lock:taken"); got != ":0\r\n" {
			t.Errorf("a failed LOCK left its key on %s", s.Addr)
		}
	}
	for _, s := range masters[:3] {
		if got := s.Do(t, "GET", "lock:taken"); got != lab.Bulk("other") {
			t.Errorf("a failed LOCK changed another's key to %q", got)
		}
	}
}

// TestB4ExpiredOnArrival: a lock was returned that had already expired (node-redlock#296). The
// proxy is stopped while the grants are on their way to it, for longer than the ttl.
func TestB4ExpiredOnArrival(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 4)
	masters := servers[1:]
	relays, list := lab.StartRelays(t, masters)
	p := lab.StartProxy(t, "--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off", "--master-timeout", "2s")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	for round := range 2 {
		key := fmt.Sprintf("job-%d", round)
		var held []<-chan struct{}
		for _, r := range relays {
			held = append(held, r.Hold("lock:"+key, 1))
		}
		host.Send(lab.Encode("LOCK", key, "2s")) // waits up to 100ms for each master
		for _, h := range held {
			lab.WantHeld(t, h)
		}
		p.Pause(t)
		for _, r := range relays {
			r.Thaw()
		}
		lab.WaitFor(t, "granted by the masters", lab.Patience, func() bool { return len(lab.Census(t, masters)) == 3 })
		lab.WaitFor(t, "expired there", lab.Patience, func() bool { return len(lab.Census(t, masters)) == 0 })
		p.Resume()
		if reply := host.Frame(); !strings.HasPrefix(reply, "-TRYAGAIN ") && !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Errorf("LOCK answered after its ttl: %q", reply)
		}
	}
	lab.WantNoStray(t, masters, p)
}

// TestB4NoValidity: a ttl that the allowance for drift (1% and 2ms) uses up is never granted,
// however fast the masters.
func TestB4NoValidity(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--min-ttl", "1ms")
	host := lab.Dial(t, c.Addr)
	late := 0
	for i := range 100 {
		reply := host.Do("LOCK", fmt.Sprintf("job-%d", i), "2ms")
		if late += strings.Count(reply, "-TRYAGAIN "); !strings.HasPrefix(reply, "-TRYAGAIN ") && !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Fatalf("LOCK for 2ms: %q, and nothing of it is left", reply)
		}
	}
	if late == 0 {
		t.Error("not one of 100 was too late: this test asks nothing")
	}
}

// TestB5TooLateIsReleased: an acquisition that came too late was not cleaned up (symfony#32071).
// Here the second round of fencing is not confirmed in time.
func TestB5TooLateIsReleased(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 4)
	masters := servers[1:]
	lab.SetCountersApart(t, masters, "job", []int{0, 5, 9})
	relays, list := lab.StartRelays(t, masters)
	p := lab.StartProxy(t, "--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	// The first two grant, with numbers 1 and 6; the message that raises the first one's counter
	// does not arrive, and the third master is out of reach.
	relays[0].Hold("lock:job", 2)
	relays[2].Hold("lock:job", 1)
	if reply := host.Do("LOCK", "job", "60s"); !strings.HasPrefix(reply, "-TRYAGAIN ") {
		t.Errorf("LOCK without a second round: %q, want TRYAGAIN", reply)
	}
	for _, r := range relays {
		r.Thaw()
	}
	lab.WantNoStray(t, masters, p)
	host.Unlock("job", host.Lock("job", "60s"))
}

// TestB7SplitVote: keys of a failed attempt blocked its own repetition, and nobody got the lock
// until the ttl (node-redlock#369). Two proxies race for one key again and again; with one of
// three masters dead, every tie is a split vote.
func TestB7SplitVote(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	two := c.Another(t)
	c.Masters[2].Kill()
	hosts := []*lab.Client{lab.Dial(t, c.Addr), lab.Dial(t, two.Addr)}
	nobody := 0
	for round := range 150 {
		key := fmt.Sprintf("job-%d", round)
		var replies [2]string
		var wg sync.WaitGroup
		for i, host := range hosts {
			wg.Go(func() { replies[i], _ = host.Conn.Ask("LOCK", key, "60s") })
		}
		wg.Wait()
		winners := 0
		for i, reply := range replies {
			if token := lab.TokenOf(reply); token != "" {
				winners++
				hosts[i].Unlock(key, token)
			} else if reply != lab.Null2 {
				t.Errorf("round %d: %q", round, reply)
			}
		}
		if winners > 1 {
			t.Fatalf("round %d: both got %s", round, key)
		}
		if winners == 0 {
			nobody++
			hosts[round%2].Unlock(key, lab.Grant(t, hosts[round%2], key)) // long before its 60s are over
		}
	}
	if nobody > 15 {
		t.Errorf("in %d of 150 rounds nobody got the lock: split votes are not retried", nobody)
	}
	c.Masters[2].RestartEmpty(t)
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

// TestB12UnlockAnswers: UNLOCK gave false without an error, a wrong error, or never ended
// (redsync#81, node-redlock#313).
func TestB12UnlockAnswers(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	foreign := "9999999999999999:" + strings.Repeat("ab", 20)
	host.WantDo(":0\r\n", "UNLOCK", "job", foreign)
	token := host.Lock("job", "60s")
	host.WantDo(":0\r\n", "UNLOCK", "job", foreign)
	other.Unlock("job", token)
	host.WantDo(":0\r\n", "UNLOCK", "job", token)
	expired := ""
	lab.WaitFor(t, "a lock of 20ms", lab.Patience, func() bool { // a busy machine may take longer than that
		expired = lab.TokenOf(host.Do("LOCK", "job", "20ms"))
		return expired != ""
	})
	lab.WaitFor(t, "expired", lab.Patience, func() bool { return len(lab.Census(t, c.Masters)) == 0 })
	host.WantDo(":0\r\n", "UNLOCK", "job", expired)

	token = host.Lock("job", "60s")
	for _, s := range c.Masters[:3] {
		s.Pause(t)
	}
	if reply := host.Do("UNLOCK", "job", token); !strings.HasPrefix(reply, "-NOQUORUM ") {
		t.Errorf("UNLOCK with a hung majority: %q", reply)
	}
	for _, s := range c.Masters[:3] {
		s.Resume()
	}
	lab.WantKeysGone(t, c.Masters, lab.Patience) // the release went on by itself
}

// TestB14DataKeyLocked: locking the name of a data key failed for ever, since the lock sat at the
// same key (node-redlock#195). Upstream and master are one server here. What stands at the lock's
// own place is never touched.
func TestB14DataKeyLocked(t *testing.T) {
	t.Parallel()
	s := lab.StartRedis(t)
	p := lab.StartProxy(t, "--upstream", s.Addr, "--restart-guard", "off")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	host.WantDo(":1\r\n", "RPUSH", "orders", "1")
	host.Unlock("orders", host.Lock("orders", "60s"))
	host.WantDo(":1\r\n", "LLEN", "orders")

	host.WantDo(":2\r\n", "RPUSH", "lock:list", "a", "b")
	host.WantDo("+OK\r\n", "SET", "lock:forever", "x")
	for _, key := range []string{"list", "forever"} {
		host.WantDo(lab.Null2, "LOCK", key, "60s")
		host.WantDo(":0\r\n", "UNLOCK", key, "0000000000000001:"+strings.Repeat("0", 40))
		host.WantDo(":-1\r\n", "TTL", "lock:"+key)
	}
	host.WantDo("*2\r\n"+lab.Bulk("a")+lab.Bulk("b"), "LRANGE", "lock:list", "0", "-1")
	host.WantDo(lab.Bulk("x"), "GET", "lock:forever")
}

// TestB16NoKeyWithoutExpiry: a lock made in two steps stayed for ever when its maker died between
// them (redis-py#818). Proxies are killed in the middle of their work, and every key on every
// master must have an expiry.
func TestB16NoKeyWithoutExpiry(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	lab.SetCountersApart(t, c.Masters, "job-0", []int{0, 3, 6}) // so that second rounds happen, too
	for range 8 {
		p := lab.StartProxy(t, c.Flags...)
		var wg sync.WaitGroup
		for i := range 4 {
			host := lab.Dial(t, p.Addr)
			wg.Go(func() {
				for n := 0; ; n++ {
					if _, _, err := host.TryLock(fmt.Sprintf("job-%d", n%200*i), "60s"); err != nil {
						return
					}
				}
			})
		}
		lab.Pass(t, 30*time.Millisecond)
		p.Kill()
		wg.Wait()
	}
	for _, s := range c.Masters {
		for _, key := range lab.LockKeys(t, s) {
			if left := s.Do(t, "PTTL", "lock:"+key); left == ":-1\r\n" {
				t.Errorf("%s on %s has no expiry", key, s.Addr)
			}
		}
	}
}
