package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Bugs of other lock systems have the numbers B1, B2 and so on, with the report of each. Some have
// a test elsewhere: B3 and B33 TestResetWhileDeciding, B6 TestFullAddsFenceAndValidity, B11
// TestTwoDeadMastersOfFiveDoNoHarm, B15 TestBadArgumentsGetContractErrors, B34 TestGoRedis.

// TestGrantAfterReplyIsReleased: a hung majority grants after the reply, and no key is left. B1:
// the SET timed out at the client but landed, so the key stayed closed until its ttl
// (redlock-rb#76).
func TestGrantAfterReplyIsReleased(t *testing.T) {
	t.Parallel()
	masters := lab.Long(3, 5)
	c := lab.StartCluster(t, masters)
	host := lab.Dial(t, c.Addr)
	for round := range lab.Long(2, 5) {
		for _, s := range c.Masters[:masters/2+1] {
			s.Pause(t)
		}
		for i := range 20 {
			key := fmt.Sprintf("job-%d-%d", round, i)
			if reply := host.Do("LOCK", key, "60s"); !strings.HasPrefix(reply, "-NOQUORUM ") {
				t.Fatalf("LOCK with a hung majority: got %q, want -NOQUORUM", reply)
			}
		}
		for _, s := range c.Masters[:masters/2+1] {
			s.Resume()
		}
		lab.WantNoStray(t, c.Masters, c.Proxy)
	}
}

// TestReleaseUndoesLateSET: a relay holds the SET to one master until UNLOCK has been answered,
// and no key is left. B2: after an early reply the release overtook the SET on its way to a slow
// master (redsync WithFailFast, pottery).
func TestReleaseUndoesLateSET(t *testing.T) {
	t.Parallel()
	masters, relays, one, two := strayCluster(t, 5)
	first, second := lab.Dial(t, one.Addr), lab.Dial(t, two.Addr)
	allVote := slices.Repeat([]string{"voting"}, len(masters))
	for i, r := range relays[:lab.Long(2, 5)] {
		for j, unlocker := range []*lab.Client{first, second} {
			key := fmt.Sprintf("held-%d-%d", i, j)
			lab.WaitStates(t, first, lab.Patience, allVote...)
			held := r.Hold("lock:"+key, 1)
			token := first.Lock(key, "60s")
			lab.WantHeld(t, held)
			unlocker.Unlock(key, token)
			r.Thaw()
			lab.WantNoStray(t, masters, one, two)
		}
	}
	// The same after a LOCK that fails: another holder has the key on three masters of five, and
	// the SET to one of the others is late.
	for _, s := range masters[:3] {
		s.Do(t, "SET", "lock:taken", "other", "PX", "60000")
	}
	lab.WaitStates(t, first, lab.Patience, allVote...)
	held := relays[4].Hold("lock:taken", 1)
	first.WantDo(lab.Null2, "LOCK", "taken", "60s")
	lab.WantHeld(t, held)
	relays[4].Thaw()
	lab.Settle(t, masters, one, two)
	for _, s := range masters[3:] {
		if got := s.Do(t, "EXISTS", "lock:taken"); got != ":0\r\n" {
			t.Errorf("key of a failed LOCK on %s: got %q, want none", s.Addr, got)
		}
	}
	for _, s := range masters[:3] {
		if got := s.Do(t, "GET", "lock:taken"); got != lab.Bulk("other") {
			t.Errorf("another holder's key after a failed LOCK: got %q, want it unchanged", got)
		}
	}
}

// TestGrantThatExpiredOnItsWayIsAnError: the proxy is stopped for longer than the ttl while the
// grants are on their way to it. B4: the client got a lock that had already expired
// (node-redlock#296).
func TestGrantThatExpiredOnItsWayIsAnError(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 4)
	masters := servers[1:]
	relays, list := lab.StartRelays(t, masters)
	p := lab.StartProxy(t, "--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off",
		"--master-timeout", "5s") // longer than the proxy is stopped, so that no master is down afterwards
	host := lab.Dial(t, p.Addr)
	for round := range 2 {
		key := fmt.Sprintf("job-%d", round)
		lab.WaitStates(t, host, lab.Patience, "voting", "voting", "voting")
		var held []<-chan struct{}
		for _, r := range relays {
			held = append(held, r.Hold("lock:"+key, 1))
		}
		host.Send(lab.Encode("LOCK", key, "4s")) // an attempt lasts a quarter of it
		for _, h := range held {
			lab.WantHeld(t, h)
		}
		p.Pause(t)
		for _, r := range relays {
			r.Thaw()
		}
		lab.WaitFor(t, "grants of all masters", lab.Patience, func() bool { return len(lab.Census(t, masters)) == 3 })
		lab.WaitFor(t, "the expiry on all masters", lab.Patience, func() bool { return len(lab.Census(t, masters)) == 0 })
		p.Resume()
		if reply := host.Frame(); !strings.HasPrefix(reply, "-TRYAGAIN ") && !strings.HasPrefix(reply, "-NOQUORUM ") {
			t.Errorf("LOCK answered after its ttl: got %q, want -TRYAGAIN or -NOQUORUM", reply)
		}
	}
	lab.WantNoStray(t, masters, p)
}

// TestTTLWithoutValidityIsNeverGranted: the allowance for drift (1% and 2ms) uses up a ttl of 2ms,
// so even quick masters do not grant it (B4).
func TestTTLWithoutValidityIsNeverGranted(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--min-ttl", "1ms")
	host := lab.Dial(t, c.Addr)
	granted, tries := 0, 0 // granted: by a majority of the masters, too late for the proxy
	lab.Poll(lab.Patience, func() bool {
		for range 100 {
			reply := host.Do("LOCK", fmt.Sprintf("job-%d", tries), "2ms")
			if !strings.HasPrefix(reply, "-TRYAGAIN ") && !strings.HasPrefix(reply, "-NOQUORUM ") {
				t.Fatalf("LOCK for 2ms: got %q, want -TRYAGAIN or -NOQUORUM", reply)
			}
			tries, granted = tries+1, granted+strings.Count(reply, "-TRYAGAIN ")
		}
		return granted > 0
	})
	if granted == 0 {
		t.Skipf("no majority of the masters granted any of %d LOCKs for 2ms in time: the machine is too busy", tries)
	}
}

// TestLockWithoutSecondRoundIsReleased: the masters do not confirm the second round of fencing in
// time, and no key is left. B5: an acquisition that came too late was not cleaned up
// (symfony#32071).
func TestLockWithoutSecondRoundIsReleased(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 4)
	masters := servers[1:]
	lab.SetCountersApart(t, masters, "job", []int{0, 5, 9})
	relays, list := lab.StartRelays(t, masters)
	p := lab.StartProxy(t, "--upstream", servers[0].Addr, "--masters", list, "--restart-guard", "off")
	host := lab.Dial(t, p.Addr)
	lab.WaitStates(t, host, lab.Patience, "voting", "voting", "voting")
	// The first two masters grant with numbers 1 and 6. The relays hold the request that raises
	// the first one's counter, and all requests to the third master.
	relays[0].Hold("lock:job", 2)
	relays[2].Hold("lock:job", 1)
	if reply := host.Do("LOCK", "job", "60s"); !strings.HasPrefix(reply, "-TRYAGAIN ") {
		t.Errorf("LOCK without a second round: got %q, want -TRYAGAIN", reply)
	}
	for _, r := range relays {
		r.Thaw()
	}
	lab.WantNoStray(t, masters, p)
	host.Unlock("job", host.Lock("job", "60s"))
}

// TestSplitVotesAreRetried: two proxies race for one key again and again. With one of three
// masters dead every tie is a split vote, and yet one of them gets the lock most of the time. B7:
// the keys of a failed attempt blocked the next, and no client got the lock until the ttl
// (node-redlock#369).
func TestSplitVotesAreRetried(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	two := c.Another(t)
	c.Masters[2].Kill()
	hosts := []*lab.Client{lab.Dial(t, c.Addr), lab.Dial(t, two.Addr)}
	without := 0 // rounds without a winner
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
			} else if reply != lab.Null2 && !lab.Late(reply) {
				t.Errorf("LOCK in round %d: got %q, want a token or null", round, reply)
			}
		}
		if winners > 1 {
			t.Fatalf("round %d: both clients got %s, want one at most", round, key)
		}
		if winners == 0 {
			without++
			hosts[round%2].Unlock(key, lab.Grant(t, hosts[round%2], key)) // sooner than the ttl of 60s
		}
	}
	if without > 15 {
		t.Errorf("rounds without a winner: got %d of 150, want at most 15", without)
	}
	c.Masters[2].RestartEmpty(t)
	lab.WantNoStray(t, c.Masters, c.Proxy, two)
}

// TestUnlockTellsHeldFromLost: UNLOCK answers 1 for a held lock, 0 for any other token, and
// NOQUORUM without a majority. B12: it returned false without an error, returned a wrong error, or
// never ended (redsync#81, node-redlock#313).
func TestUnlockTellsHeldFromLost(t *testing.T) {
	t.Parallel()
	masters := lab.Long(3, 5)
	c := lab.StartCluster(t, masters)
	host, other := lab.Dial(t, c.Addr), lab.Dial(t, c.Addr)
	foreign := "9999999999999999:" + strings.Repeat("ab", 20)
	host.WantDo(":0\r\n", "UNLOCK", "job", foreign)
	token := host.Lock("job", "60s")
	host.WantDo(":0\r\n", "UNLOCK", "job", foreign)
	other.Unlock("job", token)
	host.WantDo(":0\r\n", "UNLOCK", "job", token)
	expired := ""
	lab.WaitFor(t, "a lock of 20ms", lab.Patience, func() bool { // a busy machine needs several tries
		expired = lab.TokenOf(host.Do("LOCK", "job", "20ms"))
		return expired != ""
	})
	lab.WaitFor(t, "the expiry", lab.Patience, func() bool { return len(lab.Census(t, c.Masters)) == 0 })
	host.WantDo(":0\r\n", "UNLOCK", "job", expired)

	token = host.Lock("job", "60s")
	for _, s := range c.Masters[:masters/2+1] {
		s.Pause(t)
	}
	if reply := host.Do("UNLOCK", "job", token); !strings.HasPrefix(reply, "-NOQUORUM ") {
		t.Errorf("UNLOCK with a hung majority: got %q, want -NOQUORUM", reply)
	}
	for _, s := range c.Masters[:masters/2+1] {
		s.Resume()
	}
	lab.WantKeysGone(t, c.Masters, lab.Patience) // the proxy sends the release all the same
}

// TestLockLeavesDataKeysAlone: a client locks the name of a data key, and upstream and master are
// one server. LOCK never changes a foreign key at the lock's own name. B14: such a lock always
// failed, because it used the data's key (node-redlock#195).
func TestLockLeavesDataKeysAlone(t *testing.T) {
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

// TestKilledProxyLeavesNoKeyWithoutExpiry: proxies are killed in the middle of their work, and
// every key on every master has an expiry. B16: a lock was made in two steps, and stayed for ever
// when its client died between them (redis-py#818).
func TestKilledProxyLeavesNoKeyWithoutExpiry(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	lab.SetCountersApart(t, c.Masters, "job-0", []int{0, 3, 6}) // this makes second rounds necessary
	for range lab.Long(3, 8) {
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
				t.Errorf("PTTL of %s on %s: got %q, want an expiry", key, s.Addr, left)
			}
		}
	}
}
