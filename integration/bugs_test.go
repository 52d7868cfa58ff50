package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bugs seen in other lock systems, numbered B1, B2, ... with the report that tells of each. Others have a test of their
// own elsewhere: B3 and B33 TestResetWhileDeciding, B6 TestFull, B11 TestMastersKilled, B15 TestArguments, B34 TestGoRedis.

// TestB1LateGrant: the SET timed out at the client but landed, and the lock was held by nobody until its ttl
// (redlock-rb#76). Here a hung majority grants after the reply.
func TestB1LateGrant(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	host := dial(t, c.addr)
	for round := range 5 {
		for _, s := range c.masters[:3] {
			s.pause(t)
		}
		for i := range 20 {
			key := fmt.Sprintf("job-%d-%d", round, i)
			if reply := host.do("LOCK", key, "60s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
				t.Fatalf("LOCK with a hung majority: %q", reply)
			}
		}
		for _, s := range c.masters[:3] {
			s.resume()
		}
		wantNoStray(t, c.masters, c.proxy)
	}
}

// TestB2ReleaseOvertakes: after an early reply the release overtook the SET that was still on its way to a slow
// master (redsync WithFailFast, pottery). The relay holds exactly that SET until UNLOCK was answered.
func TestB2ReleaseOvertakes(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t)
	first, second := dial(t, one.addr), dial(t, two.addr)
	for i, r := range relays {
		for j, unlocker := range []*client{first, second} {
			key := fmt.Sprintf("held-%d-%d", i, j)
			held := r.hold("lock:"+key, 1)
			token := first.lock(key, "60s")
			wantHeld(t, held)
			unlocker.unlock(key, token)
			r.thaw()
			wantNoStray(t, masters, one, two)
		}
	}
	// The same where the LOCK fails: two of five hold the key for another, and the SETs of two more are on their way.
	for _, s := range masters[:3] {
		s.do(t, "SET", "lock:taken", "other", "PX", "60000")
	}
	held := relays[4].hold("lock:taken", 1)
	first.wantDo(null2, "LOCK", "taken", "60s")
	wantHeld(t, held)
	relays[4].thaw()
	settle(t, masters, one, two)
	for _, s := range masters[3:] {
		if got := s.do(t, "EXISTS", "lock:taken"); got != ":0\r\n" {
			t.Errorf("a failed LOCK left its key on %s", s.addr)
		}
	}
	for _, s := range masters[:3] {
		if got := s.do(t, "GET", "lock:taken"); got != bulk("other") {
			t.Errorf("a failed LOCK changed another's key to %q", got)
		}
	}
}

// TestB4ExpiredOnArrival: a lock was returned that had already expired (node-redlock#296). The proxy is stopped while
// the grants are on their way to it, for longer than the ttl.
func TestB4ExpiredOnArrival(t *testing.T) {
	t.Parallel()
	servers := startMasters(t, 4)
	masters := servers[1:]
	relays, list := startRelays(t, masters)
	p := startProxy(t, "--upstream", servers[0].addr, "--masters", list, "--restart-guard", "off", "--master-timeout", "2s")
	p.waitVoting(t)
	host := dial(t, p.addr)
	for round := range 2 {
		key := fmt.Sprintf("job-%d", round)
		var held []<-chan struct{}
		for _, r := range relays {
			held = append(held, r.hold("lock:"+key, 1))
		}
		host.send(encode("LOCK", key, "2s")) // waits up to 100ms for each master
		for _, h := range held {
			wantHeld(t, h)
		}
		p.pause(t)
		for _, r := range relays {
			r.thaw()
		}
		waitFor(t, "granted by the masters", patience, func() bool { return len(census(t, masters)) == 3 })
		waitFor(t, "expired there", patience, func() bool { return len(census(t, masters)) == 0 })
		p.resume()
		if reply := host.frame(); !strings.HasPrefix(reply, "-TRYAGAIN ") && !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Errorf("LOCK answered after its ttl: %q", reply)
		}
	}
	wantNoStray(t, masters, p)
}

// TestB4NoValidity: a ttl that the allowance for drift (1% and 2ms) uses up is never granted, however fast the masters.
func TestB4NoValidity(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--min-ttl", "1ms")
	host := dial(t, c.addr)
	late := 0
	for i := range 100 {
		reply := host.do("LOCK", fmt.Sprintf("job-%d", i), "2ms")
		if late += strings.Count(reply, "-TRYAGAIN "); !strings.HasPrefix(reply, "-TRYAGAIN ") && !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Fatalf("LOCK for 2ms: %q, and nothing of it is left", reply)
		}
	}
	if late == 0 {
		t.Error("not one of 100 was too late: this test asks nothing")
	}
}

// TestB5TooLateIsReleased: an acquisition that came too late was not cleaned up (symfony#32071). Here the second
// round of fencing is not confirmed in time.
func TestB5TooLateIsReleased(t *testing.T) {
	t.Parallel()
	servers := startMasters(t, 4)
	masters := servers[1:]
	setApart(t, masters, "job", []int{0, 5, 9})
	relays, list := startRelays(t, masters)
	p := startProxy(t, "--upstream", servers[0].addr, "--masters", list, "--restart-guard", "off")
	p.waitVoting(t)
	host := dial(t, p.addr)
	// The first two grant, with numbers 1 and 6; the message that raises the first one's counter does not arrive, and
	// the third master is out of reach.
	relays[0].hold("lock:job", 2)
	relays[2].hold("lock:job", 1)
	if reply := host.do("LOCK", "job", "60s"); !strings.HasPrefix(reply, "-TRYAGAIN ") {
		t.Errorf("LOCK without a second round: %q, want TRYAGAIN", reply)
	}
	for _, r := range relays {
		r.thaw()
	}
	wantNoStray(t, masters, p)
	host.unlock("job", host.lock("job", "60s"))
}

// TestB7SplitVote: keys of a failed attempt blocked its own repetition, and nobody got the lock until the ttl
// (node-redlock#369). Two proxies race for one key again and again; with one of three masters dead, every tie is a
// split vote.
func TestB7SplitVote(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	two := c.another(t)
	c.masters[2].kill()
	hosts := []*client{dial(t, c.addr), dial(t, two.addr)}
	nobody := 0
	for round := range 150 {
		key := fmt.Sprintf("job-%d", round)
		var replies [2]string
		var wg sync.WaitGroup
		for i, host := range hosts {
			wg.Go(func() { replies[i], _ = host.conn.do("LOCK", key, "60s") })
		}
		wg.Wait()
		winners := 0
		for i, reply := range replies {
			if token := tokenOf(reply); token != "" {
				winners++
				hosts[i].unlock(key, token)
			} else if reply != null2 {
				t.Errorf("round %d: %q", round, reply)
			}
		}
		if winners > 1 {
			t.Fatalf("round %d: both got %s", round, key)
		}
		if winners == 0 {
			nobody++
			start := time.Now()
			hosts[round%2].unlock(key, grant(t, hosts[round%2], key))
			if took := time.Since(start); took > time.Second*slack {
				t.Errorf("round %d: nobody got the lock for another %v of its 60s", round, took)
			}
		}
	}
	if nobody > 15 {
		t.Errorf("in %d of 150 rounds nobody got the lock: split votes are not retried", nobody)
	}
	c.masters[2].restart(t)
	wantNoStray(t, c.masters, c.proxy, two)
}

// TestB12UnlockAnswers: UNLOCK gave false without an error, a wrong error, or never ended (redsync#81, node-redlock#313).
func TestB12UnlockAnswers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	host, other := dial(t, c.addr), dial(t, c.addr)
	foreign := "9999999999999999:" + strings.Repeat("ab", 20)
	host.wantDo(":0\r\n", "UNLOCK", "job", foreign)
	token := host.lock("job", "60s")
	host.wantDo(":0\r\n", "UNLOCK", "job", foreign)
	other.unlock("job", token)
	host.wantDo(":0\r\n", "UNLOCK", "job", token)
	expired := host.lock("job", "20ms")
	waitFor(t, "expired", patience, func() bool { return len(census(t, c.masters)) == 0 })
	host.wantDo(":0\r\n", "UNLOCK", "job", expired)

	token = host.lock("job", "60s")
	for _, s := range c.masters[:3] {
		s.pause(t)
	}
	start := time.Now()
	if reply := host.do("UNLOCK", "job", token); !strings.HasPrefix(reply, "-NOQUORUM ") {
		t.Errorf("UNLOCK with a hung majority: %q", reply)
	}
	if took := time.Since(start); took > 500*time.Millisecond*slack {
		t.Errorf("UNLOCK took %v, want the master timeout of 50ms", took)
	}
	for _, s := range c.masters[:3] {
		s.resume()
	}
	wantKeysGone(t, c.masters, patience) // the release went on by itself
}

// TestB14DataKeyLocked: locking the name of a data key failed for ever, since the lock sat at the same key
// (node-redlock#195). Upstream and master are one server here. What stands at the lock's own place is never touched.
func TestB14DataKeyLocked(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := startProxy(t, "--upstream", s.addr, "--restart-guard", "off")
	p.waitVoting(t)
	host := dial(t, p.addr)
	host.wantDo(":1\r\n", "RPUSH", "orders", "1")
	host.unlock("orders", host.lock("orders", "60s"))
	host.wantDo(":1\r\n", "LLEN", "orders")

	host.wantDo(":2\r\n", "RPUSH", "lock:list", "a", "b")
	host.wantDo("+OK\r\n", "SET", "lock:forever", "x")
	for _, key := range []string{"list", "forever"} {
		host.wantDo(null2, "LOCK", key, "60s")
		host.wantDo(":0\r\n", "UNLOCK", key, "0000000000000001:"+strings.Repeat("0", 40))
		host.wantDo(":-1\r\n", "TTL", "lock:"+key)
	}
	host.wantDo("*2\r\n"+bulk("a")+bulk("b"), "LRANGE", "lock:list", "0", "-1")
	host.wantDo(bulk("x"), "GET", "lock:forever")
}

// TestB16NoKeyWithoutExpiry: a lock made in two steps stayed for ever when its maker died between them (redis-py#818).
// Proxies are killed in the middle of their work, and every key on every master must have an expiry.
func TestB16NoKeyWithoutExpiry(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	setApart(t, c.masters, "job-0", []int{0, 3, 6}) // so that second rounds happen, too
	for range 8 {
		p := startProxy(t, c.flags...)
		var wg sync.WaitGroup
		for i := range 4 {
			host := dial(t, p.addr)
			wg.Go(func() {
				for n := 0; ; n++ {
					if _, _, err := host.tryLock(fmt.Sprintf("job-%d", n%200*i), "60s"); err != nil {
						return
					}
				}
			})
		}
		pauseBetween(t, 30*time.Millisecond)
		p.kill()
		wg.Wait()
	}
	for _, s := range c.masters {
		for _, key := range lockKeys(t, s) {
			if left := s.do(t, "PTTL", "lock:"+key); left == ":-1\r\n" {
				t.Errorf("%s on %s has no expiry", key, s.addr)
			}
		}
	}
}
