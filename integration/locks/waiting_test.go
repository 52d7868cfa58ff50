package locks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// LOCK ... WAIT: who is woken, and in which order. How soon, the tests of commands check on a clock
// of their own; integration/bench measures it.

// TestWakeUp: a waiter is woken by a release through the same proxy and through the other one, long
// before the ttl of a minute is over, and by the holder's expiry, not before it.
func TestWakeUp(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	for name, unlocker := range map[string]*lab.Client{"same proxy": p.Near, "other proxy": p.Far} {
		waiter := lab.Dial(t, p.Addr)
		for i := range 21 {
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
		p.Far.Lock(key, "300ms")
		_, at := lab.WantToken(t, "after expiry", waiter.Later("LOCK", key, "60s", "WAIT", "20s"))
		if early := locked.Add(300 * time.Millisecond).Sub(at); early > 0 {
			t.Errorf("granted %v before the holder's expiry", early)
		}
	}
}

// TestWaitersInOrder: five waiters, the second hangs up: the others get the lock in order, and the
// key is free at the end. Redisson's fair lock was blocked by dead and timed-out waiters (B22:
// Redisson#1104, #2883, #3004).
func TestWaitersInOrder(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	for name, leave := range map[string]func(*lab.Client){
		"fin":  func(c *lab.Client) { c.Close() },
		"rst":  func(c *lab.Client) { c.Reset() },
		"quit": func(c *lab.Client) { c.Send(lab.Encode("QUIT")) },
		"half": func(c *lab.Client) { _ = c.CloseWrite() },
	} {
		token := p.Far.Lock("job", "60s")
		var hosts []*lab.Client
		var granted []<-chan lab.Answer
		for i := range 5 {
			hosts = append(hosts, lab.Dial(t, p.Addr))
			granted = append(granted, hosts[i].Later("LOCK", "job", "60s", "WAIT", "0"))
			p.Near.WaitWaiting(i + 1)
		}
		if info := lab.MapOf(p.Near.Do("LOCKINFO", "job")); info["waiting"] != "5" {
			t.Errorf("LOCKINFO says %v, want 5 waiting", info)
		}
		leave(hosts[1])
		p.Near.WaitWaiting(4)
		p.Far.Unlock("job", token)
		for _, i := range []int{0, 2, 3, 4} {
			token, _ = lab.WantToken(t, fmt.Sprintf("%s: waiter %d", name, i), granted[i])
			for _, later := range granted[i+1:] {
				if i > 0 {
					lab.WantSilence(t, name, later)
				}
			}
			hosts[i].Unlock("job", token)
		}
		p.Near.WantDo(lab.Null2, "LOCKINFO", "job")
		lab.WantKeysGone(t, p.Masters, lab.Patience)
	}
	p.WantNoStray(t)
}

// TestDeadWaiters: the head's time is up, the next was killed, the third reset its connection; the
// fourth is served (B22).
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Far.Lock("job", "60s")
	head := lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "300ms")
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
		t.Errorf("the head's time is up: %q (%v)", a.Reply, a.Err)
	}
	p.Near.WaitWaiting(1)
	p.Far.Unlock("job", token)
	token, _ = lab.WantToken(t, "the fourth", granted)
	fourth.Unlock("job", token)
	p.WantNoStray(t)
}

// TestLostWakeUp: a release between the failed try and the subscription was never heard of, and
// the waiter slept on (B19: redis-lock-py#3, Redisson#4744). The slow timer of a second may not be
// what wakes it.
func TestLostWakeUp(t *testing.T) {
	p := lab.StartTwoProxies(t)
	waiter := lab.Dial(t, p.Addr)
	late := 0
	for i := range 80 {
		key := fmt.Sprintf("job-%d", i)
		token := p.Far.Lock(key, "60s")
		granted := waiter.Later("LOCK", key, "60s", "WAIT", "20s")
		if i%8 > 0 {
			lab.Pass(t, time.Duration(i%8)*300*time.Microsecond)
		}
		start := time.Now()
		p.Far.Unlock(key, token)
		token, at := lab.WantToken(t, key, granted)
		if at.Sub(start) >= time.Second {
			late++
		}
		waiter.Unlock(key, token)
	}
	if late > 4 { // a busy machine may be late, but not each time
		t.Errorf("%d of 80 releases at the moment of the first try woke the waiter by its timer", late)
	}
}

// TestUnevenRelease: a release that reaches one master long before the others wakes a waiter in
// another proxy too early; it must hear of the rest as well.
func TestUnevenRelease(t *testing.T) {
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

// TestOneOfTwoLeaves: a waiter that left took the other's subscription with it, and channels
// leaked (B20: Redisson#491,
// #4064); signal keys were left on the server (B21: python-redis-lock#14, #15, #17).
func TestOneOfTwoLeaves(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
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
		p.WaitSubscribed(t, key) // the one that left has not taken this with it
		p.Far.Unlock(key, token)
		token, _ = lab.WantToken(t, "the one that stayed", granted[1-i%2])
		p.Near.Unlock(key, token)
	}
	p.WantNoStray(t)
	for _, s := range p.Masters {
		lab.WaitFor(t, "no channel left", lab.Patience, func() bool { return s.Do(t, "PUBSUB", "CHANNELS", "*") == "*0\r\n" })
		for _, key := range lab.Fields(s.Do(t, "KEYS", "*")) {
			if !strings.HasPrefix(key, "lockproxy:") {
				t.Errorf("%s keeps %q", s.Addr, key)
			}
		}
	}
}

// TestNothingPublished: a release that nobody waits for publishes nothing.
func TestNothingPublished(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	trials := lab.CommandCounts(t, p.Masters, "publish") // of the proxies' rights
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
		t.Errorf("%d PUBLISH although nobody waits", n)
	}
	token := p.Far.Lock("waited", "60s")
	granted := lab.Dial(t, p.Addr).Later("LOCK", "waited", "60s", "WAIT", "20s")
	p.Near.WaitWaiting(1)
	p.WaitSubscribed(t, "waited")
	lockAndUnlock() // of other keys
	if n := published(); n != 0 {
		t.Errorf("%d PUBLISH for keys that nobody waits for", n)
	}
	p.Far.Unlock("waited", token)
	token, _ = lab.WantToken(t, "the waiter", granted)
	lab.Settle(t, p.Masters, p.Proxy, p.Second)
	told := published()
	if told < 3 || told > 5 {
		t.Errorf("%d PUBLISH for a release that somebody waits for, want one a master", told)
	}
	lab.WaitFor(t, "unsubscribed", lab.Patience, func() bool { return p.Masters[0].Do(t, "PUBSUB", "CHANNELS", "*") == "*0\r\n" })
	p.Near.Unlock("waited", token)
	lockAndUnlock()
	if n := published(); n > 5 {
		t.Errorf("%d PUBLISH after the last waiter has gone", n-told)
	}
}
