package locks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// These tests show which waiter wakes up, and in which order. The tests of package commands check
// on a clock of their own how soon it wakes up; integration/bench measures it.

// TestWaitersWakeUp: the waiters of two proxies. The first test counts from the start of the
// masters.
func TestWaitersWakeUp(t *testing.T) {
	t.Parallel()
	inTurn(t, lab.StartTwoProxies(t), []shared{
		{"release without a waiter publishes nothing", testReleaseWithoutWaiterPublishesNothing},
		{"release or expiry wakes a waiter", testReleaseOrExpiryWakesWaiter},
		{"waiters are served in order", testWaitersAreServedInOrder},
		{"dead waiters do not block the queue", testDeadWaitersDoNotBlockQueue},
		{"a waiter that leaves keeps the others' subscription", testWaiterThatLeavesKeepsOthersSubscription},
	})
}

// shared is a test that leaves no lock, no waiter and all servers as they were.
type shared struct {
	name string
	run  func(t *testing.T, p *lab.TwoProxies)
}

// inTurn runs tests one after the other with the same servers, on connections of their own.
func inTurn(t *testing.T, p *lab.TwoProxies, tests []shared) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			own := *p
			own.Near, own.Far = lab.Dial(t, p.Addr), lab.Dial(t, p.Second.Addr)
			test.run(t, &own)
		})
	}
}

// testReleaseOrExpiryWakesWaiter: a waiter wakes up when the lock is released through its own or
// the other proxy, well within the ttl of a minute. It also wakes up when the lock expires, and
// not before.
func testReleaseOrExpiryWakesWaiter(t *testing.T, p *lab.TwoProxies) {
	for name, unlocker := range map[string]*lab.Client{"same proxy": p.Near, "other proxy": p.Far} {
		waiter := lab.Dial(t, p.Addr)
		for i := range lab.Long(8, 21) {
			key := fmt.Sprintf("%s-%d", name[:4], i)
			token := p.Far.Lock(key, "60s")
			granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
			p.Near.WaitWaiting(1)
			p.WaitSubscribed(t, key)
			unlocker.Unlock(key, token)
			token, _ = lab.WantToken(t, name, granted)
			waiter.Unlock(key, token)
		}
	}
	for i := range 5 {
		key := fmt.Sprintf("expiry-%d", i)
		waiter, locked := lab.Dial(t, p.Addr), time.Now()
		p.Far.Lock(key, "1s")
		token, at := lab.WantToken(t, "after expiry", waiter.Later("LOCK", key, "60s", "WAIT", "20s"))
		if early := locked.Add(time.Second).Sub(at); early > 0 {
			t.Errorf("grant after another's lock of 1s: got it %v before the expiry", early)
		}
		waiter.Unlock(key, token)
	}
}

// testWaitersAreServedInOrder: of five waiters the second leaves. The others get the lock in
// order, and the key is free at the end. Dead and timed-out waiters blocked Redisson's fair lock
// (B22: Redisson#1104, #2883, #3004).
func testWaitersAreServedInOrder(t *testing.T, p *lab.TwoProxies) {
	for name, leave := range map[string]func(*lab.Client){
		"fin":  func(c *lab.Client) { c.Close() },
		"rst":  func(c *lab.Client) { c.Reset() },
		"quit": func(c *lab.Client) { c.Send(lab.Encode("QUIT")) },
		"half": func(c *lab.Client) { _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			token := p.Far.Lock("job", "60s")
			var hosts []*lab.Client
			var granted []<-chan lab.Answer
			for i := range 5 {
				hosts = append(hosts, lab.Dial(t, p.Addr))
				granted = append(granted, hosts[i].Later("LOCK", "job", "60s", "WAIT", "0"))
				p.Near.WaitWaiting(i + 1)
			}
			if info := lab.MapOf(p.Near.Do("LOCKINFO", "job")); info["waiting"] != "5" {
				t.Errorf("LOCKINFO: got %v, want 5 waiting", info)
			}
			leave(hosts[1])
			p.Near.WaitWaiting(4)
			p.Far.Unlock("job", token)
			for _, i := range []int{0, 2, 3, 4} {
				token, _ = lab.WantToken(t, fmt.Sprintf("waiter %d", i), granted[i])
				for _, later := range granted[i+1:] {
					if i > 0 {
						lab.WantSilence(t, "a later waiter", later)
					}
				}
				hosts[i].Unlock("job", token)
			}
			p.Near.WantDo(lab.Null2, "LOCKINFO", "job")
			lab.WantKeysGone(t, p.Masters, lab.Patience)
		})
	}
	p.WantNoStray(t)
}

// testDeadWaitersDoNotBlockQueue: the first waiter times out, the second is killed and the third
// resets its connection. The fourth gets the lock (B22).
func testDeadWaitersDoNotBlockQueue(t *testing.T, p *lab.TwoProxies) {
	token := p.Far.Lock("job", "60s")
	head := lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "6s") // time for the others to join
	p.Near.WaitWaiting(1)
	second := lab.LaunchCli(t, p.Addr, "LOCK", "job", "60s", "WAIT", "0")
	p.Near.WaitWaiting(2)
	third := lab.Dial(t, p.Addr)
	third.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "0"))
	p.Near.WaitWaiting(3)
	fourth := lab.Dial(t, p.Addr)
	granted := fourth.Later("LOCK", "job", "60s", "WAIT", "0")
	p.Near.WaitWaiting(4)
	second.Kill()
	third.Reset()
	if a := <-head; a.Reply != lab.Null2 {
		t.Errorf("the first waiter: got %q (%v), want null", a.Reply, a.Err)
	}
	p.Near.WaitWaiting(1)
	p.Far.Unlock("job", token)
	token, _ = lab.WantToken(t, "the fourth waiter", granted)
	fourth.Unlock("job", token)
	p.WantNoStray(t)
}

// TestReleaseBeforeSubscriptionWakesWaiter: a release between the failed try and the subscription
// wakes the waiter, without help from the slow timer of a second. In other libraries the waiter
// slept on (B19: redis-lock-py#3, Redisson#4744).
//
// Late grants show the timer at work. After each the test locks and unlocks another key, and takes
// the grant for late only if the machine is not so busy that this takes long as well.
func TestReleaseBeforeSubscriptionWakesWaiter(t *testing.T) {
	p := lab.StartTwoProxies(t)
	waiter := lab.Dial(t, p.Addr)
	const tries = 80
	late := 0
	for i := range tries {
		key := fmt.Sprintf("job-%d", i)
		token := p.Far.Lock(key, "60s")
		granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
		if i%8 > 0 {
			lab.Pass(t, time.Duration(i%8)*300*time.Microsecond)
		}
		start := time.Now()
		p.Far.Unlock(key, token)
		token, at := lab.WantToken(t, key, granted)
		waiter.Unlock(key, token)
		asked := time.Now()
		p.Near.Unlock("free", p.Near.Lock("free", "60s"))
		if pace := time.Since(asked); at.Sub(start) >= max(time.Second, 10*pace) {
			late++
		}
	}
	if late > 4 {
		t.Errorf("grants a second or more after the release: got %d of %d, want at most 4", late, tries)
	}
}

// TestUnevenReleaseWakesWaiter: a release that reaches one master long before the others wakes a
// waiter in another proxy too early. The proxy hears of the other masters as well, and wakes it
// again.
func TestUnevenReleaseWakesWaiter(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 6)
	relays, list := lab.StartRelays(t, servers[1:])
	flags := []string{"--upstream", servers[0].Addr, "--restart-guard", "off"}
	far := lab.StartProxy(t, append(flags, "--masters", list)...)
	near := lab.StartProxy(t, append(flags, "--masters", strings.Join(lab.Addrs(servers[1:]), ","))...)
	far.WaitVoting(t)
	near.WaitVoting(t)
	holder, waiter, desk := lab.Dial(t, far.Addr), lab.Dial(t, near.Addr), lab.Dial(t, near.Addr)
	p := &lab.TwoProxies{Cluster: &lab.Cluster{Masters: servers[1:]}}
	for i := range 5 {
		key := fmt.Sprintf("job-%d", i)
		token := holder.Lock(key, "60s")
		p.WantHolders(t, key, 5)
		granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
		desk.WaitWaiting(1)
		p.WaitSubscribed(t, key)
		for n, r := range relays {
			if n != i {
				r.Slow(15 * time.Millisecond)
			}
		}
		holder.Unlock(key, token)
		token, _ = lab.WantToken(t, key, granted)
		waiter.Unlock(key, token)
		for _, r := range relays {
			r.Slow(0)
		}
	}
}

// testWaiterThatLeavesKeepsOthersSubscription: of two waiters one leaves, and a release still
// wakes the other. No channel and no key is left. In Redisson a waiter that left took the other's
// subscription with it, and channels leaked (B20: Redisson#491, #4064); python-redis-lock left
// signal keys on the server (B21: #14, #15, #17).
func testWaiterThatLeavesKeepsOthersSubscription(t *testing.T, p *lab.TwoProxies) {
	for i := range 6 {
		key := fmt.Sprintf("job-%d", i)
		token := p.Far.Lock(key, "60s")
		hosts := []*lab.Client{lab.Dial(t, p.Addr), lab.Dial(t, p.Addr)}
		var granted []<-chan lab.Answer
		for n, host := range hosts {
			granted = append(granted, host.Later("LOCK", key, "60s", "WAIT", "20s"))
			p.Near.WaitWaiting(n + 1)
		}
		p.WaitSubscribed(t, key)
		hosts[i%2].Reset()
		p.Near.WaitWaiting(1)
		p.WaitSubscribed(t, key)
		p.Far.Unlock(key, token)
		token, _ = lab.WantToken(t, "the waiter that stayed", granted[1-i%2])
		p.Near.Unlock(key, token)
	}
	p.WantNoStray(t)
	for _, s := range p.Masters {
		lab.WaitFor(t, "the end of all subscriptions", lab.Patience,
			func() bool { return s.Do(t, "PUBSUB", "CHANNELS", "*") == "*0\r\n" })
		for _, key := range lab.Fields(s.Do(t, "KEYS", "*")) {
			if !strings.HasPrefix(key, "lockproxy:") {
				t.Errorf("keys on %s: got %q, want none but the proxy's own", s.Addr, key)
			}
		}
	}
}

// testReleaseWithoutWaiterPublishesNothing: UNLOCK publishes only while a client waits for the
// key.
func testReleaseWithoutWaiterPublishesNothing(t *testing.T, p *lab.TwoProxies) {
	trials := lab.CommandCounts(t, p.Masters, "publish") // by which the proxies check their rights
	published := func() int { return lab.CommandCounts(t, p.Masters, "publish") - trials }
	lockAndUnlock := func() {
		for i := range 10 {
			key := fmt.Sprintf("job-%d", i)
			p.Near.Unlock(key, p.Far.Lock(key, "60s"))
		}
		lab.Settle(t, p.Masters, p.Proxy, p.Second)
	}
	lockAndUnlock()
	if n := published(); n != 0 {
		t.Errorf("PUBLISH without a waiter: got %d, want none", n)
	}
	token := p.Far.Lock("waited", "60s")
	granted := lab.Dial(t, p.Addr).Later("LOCK", "waited", "60s", "WAIT", "20s")
	p.Near.WaitWaiting(1)
	p.WaitSubscribed(t, "waited")
	lockAndUnlock() // of other keys
	if n := published(); n != 0 {
		t.Errorf("PUBLISH for keys without a waiter: got %d, want none", n)
	}
	p.Far.Unlock("waited", token)
	token, _ = lab.WantToken(t, "the waiter", granted)
	lab.Settle(t, p.Masters, p.Proxy, p.Second)
	if n := published(); n < 3 || n > 5 {
		t.Errorf("PUBLISH for a key with a waiter: got %d, want one a master, on a majority at least", n)
	}
	lab.WaitFor(t, "the end of the subscription", lab.Patience,
		func() bool { return p.Masters[0].Do(t, "PUBSUB", "CHANNELS", "*") == "*0\r\n" })
	p.Near.Unlock("waited", token)
	lockAndUnlock()
	if n := published(); n > 5 {
		t.Errorf("PUBLISH before and after the end of the last wait: got %d, want at most 5", n)
	}
}
