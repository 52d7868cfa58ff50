package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// How waiting ends without a grant: by its time-out, the limit on waiters, a drain, and the client's leaving.

// TestWaitTimeout: WAIT runs out to null at its time; WAIT 0 waits.
func TestWaitTimeout(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	token := p.far.lock("job", "60s")
	endless := dial(t, p.addr).later("LOCK", "job", "60s", "WAIT", "0")
	p.desk.waitWaiting(1)
	start := time.Now()
	replies := map[string]<-chan answered{
		null2: dial(t, p.two.addr).later("LOCK", "job", "60s", "WAIT", "1500ms"), // the head of its line
		null3: dial3(t, p.addr).later("LOCK", "job", "60s", "WAIT", "1500"),      // not the head
	}
	for null, ch := range replies {
		a := <-ch
		if took := a.at.Sub(start); a.reply != null || took < 1500*time.Millisecond || took > 1600*time.Millisecond+100*time.Millisecond*slack {
			t.Errorf("WAIT 1500ms: %q (%v) after %v", a.reply, a.err, took)
		}
	}
	p.desk.waitWaiting(1)
	pauseBetween(t, time.Second)
	wantSilence(t, "WAIT 0", endless)
	p.far.unlock("job", token)
	token, _ = wantToken(t, "WAIT 0", endless)
	p.desk.unlock("job", token)
	start = time.Now()
	if token = tokenOf(p.desk.do("LOCK", "free", "60s", "WAIT", "5s")); token == "" || time.Since(start) > 200*time.Millisecond*slack {
		t.Errorf("WAIT for a free lock: %q after %v", token, time.Since(start))
	}
	p.desk.unlock("free", token)
	p.wantNoStray(t)
}

// TestWaitWithoutQuorum: at the time-out the reply is NOQUORUM, for WAIT 0 after max-ttl; and masters that come back in
// time are used.
func TestWaitWithoutQuorum(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--max-ttl", "5s")
	for _, s := range p.masters[:3] {
		s.pause(t)
	}
	start := time.Now()
	endless := p.desk.later("LOCK", "endless", "2s", "WAIT", "0")
	short := p.far.later("LOCK", "short", "2s", "WAIT", "700ms")
	a := <-short
	if took := a.at.Sub(start); !strings.HasPrefix(a.reply, "-NOQUORUM ") || took < 700*time.Millisecond || took > 900*time.Millisecond*slack {
		t.Errorf("WAIT 700ms without a majority: %q (%v) after %v", a.reply, a.err, took)
	}
	a = <-endless
	if took := a.at.Sub(start); !strings.HasPrefix(a.reply, "-NOQUORUM ") || took < 5*time.Second || took > 7*time.Second*slack {
		t.Errorf("WAIT 0 without a majority: %q (%v) after %v, want max-ttl of 5s", a.reply, a.err, took)
	}
	granted := p.far.later("LOCK", "back", "2s", "WAIT", "0")
	pauseBetween(t, 300*time.Millisecond)
	for _, s := range p.masters[:3] {
		s.resume()
	}
	token, _ := wantToken(t, "the masters came back", granted)
	p.far.unlock("back", token)
	wantKeysGone(t, p.masters, 1500*time.Millisecond) // by release, before the ttl of 2s
}

// TestQueueFull: waiters are bounded, and what one took is given back however it went away. Endless retries leaked memory
// in node-redlock (B35).
func TestQueueFull(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--max-waiters", "3")
	token := p.far.lock("job", "60s")
	before := p.memory(t, "VmRSS")
	for range 10 {
		hosts := []*client{dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)}
		for i, host := range hosts {
			host.send(encode("LOCK", "job", "60s", "WAIT", "0"))
			p.desk.waitWaiting(i + 1)
		}
		for _, key := range []string{"job", "other"} {
			if reply := p.desk.do("LOCK", key, "60s", "WAIT", "5s"); !strings.HasPrefix(reply, "-LOCKQUEUEFULL ") {
				t.Fatalf("the fourth of three waiters: %q", reply)
			}
		}
		p.desk.wantDo(null2, "LOCK", "job", "60s") // without WAIT it takes no place
		hosts[0].Close()
		hosts[1].reset()
		p.desk.waitWaiting(1)
		p.desk.wantDo(null2, "LOCK", "job", "60s", "WAIT", "20ms")
		hosts[2].send(encode("QUIT"))
		p.desk.waitWaiting(0)
	}
	for range 300 {
		p.desk.wantDo(null2, "LOCK", "job", "60s", "WAIT", "1ms")
	}
	if after := p.memory(t, "VmRSS"); after > before+40 {
		t.Errorf("memory rose from %d to %d MB", before, after)
	}
	p.far.unlock("job", token)
	p.wantNoStray(t)
}

// TestDrainAnswersWaiters: SIGTERM answers who waits with null, long before the drain time-out of 3s.
func TestDrainAnswersWaiters(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	token := p.far.lock("job", "60s")
	waiters := []<-chan answered{dial(t, p.addr).later("LOCK", "job", "60s", "WAIT", "0"), dial(t, p.addr).later("LOCK", "job", "60s", "WAIT", "0")}
	p.desk.waitWaiting(2)
	start := time.Now()
	p.signal(syscall.SIGTERM)
	for _, ch := range waiters {
		if a := <-ch; a.reply != null2 || a.at.Sub(start) > time.Second*slack {
			t.Errorf("a waiter at the drain: %q (%v) after %v", a.reply, a.err, a.at.Sub(start))
		}
	}
	p.far.unlock("job", token)
	wantNoStray(t, p.masters, p.two)
}

// TestClientTimesOut: a client library that times out, closes and sends LOCK again through the other proxy gets the
// lock: its first try left the line, or the grant that nobody took was released. No key is left behind.
func TestClientTimesOut(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--master-timeout", "2s")
	again := func(what string, granted <-chan answered) {
		t.Helper()
		start := time.Now()
		token, at := wantToken(t, what, granted)
		if took := at.Sub(start); took > 700*time.Millisecond*slack {
			t.Errorf("%s: granted after %v", what, took)
		}
		p.far.unlock("job", token)
	}
	hold := func() string { // a first try that is still being decided may have the key for a moment more
		t.Helper()
		token, _ := wantToken(t, "the holder", p.desk.later("LOCK", "job", "60s", "WAIT", "30s"))
		return token
	}
	retry := func() <-chan answered { return p.far.later("LOCK", "job", "60s", "WAIT", "30s") }
	for name, leave := range map[string]func(*client){"fin": func(c *client) { c.Close() }, "rst": (*client).reset} {
		token := hold() // while it waits
		first := dial(t, p.addr)
		first.send(encode("LOCK", "job", "60s", "WAIT", "30s"))
		p.desk.waitWaiting(1)
		leave(first)
		second := retry()
		dial(t, p.two.addr).waitWaiting(1)
		p.desk.unlock("job", token)
		again(name+" while it waits", second)

		for i := range 25 { // at the moment of the release
			token = hold()
			first = dial(t, p.addr)
			first.send(encode("LOCK", "job", "60s", "WAIT", "30s"))
			p.desk.waitWaiting(1)
			leave(first)
			p.desk.send(encode("UNLOCK", "job", token))
			second = retry()
			p.desk.want(":1\r\n")
			again(fmt.Sprintf("%s at the moment of the release, %d", name, i), second)
		}

		for _, s := range p.masters[:3] { // while it is decided
			s.pause(t)
		}
		first = dial(t, p.addr)
		first.send(encode("LOCK", "job", "60s", "WAIT", "30s"))
		p.desk.waitWaiting(1)
		pauseBetween(t, 50*time.Millisecond)
		leave(first)
		second = retry()
		pauseBetween(t, 50*time.Millisecond)
		for _, s := range p.masters[:3] {
			s.resume()
		}
		again(name+" while it is decided", second)
	}
	p.wantNoStray(t)
}
