package locks

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// fenceOf returns the fence of a token in the form that SINCE takes.
func fenceOf(token string) string { return token[:16] }

// follow asks for the next holder of job on a connection of its own. It returns once the proxy
// waits, or has answered.
func follow(t *testing.T, p *lab.TwoProxies, since, timeout string) <-chan lab.Answer {
	t.Helper()
	before := p.Near.Counter("following")
	answer := lab.Dial(t, p.Addr).Later("LOCKINFO", "job", "SINCE", since, "WAIT", timeout)
	lab.WaitFor(t, "a follower", lab.Patience, func() bool {
		return p.Near.Counter("following") == before+1 || len(answer) > 0
	})
	return answer
}

// heard returns the answer. The test's WAIT timeout is longer than Patience, so an event must
// cause the answer.
func heard(t *testing.T, what string, answer <-chan lab.Answer) string {
	t.Helper()
	select {
	case a := <-answer:
		if a.Err != nil {
			t.Errorf("%s: %v", what, a.Err)
		}
		return a.Reply
	case <-time.After(lab.Patience):
		t.Fatalf("%s: no answer within %v", what, lab.Patience)
	}
	return ""
}

// TestFollowerHearsOfHolders: LOCKINFO with SINCE and WAIT answers when a lock is granted or
// released through another proxy, when it expires, and with the same holder at its timeout.
func TestFollowerHearsOfHolders(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	free := follow(t, p, "0", "50s")
	token := p.Far.Lock("job", "60s")
	if got := lab.MapOf(heard(t, "granted", free)); got["fence"] != strings.TrimLeft(fenceOf(token), "0") ||
		got["mode"] != "exclusive" {
		t.Errorf("after a grant: got %v, want the fence of %s", got, token)
	}
	var held []<-chan lab.Answer
	for range 3 {
		held = append(held, follow(t, p, fenceOf(token), "50s"))
	}
	p.Far.Unlock("job", token)
	for _, answer := range held {
		if got := heard(t, "released", answer); got != lab.Null2 {
			t.Errorf("after a release: got %q, want null", got)
		}
	}
	token = p.Far.Lock("job", "2s")
	if got := heard(t, "expired", follow(t, p, fenceOf(token), "50s")); got != lab.Null2 {
		t.Errorf("after the expiry: got %q, want null", got)
	}
	token = p.Far.Lock("job", "60s")
	if got := lab.MapOf((<-follow(t, p, fenceOf(token),
		"300ms")).Reply); got["fence"] != strings.TrimLeft(fenceOf(token), "0") {
		t.Errorf("at the timeout: got %v, want the fence of %s", got, token)
	}
	p.Far.Unlock("job", token)
	p.WantNoStray(t)
}

// TestFollowersDoNotLoadMasters: the proxy does not ask the masters on behalf of followers while
// the holder stays. A follower that leaves ends its wait.
func TestFollowersDoNotLoadMasters(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	p.Far.Lock("job", "60s")
	token := p.Far.Lock("other", "60s")
	var all []*lab.Client
	for range 20 {
		c := lab.Dial(t, p.Addr)
		c.Send(lab.Encode("LOCKINFO", "other", "SINCE", fenceOf(token), "WAIT", "0"))
		all = append(all, c)
	}
	lab.WaitFor(t, "all followers", lab.Patience, func() bool { return p.Near.Counter("following") == len(all) })
	lab.Pass(t, 500*time.Millisecond)
	start := time.Now()
	before := lab.CommandCounts(t, p.Masters, "evalsha")
	lab.Pass(t, 3*time.Second)
	asked := lab.CommandCounts(t, p.Masters, "evalsha") - before
	seconds := int(time.Since(start)/time.Second) + 1
	if most := 2 * seconds * len(p.Masters); asked > most { // each proxy looks at its record once a second
		t.Errorf("scripts at the masters in %d seconds: got %d, want at most %d", seconds, asked, most)
	}
	for i, c := range all {
		if i%2 == 0 {
			c.Close()
		} else {
			c.Reset()
		}
	}
	lab.WaitFor(t, "the end of all followers", lab.Patience, func() bool { return p.Near.Counter("following") == 0 })
}

// TestDrainAnswersFollowers: a proxy that drains answers its followers -TRYAGAIN.
func TestDrainAnswersFollowers(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	answer := follow(t, p, "0", "0")
	p.Signal(syscall.SIGTERM)
	if a := <-answer; a.Reply != "-TRYAGAIN the proxy is ending\r\n" {
		t.Errorf("got %q (%v), want -TRYAGAIN the proxy is ending", a.Reply, a.Err)
	}
}

// TestSessionLockOfKeysIsOne: a session lock of several keys is renewed, released and lost with
// all of them.
func TestSessionLockOfKeysIsOne(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial3(t, p.Addr)
	host.WantToken("LOCK", "a", "4s", "KEYS", "2", "b", "c", "SESSION")
	lab.Pass(t, 5*time.Second) // longer than the ttl
	for _, key := range []string{"a", "b", "c"} {
		p.Far.WantDo(lab.Null2, "LOCK", key, "2s")
	}
	host.Close()
	for _, key := range []string{"a", "b", "c"} {
		lab.WaitFor(t, "the release of "+key, lab.Patience, func() bool { return p.Far.Do("LOCKINFO", key) == lab.Null2 })
	}
	host = lab.Dial3(t, p.Addr)
	token := host.WantToken("LOCK", "a", "4s", "KEYS", "1", "b", "SESSION")
	for _, s := range p.Masters {
		s.Do(t, "DEL", "lock:b")
	}
	lost := map[string]bool{}
	for range 2 {
		push := lab.Fields(host.Frame())
		if len(push) != 4 || push[0] != "lock" || push[1] != "lost" || push[3] != token {
			t.Fatalf("push: got %q, want lock lost with %s", push, token)
		}
		lost[push[2]] = true
	}
	if !lost["a"] || !lost["b"] {
		t.Errorf("pushes of lost locks: got %v, want a and b", lost)
	}
	host.WantDo(":0\r\n", "EXTEND", "a", token, "2s", "KEYS", "1", "b")
}
