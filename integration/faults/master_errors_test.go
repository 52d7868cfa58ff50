package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Masters answer with an error, or have lost their scripts.

// TestLostScriptsDoNotReachClients: SCRIPT FLUSH and restarts of masters cause no error. B13:
// NOSCRIPT reached the caller (symfony#59686, redsync#91).
func TestLostScriptsDoNotReachClients(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	for i := range lab.Long(24, 60) {
		key := fmt.Sprintf("job-%d", i)
		flush := c.Masters
		if i%3 == 1 {
			flush = c.Masters[:1]
		}
		for _, s := range flush {
			s.Do(t, "SCRIPT", "FLUSH")
		}
		token := host.Lock(key, "60s")
		if i%2 == 0 {
			for _, s := range flush {
				s.Do(t, "SCRIPT", "FLUSH")
			}
		}
		host.Unlock(key, token)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)

	stop, flushed := make(chan struct{}), make(chan error, 1)
	go func() { flushed <- flushScripts(c.Masters, stop) }()
	for i := range lab.Long(100, 200) {
		key := fmt.Sprintf("busy-%d", i)
		host.Unlock(key, host.Lock(key, "60s"))
	}
	close(stop)
	if err := <-flushed; err != nil {
		t.Error(err)
	}

	for i, s := range c.Masters { // each in turn comes back empty
		s.RestartEmpty(t)
		key := fmt.Sprintf("restarted-%d", i)
		host.Unlock(key, lab.Grant(t, host, key))
		lab.Settle(t, c.Masters, c.Proxy)
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// flushScripts sends SCRIPT FLUSH to the masters in turn until stop is closed.
func flushScripts(masters []*lab.Redis, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(3 * time.Millisecond):
		}
		if _, err := masters[i%len(masters)].Ask("SCRIPT", "FLUSH"); err != nil {
			return err
		}
	}
}

// TestErrorOfMasterIsNoVote: MISCONF, READONLY, LOADING and the like from a minority do no harm;
// from a majority they make NOQUORUM, with the reason. B31: they counted as a grant or a refusal
// (node-redlock#11).
func TestErrorOfMasterIsNoVote(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5)
	for _, fault := range []masterError{
		{"too few replicas", "NOREPLICAS", (*lab.Redis).TooFewReplicas},
		{"out of memory", "OOM", (*lab.Redis).OutOfMemory},
		{"became a replica", "", (*lab.Redis).ReadOnly},
		{"cannot save", "MISCONF", (*lab.Redis).Misconfigured},
		{"loading", "LOADING", func(s *lab.Redis, t testing.TB) (end func()) {
			s.Loading(t, 60_000) // for a minute
			return func() { s.RestartEmpty(t) }
		}},
	} {
		t.Run(fault.name, func(t *testing.T) { wantNoVote(t, c, fault) })
	}
}

// masterError is a fault that makes a master answer writes with an error.
type masterError struct {
	name, says string
	begin      func(*lab.Redis, testing.TB) (end func())
}

// wantNoVote begins the fault on one master after the other until no majority is left, and ends
// it.
func wantNoVote(t *testing.T, c *lab.Cluster, fault masterError) {
	host := lab.Dial(t, c.Addr)
	var ends []func()
	for i, s := range c.Masters[:3] {
		ends = append(ends, fault.begin(s, t))
		if i == 2 {
			break
		}
		for n := range lab.Long(4, 10) {
			key := fmt.Sprintf("job-%d-%d", i, n)
			host.Unlock(key, host.Lock(key, "60s"))
		}
	}
	reply := ""
	lab.WaitFor(t, "NOQUORUM because of "+fault.says, lab.Patience, func() bool {
		reply = lab.NotLate(host.Do("LOCK", "job", "60s"))
		if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
			t.Fatalf("LOCK: got %q, want -NOQUORUM 2 of 5", reply)
		}
		return strings.Contains(reply, fault.says)
	})
	for _, s := range c.Masters[:3] {
		if !strings.Contains(reply, s.Addr+" ") {
			t.Errorf("LOCK: got %q, want %s in it", reply, s.Addr)
		}
	}
	for _, end := range ends {
		end()
	}
	host.Unlock("job", lab.Grant(t, host, "job"))
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestReleaseReachesMasterAfterItsErrors: a master refuses writes for a while, and clients release
// locks meanwhile. The proxy removes their keys there later.
func TestReleaseReachesMasterAfterItsErrors(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	var tokens []string
	for i := range 20 {
		tokens = append(tokens, host.Lock(fmt.Sprintf("job-%d", i), "60s"))
	}
	lab.WaitFor(t, "all keys on the first master", lab.Patience,
		func() bool { return len(lab.LockKeys(t, c.Masters[0])) == 20 })
	c.Masters[0].Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	for i, token := range tokens {
		host.Unlock(fmt.Sprintf("job-%d", i), token)
	}
	c.Masters[0].Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	lab.WantKeysGone(t, c.Masters, 2*lab.Patience)
}

// TestMasterThatWasAwayIsToppedUp: a master that was away when a client took a lock gets that lock
// later, with the rest of its ttl.
func TestMasterThatWasAwayIsToppedUp(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	c.Masters[0].Kill()
	host.Unlock("warm-up", lab.Grant(t, host, "warm-up"))
	token := host.Lock("job", "60s")
	c.Masters[0].RestartEmpty(t)
	lab.WaitFor(t, "the top-up", lab.Patience, func() bool {
		return c.Masters[0].Do(t, "EXISTS",
			"lock:job") == ":1\r\n"
	})
	if left := c.Masters[0].Do(t, "PTTL", "lock:job"); left == ":-1\r\n" || left >= ":60000\r\n" {
		t.Errorf("PTTL after the top-up: got %q, want under 60000 ms", left)
	}
	if one, two := c.Masters[0].Do(t, "GET", "lock:job"), c.Masters[1].Do(t, "GET", "lock:job"); one != two {
		t.Errorf("value after the top-up: got %q, want %q as on another master", one, two)
	}
	c.Masters[1].Kill()
	host.Unlock("job", token)
}

// TestServerUnderTwoNamesVotesOnce: one of two names of a server has no vote, also without the
// restart guard.
func TestServerUnderTwoNamesVotesOnce(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 3)
	_, port, _ := strings.Cut(servers[0].Addr, ":")
	p := lab.StartProxy(t, "--upstream", servers[2].Addr, "--masters",
		servers[0].Addr+",localhost:"+port+","+servers[1].Addr, "--restart-guard", "off")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	host.Unlock("job", host.Lock("job", "60s")) // two of three are enough
	servers[1].Kill()
	lab.WaitFor(t, "NOQUORUM", lab.Patience, func() bool {
		reply := host.Do("LOCK", "job", "50ms")
		return strings.HasPrefix(reply, "-NOQUORUM 1 of 3 masters can vote, 2 needed: ") &&
			strings.Contains(reply, "localhost:"+port)
	})
}
