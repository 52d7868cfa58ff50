package locks

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// How waiting ends without a grant: by its time-out, the limit on waiters, a drain, and the
// client's leaving.

// TestWaitTimeout: WAIT runs out to null at its time; WAIT 0 waits.
func TestWaitTimeout(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	token := p.Far.Lock("job", "60s")
	endless := lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0")
	p.Near.WaitWaiting(1)
	start := time.Now()
	replies := map[string]<-chan lab.Answer{
		lab.Null2: lab.Dial(t, p.Second.Addr).Later("LOCK", "job", "60s", "WAIT", "1500ms"), // the head of its line
		lab.Null3: lab.Dial3(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "1500"),         // not the head
	}
	for null, ch := range replies {
		a := <-ch
		if took := a.At.Sub(start); a.Reply != null || took < 1500*time.Millisecond {
			t.Errorf("WAIT 1500ms: %q (%v) after %v", a.Reply, a.Err, took)
		}
	}
	p.Near.WaitWaiting(1)
	lab.Pass(t, time.Second)
	lab.WantSilence(t, "WAIT 0", endless)
	p.Far.Unlock("job", token)
	token, _ = lab.WantToken(t, "WAIT 0", endless)
	p.Near.Unlock("job", token)
	if token = lab.TokenOf(p.Near.Do("LOCK", "free", "60s", "WAIT", "5s")); token == "" {
		t.Error("WAIT for a free lock: not granted")
	}
	p.Near.Unlock("free", token)
	p.WantNoStray(t)
}

// TestWaitWithoutQuorum: at the time-out the reply is NOQUORUM, for WAIT 0 after max-ttl; and
// masters that come back in time are used.
func TestWaitWithoutQuorum(t *testing.T) {
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
		t.Errorf("WAIT 700ms without a majority: %q (%v) after %v", a.Reply, a.Err, took)
	}
	a = <-endless
	if took := a.At.Sub(start); !strings.HasPrefix(a.Reply, "-NOQUORUM ") || took < 5*time.Second {
		t.Errorf("WAIT 0 without a majority: %q (%v) after %v, want max-ttl of 5s", a.Reply, a.Err, took)
	}
	granted := p.Far.Later("LOCK", "back", "2s", "WAIT", "0")
	lab.Pass(t, 300*time.Millisecond)
	for _, s := range p.Masters[:3] {
		s.Resume()
	}
	token, _ := lab.WantToken(t, "the masters came back", granted)
	p.Far.Unlock("back", token) // a majority says so
	lab.WantKeysGone(t, p.Masters, lab.Patience)
}

// TestQueueFull: waiters are bounded, and what one took is given back however it went away.
// Endless retries leaked memory in node-redlock (B35).
func TestQueueFull(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--max-waiters", "3")
	p.Proxy = lab.StartPlainProxy(t, p.Flags...) // with the race detector pools drop a quarter of the buffers
	p.Near = lab.Dial(t, p.Addr)
	token := p.Far.Lock("job", "60s")
	before := p.Memory(t, "VmRSS")
	for range 10 {
		hosts := []*lab.Client{lab.Dial(t, p.Addr), lab.Dial(t, p.Addr), lab.Dial(t, p.Addr)}
		for i, host := range hosts {
			host.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "0"))
			p.Near.WaitWaiting(i + 1)
		}
		for _, key := range []string{"job", "other"} {
			if reply := p.Near.Do("LOCK", key, "60s", "WAIT", "5s"); !strings.HasPrefix(reply, "-LOCKQUEUEFULL ") {
				t.Fatalf("the fourth of three waiters: %q", reply)
			}
		}
		p.Near.WantDo(lab.Null2, "LOCK", "job", "60s") // without WAIT it takes no place
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
		t.Errorf("memory rose from %d to %d MB", before, after)
	}
	p.Far.Unlock("job", token)
	p.WantNoStray(t)
}

// TestDrainAnswersWaiters: after SIGTERM the proxy tells waiting clients that it is ending, long
// before its drain timeout of a minute.
func TestDrainAnswersWaiters(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--drain-timeout", "60s")
	token := p.Far.Lock("job", "60s")
	waiters := []<-chan lab.Answer{lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0"), lab.Dial(t, p.Addr).Later("LOCK", "job", "60s", "WAIT", "0")}
	p.Near.WaitWaiting(2)
	p.Signal(syscall.SIGTERM)
	for _, ch := range waiters {
		if a := <-ch; a.Reply != "-TRYAGAIN the proxy is ending\r\n" {
			t.Errorf("a waiter at the drain: %q (%v)", a.Reply, a.Err)
		}
	}
	p.Far.Unlock("job", token)
	lab.WantNoStray(t, p.Masters, p.Second)
}

// TestClientTimesOut: a client library that times out, closes and sends LOCK again through the
// other proxy gets the lock: its first try left the line, or the grant that nobody took was
// released. No key is left behind. On a busy machine the end of the connection may come behind the
// reply that it was to stop. The proxy then sees a reset and no end, as of a client that has read
// its token, and must leave the lock to its ttl. That happens once in hundreds.
func TestClientTimesOut(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--master-timeout", "2s")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("left on the masters %v, values %q", p.Left(t, "job"), p.Values(t, "job"))
			for _, addr := range []string{p.Addr, p.Second.Addr} {
				t.Logf("%s: %q %q", addr, lab.Dial(t, addr).Do("LOCKPROXY", "INFO"), lab.Dial(t, addr).Do("LOCKINFO", "job"))
			}
		}
	})
	again := func(what string, granted <-chan lab.Answer) (late bool) {
		t.Helper()
		start := time.Now()
		token, at := lab.WantToken(t, what, granted)
		took := at.Sub(start)
		if late = took > 4*time.Second; late { // half of the ttl of what is left to it
			t.Logf("%s: granted after %v", what, took)
		}
		p.Far.Unlock("job", token)
		return late
	}
	hold := func() string { // a first try that is still being decided may have the key for a moment more
		t.Helper()
		token, _ := lab.WantToken(t, "the holder", p.Near.Later("LOCK", "job", "60s", "WAIT", "30s"))
		return token
	}
	retry := func() <-chan lab.Answer { return p.Far.Later("LOCK", "job", "60s", "WAIT", "30s") }
	overtaken := 0
	for name, leave := range map[string]func(*lab.Client){"fin": func(c *lab.Client) { c.Close() }, "rst": (*lab.Client).Reset} {
		token := hold() // while it waits
		first := lab.Dial(t, p.Addr)
		first.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "30s"))
		p.Near.WaitWaiting(1)
		leave(first)
		second := retry()
		lab.Dial(t, p.Second.Addr).WaitWaiting(1)
		p.Near.Unlock("job", token)
		if again(name+" while it waits", second) {
			t.Errorf("%s while it waits: granted too late", name)
		}

		for i := range 25 { // at the moment of the release
			token = hold()
			first = lab.Dial(t, p.Addr)
			first.Send(lab.Encode("LOCK", "job", "8s", "WAIT", "30s"))
			p.Near.WaitWaiting(1)
			leave(first)
			p.Near.Send(lab.Encode("UNLOCK", "job", token))
			second = retry()
			p.Near.Want(":1\r\n")
			if again(fmt.Sprintf("%s at the moment of the release, %d", name, i), second) {
				overtaken++
			}
		}

		for _, s := range p.Masters[:3] { // while it is decided
			s.Pause(t)
		}
		first = lab.Dial(t, p.Addr)
		first.Send(lab.Encode("LOCK", "job", "60s", "WAIT", "30s"))
		p.Near.WaitWaiting(1)
		lab.Pass(t, 50*time.Millisecond)
		leave(first)
		second = retry()
		lab.Pass(t, 50*time.Millisecond)
		for _, s := range p.Masters[:3] {
			s.Resume()
		}
		if again(name+" while it is decided", second) {
			t.Errorf("%s while it is decided: granted too late", name)
		}
	}
	if overtaken > 2 {
		t.Errorf("%d of 50 locks were left to their ttl", overtaken)
	}
	p.WantNoStray(t)
}
