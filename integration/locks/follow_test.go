package locks

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// fenceOf is the fence of a token as LOCKINFO takes it.
func fenceOf(token string) string { return token[:16] }

// follow asks for the next holder of job, on a connection of its own, and returns when the proxy
// has begun to wait.
func follow(t *testing.T, p *lab.TwoProxies, since, timeout string) <-chan lab.Answer {
	t.Helper()
	before := p.Near.Counter("following")
	answer := lab.Dial(t, p.Addr).Later("LOCKINFO", "job", "SINCE", since, "WAIT", timeout)
	lab.WaitFor(t, "a follower", lab.Patience, func() bool { return p.Near.Counter("following") == before+1 })
	return answer
}

// heard returns the answer, which must come because of what happened: the time that the client gave
// is longer than Patience.
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

// TestFollow: a client of one proxy hears of holders that come and go through another, of those
// that run out, and of nothing when its time is over.
func TestFollow(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	free := follow(t, p, "0", "50s")
	token := p.Far.Lock("job", "60s")
	if got := lab.MapOf(heard(t, "granted", free)); got["fence"] != strings.TrimLeft(fenceOf(token), "0") || got["mode"] != "exclusive" {
		t.Errorf("granted: %v, want the fence of %s", got, token)
	}
	var held []<-chan lab.Answer
	for range 3 {
		held = append(held, follow(t, p, fenceOf(token), "50s"))
	}
	p.Far.Unlock("job", token)
	for _, answer := range held {
		if got := heard(t, "released", answer); got != lab.Null2 {
			t.Errorf("released: %q", got)
		}
	}
	token = p.Far.Lock("job", "2s")
	if got := heard(t, "ran out", follow(t, p, fenceOf(token), "50s")); got != lab.Null2 {
		t.Errorf("ran out: %q", got)
	}
	token = p.Far.Lock("job", "60s")
	if got := lab.MapOf((<-follow(t, p, fenceOf(token), "300ms")).Reply); got["fence"] != strings.TrimLeft(fenceOf(token), "0") {
		t.Errorf("its time was over: %v", got)
	}
	p.Far.Unlock("job", token)
	p.WantNoStray(t)
}

// TestFollowCostsNothing: while nothing happens clients that follow a key do not make the proxy ask
// the masters. Those that leave end their wait.
func TestFollowCostsNothing(t *testing.T) {
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
	lab.WaitFor(t, "all follow", lab.Patience, func() bool { return p.Near.Counter("following") == len(all) })
	lab.Pass(t, 500*time.Millisecond)
	before, start := lab.CommandCounts(t, p.Masters, "evalsha"), time.Now()
	lab.Pass(t, 3*time.Second)
	seconds := int(time.Since(start)/time.Second) + 1
	// each second both proxies look at their records
	if asked, most := lab.CommandCounts(t, p.Masters, "evalsha")-before, 2*seconds*len(p.Masters); asked > most {
		t.Errorf("the masters ran %d scripts in %d seconds, want %d at most", asked, seconds, most)
	}
	for i, c := range all {
		if i%2 == 0 {
			c.Close()
		} else {
			c.Reset()
		}
	}
	lab.WaitFor(t, "the end of all", lab.Patience, func() bool { return p.Near.Counter("following") == 0 })
}

// TestFollowAtDrain: a proxy that ends says so to those who follow.
func TestFollowAtDrain(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	answer := follow(t, p, "0", "0")
	p.Signal(syscall.SIGTERM)
	if a := <-answer; a.Reply != "-TRYAGAIN the proxy is ending\r\n" {
		t.Errorf("got %q (%v)", a.Reply, a.Err)
	}
}

// TestSessionOfKeys: a session lock of several keys is renewed, lost and released with all of them.
func TestSessionOfKeys(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	host := lab.Dial3(t, p.Addr)
	token := lab.TokenOf(host.Do("LOCK", "a", "2s", "KEYS", "2", "b", "c", "SESSION"))
	if token == "" {
		t.Fatal("not granted")
	}
	lab.Pass(t, 3*time.Second)
	for _, key := range []string{"a", "b", "c"} {
		p.Far.WantDo(lab.Null2, "LOCK", key, "2s")
	}
	host.Close()
	for _, key := range []string{"a", "b", "c"} {
		lab.WaitFor(t, key+" is free", lab.Patience, func() bool { return p.Far.Do("LOCKINFO", key) == lab.Null2 })
	}
	host = lab.Dial3(t, p.Addr)
	token = lab.TokenOf(host.Do("LOCK", "a", "2s", "KEYS", "1", "b", "SESSION"))
	for _, s := range p.Masters {
		s.Do(t, "DEL", "lock:b")
	}
	lost := map[string]bool{}
	for range 2 {
		push := lab.Fields(host.Frame())
		if len(push) != 4 || push[0] != "lock" || push[1] != "lost" || push[3] != token {
			t.Fatalf("pushed %q", push)
		}
		lost[push[2]] = true
	}
	if !lost["a"] || !lost["b"] {
		t.Errorf("told of %v", lost)
	}
	host.WantDo(":0\r\n", "EXTEND", "a", token, "2s", "KEYS", "1", "b")
}
