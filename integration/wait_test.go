package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// LOCK ... WAIT: who is woken, when, and in which order. The tests that take times are not parallel to others.

// TestWakeUp: a waiter is woken within 20ms (median) of a release through the same proxy and through the other one, and
// within 100ms of the holder's expiry.
func TestWakeUp(t *testing.T) {
	p := startPair(t)
	for name, unlocker := range map[string]*client{"same proxy": p.desk, "other proxy": p.far} {
		var took []time.Duration
		waiter := dial(t, p.addr)
		for i := range 21 {
			key := fmt.Sprintf("%s-%d", name[:4], i)
			token := p.far.lock(key, "60s")
			granted := waiter.later("LOCK", key, "60s", "WAIT", "20s")
			p.desk.waitWaiting(1)
			p.waitHeard(t, key)
			start := time.Now()
			unlocker.unlock(key, token)
			token, at := wantToken(t, name, granted)
			took = append(took, at.Sub(start))
			waiter.unlock(key, token)
		}
		t.Logf("%s: %v", name, took)
		if m := median(took); m > 20*time.Millisecond*slack {
			t.Errorf("released through the %s: woken after %v (median of %v)", name, m, took)
		}
	}

	var took []time.Duration
	for i := range 5 {
		key := fmt.Sprintf("expiry-%d", i)
		waiter := dial(t, p.addr)
		p.far.lock(key, "300ms")
		locked := time.Now()
		_, at := wantToken(t, "after expiry", waiter.later("LOCK", key, "60s", "WAIT", "20s"))
		took = append(took, at.Sub(locked.Add(300*time.Millisecond)))
	}
	t.Logf("expiry: %v", took)
	for _, d := range took {
		if d > 100*time.Millisecond*slack {
			t.Errorf("expired: woken after %v, want 100ms", took)
		}
	}
	if m := median(took); m < -20*time.Millisecond {
		t.Errorf("granted before the holder's expiry: %v", took)
	}
}

// waitHeard returns when all masters have a subscriber to releases of key: the waiter has asked and will be told.
func (p *pair) waitHeard(t testing.TB, key string) {
	t.Helper()
	waitFor(t, "subscribed everywhere", patience, func() bool {
		for _, s := range p.masters {
			if len(fields(s.do(t, "PUBSUB", "CHANNELS", "lockproxy:*"+key))) == 0 {
				return false
			}
		}
		return true
	})
}

// TestWaitersInOrder: five waiters, the second hangs up: the others get the lock in order, and the key is free at the end.
// Redisson's fair lock was blocked by dead and timed-out waiters (B22: Redisson#1104, #2883, #3004).
func TestWaitersInOrder(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for name, leave := range map[string]func(*client){
		"fin":  func(c *client) { c.Close() },
		"rst":  func(c *client) { c.reset() },
		"quit": func(c *client) { c.send(encode("QUIT")) },
		"half": func(c *client) { _ = c.CloseWrite() },
	} {
		token := p.far.lock("job", "60s")
		var hosts []*client
		var granted []<-chan answered
		for i := range 5 {
			hosts = append(hosts, dial(t, p.addr))
			granted = append(granted, hosts[i].later("LOCK", "job", "60s", "WAIT", "0"))
			p.desk.waitWaiting(i + 1)
		}
		if info := mapOf(p.desk.do("LOCKINFO", "job")); info["waiting"] != "5" {
			t.Errorf("LOCKINFO says %v, want 5 waiting", info)
		}
		leave(hosts[1])
		p.desk.waitWaiting(4)
		p.far.unlock("job", token)
		for _, i := range []int{0, 2, 3, 4} {
			token, _ = wantToken(t, fmt.Sprintf("%s: waiter %d", name, i), granted[i])
			for _, later := range granted[i+1:] {
				if i > 0 {
					wantSilence(t, name, later)
				}
			}
			hosts[i].unlock("job", token)
		}
		p.desk.wantDo(null2, "LOCKINFO", "job")
		wantKeysGone(t, p.masters, 3*time.Second*slack)
	}
	p.wantNoStray(t)
}

// TestDeadWaiters: the head's time is up, the next was killed, the third reset its connection; the fourth is served at
// once (B22).
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	token := p.far.lock("job", "60s")
	head := dial(t, p.addr).later("LOCK", "job", "60s", "WAIT", "300ms")
	p.desk.waitWaiting(1)
	second := launchCli(t, p.addr, "LOCK", "job", "60s", "WAIT", "0")
	p.desk.waitWaiting(2)
	third := dial(t, p.addr)
	third.send(encode("LOCK", "job", "60s", "WAIT", "0"))
	p.desk.waitWaiting(3)
	fourth := dial(t, p.addr)
	granted := fourth.later("LOCK", "job", "60s", "WAIT", "0")
	p.desk.waitWaiting(4)
	second.kill()
	third.reset()
	if a := <-head; a.reply != null2 {
		t.Errorf("the head's time is up: %q (%v)", a.reply, a.err)
	}
	p.desk.waitWaiting(1)
	start := time.Now()
	p.far.unlock("job", token)
	token, at := wantToken(t, "the fourth", granted)
	if took := at.Sub(start); took > 300*time.Millisecond*slack {
		t.Errorf("the fourth was served after %v", took)
	}
	fourth.unlock("job", token)
	p.wantNoStray(t)
}

// TestLostWakeUp: a release between the failed try and the subscription was never heard of, and the waiter slept on
// (B19: redis-lock-py#3, Redisson#4744). The slow timer of a second may not be what wakes it.
func TestLostWakeUp(t *testing.T) {
	p := startPair(t)
	waiter := dial(t, p.addr)
	slowest := time.Duration(0)
	for i := range 80 {
		key := fmt.Sprintf("job-%d", i)
		token := p.far.lock(key, "60s")
		granted := waiter.later("LOCK", key, "60s", "WAIT", "20s")
		if i%8 > 0 {
			pauseBetween(t, time.Duration(i%8)*300*time.Microsecond)
		}
		start := time.Now()
		p.far.unlock(key, token)
		token, at := wantToken(t, key, granted)
		slowest = max(slowest, at.Sub(start))
		waiter.unlock(key, token)
	}
	if slowest > 600*time.Millisecond {
		t.Errorf("a release at the moment of the first try woke the waiter after %v", slowest)
	}
}

// TestUnevenRelease: a release that reaches one master long before the others wakes a waiter in another proxy too early; it
// must hear of the rest as well.
func TestUnevenRelease(t *testing.T) {
	servers := startMasters(t, 6)
	relays, list := startRelays(t, servers[1:])
	flags := []string{"--upstream", servers[0].addr, "--restart-guard", "off"}
	far := startProxy(t, append(flags, "--masters", list)...)
	near := startProxy(t, append(flags, "--masters", strings.Join(addrs(servers[1:]), ","))...)
	far.waitVoting(t)
	near.waitVoting(t)
	holder, waiter, desk := dial(t, far.addr), dial(t, near.addr), dial(t, near.addr)
	p := &pair{cluster: &cluster{masters: servers[1:]}}
	for i := range 5 {
		key := fmt.Sprintf("job-%d", i)
		token := holder.lock(key, "60s")
		p.wantHolders(t, key, 5)
		granted := waiter.later("LOCK", key, "60s", "WAIT", "20s")
		desk.waitWaiting(1)
		p.waitHeard(t, key)
		for n, r := range relays {
			if n != i {
				r.slow(15 * time.Millisecond)
			}
		}
		holder.unlock(key, token)
		start := time.Now()
		token, at := wantToken(t, key, granted)
		if took := at.Sub(start); took > 100*time.Millisecond*slack {
			t.Errorf("woken %v after UNLOCK was answered", took)
		}
		waiter.unlock(key, token)
		for _, r := range relays {
			r.slow(0)
		}
	}
}

// TestOneOfTwoLeaves: a waiter that left took the other's subscription with it, and channels leaked (B20: Redisson#491,
// #4064); signal keys were left on the server (B21: python-redis-lock#14, #15, #17).
func TestOneOfTwoLeaves(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for i := range 6 {
		key := fmt.Sprintf("job-%d", i)
		token := p.far.lock(key, "60s")
		hosts := []*client{dial(t, p.addr), dial(t, p.addr)}
		var granted []<-chan answered
		for n, host := range hosts {
			granted = append(granted, host.later("LOCK", key, "60s", "WAIT", "20s"))
			p.desk.waitWaiting(n + 1)
		}
		p.waitHeard(t, key)
		hosts[i%2].reset()
		p.desk.waitWaiting(1)
		start := time.Now()
		p.far.unlock(key, token)
		token, at := wantToken(t, "the one that stayed", granted[1-i%2])
		if took := at.Sub(start); took > 500*time.Millisecond {
			t.Errorf("the one that stayed was woken after %v", took)
		}
		p.desk.unlock(key, token)
	}
	p.wantNoStray(t)
	for _, s := range p.masters {
		waitFor(t, "no channel left", patience, func() bool { return s.do(t, "PUBSUB", "CHANNELS", "*") == "*0\r\n" })
		if keys := fields(s.do(t, "KEYS", "*")); len(keys) > 1 || len(keys) == 1 && !strings.HasPrefix(keys[0], "lockproxy:") {
			t.Errorf("%s keeps %q, want the counters at most", s.addr, keys)
		}
	}
}

// TestNothingPublished: a release that nobody waits for publishes nothing.
func TestNothingPublished(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	lockAndUnlock := func() {
		for i := range 10 {
			key := fmt.Sprintf("job-%d", i)
			p.desk.unlock(key, p.far.lock(key, "60s"))
		}
		settle(t, p.masters, p.proxy, p.two)
	}
	lockAndUnlock()
	if n := commandCounts(t, p.masters, "publish"); n != 0 {
		t.Errorf("%d PUBLISH although nobody waits", n)
	}
	token := p.far.lock("waited", "60s")
	granted := dial(t, p.addr).later("LOCK", "waited", "60s", "WAIT", "20s")
	p.desk.waitWaiting(1)
	p.waitHeard(t, "waited")
	lockAndUnlock() // of other keys
	if n := commandCounts(t, p.masters, "publish"); n != 0 {
		t.Errorf("%d PUBLISH for keys that nobody waits for", n)
	}
	p.far.unlock("waited", token)
	token, _ = wantToken(t, "the waiter", granted)
	settle(t, p.masters, p.proxy, p.two)
	told := commandCounts(t, p.masters, "publish")
	if told < 3 || told > 5 {
		t.Errorf("%d PUBLISH for a release that somebody waits for, want one a master", told)
	}
	waitFor(t, "unsubscribed", patience, func() bool { return p.masters[0].do(t, "PUBSUB", "CHANNELS", "*") == "*0\r\n" })
	p.desk.unlock("waited", token)
	lockAndUnlock()
	if n := commandCounts(t, p.masters, "publish"); n > 5 {
		t.Errorf("%d PUBLISH after the last waiter has gone", n-told)
	}
}
