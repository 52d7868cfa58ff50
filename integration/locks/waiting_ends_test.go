package locks

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A wait ends without a grant at its timeout, at the limit on waiters, when the proxy drains, and
// when the client leaves.

// TestWaitEndsInNullAtItsTimeout: WAIT answers null at its timeout and not before. WAIT 0 has no
// timeout.
func TestWaitEndsInNullAtItsTimeout(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Far.Lock("job", "60s")
	endless := lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0")
	p.Near.WaitWaiting(1)
	start := time.Now()
	replies := map[string]<-chan lab.Answer{
		lab.Null2: lab.Dial(t, p.Second.Addr).Later("LOCK", "job", "60s", "WAIT", "1500ms"), // the head of its queue
		lab.Null3: lab.Dial3(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "1500"),         // not the head
	}
	for null, ch := range replies {
		a := <-ch
		if took := a.At.Sub(start); a.Reply != null || took < 1500*time.Millisecond {
			t.Errorf("WAIT 1500ms: got %q (%v) after %v, want %q and not before", a.Reply, a.Err, took, null)
		}
	}
	p.Near.WaitWaiting(1)
	lab.Pass(t, time.Second)
	lab.WantSilence(t, "WAIT 0", endless)
	p.Far.Unlock("job", token)
	token, _ = lab.WantToken(t, "WAIT 0", endless)
	p.Near.Unlock("job", token)
	p.Near.Unlock("free", p.Near.WantToken("LOCK", "free", "60s", "WAIT", "5s"))
	p.WantNoStray(t)
}

// TestWaitWithoutQuorumEndsInNOQUORUM: without a majority, WAIT answers NOQUORUM at its timeout,
// and WAIT 0 after max-ttl. If the masters come back before, it is granted.
func TestWaitWithoutQuorumEndsInNOQUORUM(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--max-ttl", "5s")
	for _, s := range p.Masters[:3] {
		s.Pause(t)
	}
	start := time.Now()
	endless := p.Near.Later("LOCK", "endless", "2s", "WAIT", "0")
	short := p.Far.Later("LOCK", "short", "2s", "WAIT", "700ms")
	a := <-short
	if took := a.At.Sub(start); !strings.HasPrefix(a.Reply, "-NOQUORUM ") || took < 700*time.Millisecond {
		t.Errorf("WAIT 700ms: got %q (%v) after %v, want -NOQUORUM and not before", a.Reply, a.Err, took)
	}
	a = <-endless
	if took := a.At.Sub(start); !strings.HasPrefix(a.Reply, "-NOQUORUM ") || took < 5*time.Second {
		t.Errorf("WAIT 0: got %q (%v) after %v, want -NOQUORUM after max-ttl of 5s and not before", a.Reply, a.Err, took)
	}
	granted := p.Far.Later("LOCK", "back", "5s", "WAIT", "40s")
	lab.Pass(t, 300*time.Millisecond)
	for _, s := range p.Masters[:3] {
		s.Resume()
	}
	token, _ := lab.WantToken(t, "LOCK after the masters came back", granted)
	p.Far.Unlock("back", token)
	lab.WantKeysGone(t, p.Masters, lab.Patience)
}

// TestMaxWaitersIsTheLimit: a proxy has at most max-waiters waiters. One that ends in any way
// makes room and leaves no memory. Endless retries leaked memory in node-redlock (B35).
func TestMaxWaitersIsTheLimit(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--max-waiters", "3")
	p.Proxy = lab.StartPlainProxy(t, p.Flags...) // the race detector makes pools drop a quarter of the buffers
	p.WaitVoting(t)
	p.Near = lab.Dial(t, p.Addr)
	token := p.Far.Lock("job", "60s")
	before := p.Memory(t, "VmRSS")
	for range lab.Long(5, 10) {
		hosts := []*lab.Client{lab.Dial(t, p.Addr), lab.Dial(t, p.Addr), lab.Dial(t, p.Addr)}
		for i, host := range hosts {
			host.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "0"))
			p.Near.WaitWaiting(i + 1)
		}
		for _, key := range []string{"job", "other"} {
			if reply := p.Near.Do("LOCK", key, "60s", "WAIT", "5s"); !strings.HasPrefix(reply, "-LOCKQUEUEFULL ") {
				t.Fatalf("LOCK WAIT with three waiters: got %q, want -LOCKQUEUEFULL", reply)
			}
		}
		p.Near.WantDo(lab.Null2, "LOCK", "job", "60s") // it needs no place, without WAIT
		hosts[0].Close()
		hosts[1].Reset()
		p.Near.WaitWaiting(1)
		p.Near.WantDo(lab.Null2, "LOCK", "job", "60s", "WAIT", "20ms")
		hosts[2].Send(lab.Encode("QUIT"))
		p.Near.WaitWaiting(0)
	}
	for range 300 {
		p.Near.WantDo(lab.Null2, "LOCK", "job", "60s", "WAIT", "1ms")
	}
	if after := p.Memory(t, "VmRSS"); after > before+40 {
		t.Errorf("memory: got %d MB, want %d MB as before, and 40 at most", after, before)
	}
	p.Far.Unlock("job", token)
	p.WantNoStray(t)
}

// TestDrainAnswersWaiters: a proxy that drains answers waiting clients -TRYAGAIN, without waiting
// for its drain timeout of a minute.
func TestDrainAnswersWaiters(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--drain-timeout", "60s")
	token := p.Far.Lock("job", "60s")
	waiters := []<-chan lab.Answer{lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0"),
		lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0")}
	p.Near.WaitWaiting(2)
	p.Signal(syscall.SIGTERM)
	for _, ch := range waiters {
		if a := <-ch; a.Reply != "-TRYAGAIN the proxy is ending\r\n" {
			t.Errorf("a waiter at the drain: got %q (%v), want -TRYAGAIN the proxy is ending", a.Reply, a.Err)
		}
	}
	p.Far.Unlock("job", token)
	lab.WantNoStray(t, p.Masters, p.Second)
}

// TestRetryAfterClientTimeoutIsGranted: a client library times out, closes the connection and
// sends LOCK again through the other proxy. It gets the lock, because its first try has left the
// queue, or the proxy has released the grant of which no client knows. No key is left.
//
// On a busy machine the end of the connection may reach the proxy after the reply. The proxy then
// sees the same as from a client that has read its token, and must leave the lock to its ttl. That
// happens once in hundreds of tries.
func TestRetryAfterClientTimeoutIsGranted(t *testing.T) {
	t.Parallel()
	p := &impatient{TwoProxies: lab.StartTwoProxies(t, "--master-timeout", "2s", "--admin-commands", "on"), t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("left on the masters %v, values %q", p.Left(t, "job"), p.Values(t, "job"))
			for _, addr := range []string{p.Addr, p.Second.Addr} {
				t.Logf("%s: %q %q", addr, lab.Dial(t, addr).Do("LOCKPROXY", "INFO"), lab.Dial(t, addr).Do("LOCKINFO", "job"))
			}
		}
	})
	for name, leave := range map[string]func(*lab.Client){"FIN": func(c *lab.Client) { c.Close() },
		"RST": (*lab.Client).Reset} {
		p.leavesWhileItWaits(name, leave)
		p.leavesAtTheRelease(name, leave)
		p.leavesWhileMastersDecide(name, leave)
	}
	p.WantNoStray(t)
}

// impatient is a client that gives up a first LOCK through the near proxy and sends a second one
// through the far proxy. The near desk holds the lock before.
//
// The ttl of the first LOCK is a minute, and the second one waits less. So a second grant shows
// that no lock was left to its ttl.
type impatient struct {
	*lab.TwoProxies
	t    *testing.T
	left int // first locks that were left to their ttl
}

// hold takes the lock. A first try that the masters still decide may have the key for a moment.
func (p *impatient) hold() (token string) {
	p.t.Helper()
	return p.granted("the holder", p.Near, p.Near.Later("LOCK", "job", "60s", "WAIT", "15s"))
}

// granted returns the token of a LOCK with WAIT 15s. If that time has passed, a first lock was
// left to its ttl. A third one fails the test.
func (p *impatient) granted(what string, desk *lab.Client, ch <-chan lab.Answer) (token string) {
	p.t.Helper()
	a := <-ch
	for ; a.Reply == lab.Null2; a = <-desk.Later("LOCK", "job", "60s", "WAIT", "15s") {
		if p.left++; p.left > 2 {
			p.t.Fatalf("locks left to their ttl: got %d, want at most 2 of 50; found by %s", p.left, what)
		}
		desk.Do("LOCKPROXY", "RELEASE", "job")
	}
	if token = lab.TokenOf(a.Reply); token == "" {
		p.t.Fatalf("%s: got %q (%v), want a token", what, a.Reply, a.Err)
	}
	return token
}

// first sends the first LOCK and returns once it waits.
func (p *impatient) first() *lab.Client {
	p.t.Helper()
	c := lab.Dial(p.t, p.Addr)
	c.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "30s"))
	p.Near.WaitWaiting(1)
	return c
}

// second sends the second LOCK.
func (p *impatient) second() <-chan lab.Answer {
	return p.Far.Later("LOCK", "job", "60s", "WAIT", "30s")
}

// wantGranted waits until the second LOCK is granted, and unlocks.
func (p *impatient) wantGranted(what string, second <-chan lab.Answer) {
	p.t.Helper()
	token, _ := lab.WantToken(p.t, what, second)
	p.Far.Unlock("job", token)
}

func (p *impatient) leavesWhileItWaits(name string, leave func(*lab.Client)) {
	p.t.Helper()
	token := p.hold()
	leave(p.first())
	second := p.second()
	lab.Dial(p.t, p.Second.Addr).WaitWaiting(1)
	p.Near.Unlock("job", token)
	p.wantGranted(name+" while it waits", second)
}

// leavesAtTheRelease lets the client leave just before the release.
func (p *impatient) leavesAtTheRelease(name string, leave func(*lab.Client)) {
	p.t.Helper()
	for range 25 {
		token := p.hold()
		leave(p.first())
		p.Near.Send(lab.Encode("UNLOCK", "job", token))
		second := p.Far.Later("LOCK", "job", "60s", "WAIT", "15s")
		p.Near.Want(":1\r\n")
		p.Far.Unlock("job", p.granted(name+" at the release", p.Far, second))
	}
	p.Near.Unlock("job", p.hold()) // the last one may have got the lock after the second LOCK
}

func (p *impatient) leavesWhileMastersDecide(name string, leave func(*lab.Client)) {
	p.t.Helper()
	for _, s := range p.Masters[:3] {
		s.Pause(p.t)
	}
	first := p.first()
	lab.Pass(p.t, 50*time.Millisecond)
	leave(first)
	second := p.second()
	lab.Pass(p.t, 50*time.Millisecond)
	for _, s := range p.Masters[:3] {
		s.Resume()
	}
	p.wantGranted(name+" while the masters decide", second)
}
