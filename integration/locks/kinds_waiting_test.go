package locks

import (
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// Clients wait for a lock of another kind.

// TestDowngradeWakesReaders: readers that wait in both proxies get the lock once its holder shares
// it, and a writer does not.
func TestDowngradeWakesReaders(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Near.Lock("job", "60s")
	var readers []<-chan lab.Answer
	for i := range 10 {
		addr := []string{p.Addr, p.Second.Addr}[i%2]
		readers = append(readers, lab.Dial(t, addr).Later("LOCK", "job", "60s", "SHARED", "WAIT", "0"))
	}
	p.Near.WaitWaiting(5)
	p.Far.WaitWaiting(5)
	p.WaitSubscribed(t, "job")
	p.Far.WantDo(":1\r\n", "EXTEND", "job", token, "60s", "SHARED")
	tokens := []string{token}
	for _, ch := range readers {
		reader, _ := lab.WantToken(t, "a reader", ch)
		if reader[:16] <= token[:16] {
			t.Errorf("a reader's token: got %s, want one above the writer's %s", reader, token)
		}
		tokens = append(tokens, reader)
	}
	p.Near.WantDo(lab.Null2, "LOCK", "job", "60s")
	writer := lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0")
	for i, reader := range tokens {
		lab.WantSilence(t, "the writer", writer)
		[]*lab.Client{p.Near, p.Far}[i%2].Unlock("job", reader)
	}
	last, _ := lab.WantToken(t, "the writer", writer)
	p.Far.Unlock("job", last)
	p.WantNoStray(t)
}

// TestWaiterOfAnyKindLeavesNoTrace: a client that waits for a lock of any kind and leaves keeps no
// other client out: neither readers after a writer, nor clients that want one of several keys.
func TestWaiterOfAnyKindLeavesNoTrace(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	reader := p.Near.WantToken("LOCK", "read", "60s", "SHARED")
	taken := p.Far.Lock("taken", "60s")
	for _, leave := range []func(*lab.Client){
		func(c *lab.Client) { c.Close() },
		func(c *lab.Client) { c.Reset() },
		func(c *lab.Client) { _ = c.CloseWrite() },
		func(c *lab.Client) { c.Send(lab.Encode("QUIT")) },
	} {
		for _, command := range [][]string{
			{"LOCK", "read", "60s", "WAIT", "0"},
			{"LOCK", "read", "60s", "LIMIT", "3", "WAIT", "0"},
			{"LOCK", "free", "60s", "KEYS", "2", "taken", "other", "WAIT", "0"},
		} {
			waiter := lab.Dial(t, p.Addr)
			waiter.Send(lab.Encode(command...))
			p.Near.WaitWaiting(1)
			leave(waiter)
			p.Near.WaitWaiting(0)
		}
		for _, key := range []string{"free", "other"} {
			p.Far.Unlock(key, lab.Grant(t, p.Far, key))
		}
	}
	next := ""
	lab.WaitFor(t, "another reader", lab.Patience, func() bool {
		next = lab.TokenOf(p.Far.Do("LOCK", "read", "60s", "SHARED"))
		return next != ""
	})
	p.Near.Unlock("read", reader)
	p.Near.Unlock("read", next)
	p.Near.Unlock("taken", taken)
	p.WantNoStray(t)
}

// TestLimitWithoutUnlockIsARateLimit: if no client gives its slot back, at most n get one within
// any ttl, and the next gets one when a slot expires.
func TestLimitWithoutUnlockIsARateLimit(t *testing.T) {
	t.Parallel()
	const limit, ttl = 5, 500 * time.Millisecond
	clients, lasts := lab.Long(10, 20), lab.Long(2*time.Second, 3*time.Second)
	c := startCrowd(t)
	start := time.Now()
	c.start(0, clients, func(m *member) bool {
		_, ok := m.lock(ttl, []string{"api"}, history.Limited, limit, false)
		m.sleep(20*time.Millisecond + m.upTo(20*time.Millisecond))
		return ok
	})
	grants := func() int { return history.Summarize(c.log.Ops()).Grants }
	lab.Pass(t, lasts)
	if !lab.Poll(lab.Patience, func() bool { return grants() > limit }) {
		t.Errorf("grants: got %d, want more than %d, since slots expire", grants(), limit)
	}
	c.end()
	span := time.Since(start)
	if got, most := grants(), int(limit*(span/ttl+2)); got > most {
		t.Errorf("grants in %v: got %d, want at most %d", span, got, most)
	}
	c.wantLegal()
}
