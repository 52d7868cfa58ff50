package faults

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Up to three of five masters are dead, hung or slow.

// TestTwoDeadMastersOfFiveDoNoHarm: with two masters dead all commands work, also from redis-cli.
// With three dead, NOQUORUM names them. B11: one dead node caused an error instead of a decision
// by the majority (redlock-rb#60).
func TestTwoDeadMastersOfFiveDoNoHarm(t *testing.T) {
	t.Parallel()
	cli := lab.Tool(t, "redis-cli")
	c := lab.StartCluster(t, 5)
	host := lab.Dial(t, c.Addr)
	_, port, _ := strings.Cut(c.Addr, ":")
	for dead := range 4 {
		if dead > 0 {
			c.Masters[dead-1].Kill()
		}
		host.WantDo("+OK\r\n", "SET", "passes", fmt.Sprint(dead))
		if dead == 3 {
			break
		}
		for i := range 20 {
			key := fmt.Sprintf("job-%d", i)
			host.Unlock(key, host.Lock(key, "30s"))
		}
		for i := range lab.Long(4, 10) {
			out, err := exec.Command(cli, "-p", port, "LOCK", fmt.Sprintf("cli-%d-%d", dead, i), "30000").Output()
			if token := strings.TrimSpace(string(out)); err != nil || lab.TokenOf(lab.Bulk(token)) == "" {
				t.Fatalf("redis-cli LOCK with %d masters dead: got %q, %v, want a token", dead, out, err)
			}
		}
	}
	lab.WaitFor(t, "NOQUORUM because three masters refuse connections", lab.Patience, func() bool {
		reply := lab.NotLate(host.Do("LOCK", "job", "30s"))
		if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
			t.Fatalf("LOCK with 3 masters dead: got %q, want -NOQUORUM 2 of 5", reply)
		}
		return strings.Count(reply, " refused the connection") == 3
	})
	reply := lab.NotLate(host.Do("UNLOCK", "job", "0000000000000001:"+strings.Repeat("0", 40)))
	for _, dead := range c.Masters[:3] {
		if want := dead.Addr + " refused the connection"; !strings.Contains(reply, want) {
			t.Errorf("UNLOCK with 3 masters dead: got %q, want %q in it", reply, want)
		}
	}
	if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("UNLOCK with 3 masters dead: got %q, want -NOQUORUM 2 of 5", reply)
	}
	host.WantDo(lab.Bulk("3"), "GET", "passes")

	c.Masters[2].RestartEmpty(t)
	lab.WaitFor(t, "LOCK after a master came back", lab.Patience,
		func() bool { return lab.TokenOf(host.Do("LOCK", "back", "30s")) != "" })
}

// TestTwoHungMastersOfFiveDoNoHarm: SIGSTOP of two masters does not prevent locks. With three
// stopped LOCK answers NOQUORUM, and other commands still work. The tests of package quorum check
// how long both take.
func TestTwoHungMastersOfFiveDoNoHarm(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5, "--master-timeout", "2s")
	host := lab.Dial(t, c.Addr)
	for hung := range 4 {
		if hung > 0 {
			c.Masters[hung-1].Pause(t)
		}
		host.WantDo("+OK\r\n", "SET", "passes", fmt.Sprint(hung))
		if hung == 3 {
			break
		}
		for i := range 50 {
			key := fmt.Sprintf("job-%d", i)
			host.Unlock(key, host.Lock(key, "60s"))
		}
	}
	reply := lab.NotLate(host.Do("LOCK", "job", "60s"))
	if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("LOCK with 3 masters hung: got %q, want -NOQUORUM 2 of 5", reply)
	}
	for _, s := range c.Masters[:3] {
		if !strings.Contains(reply, s.Addr+" ") {
			t.Errorf("LOCK with 3 masters hung: got %q, want %s in it", reply, s.Addr)
		}
	}
	host.WantDo(lab.Bulk("3"), "GET", "passes")
	for _, s := range c.Masters[:3] {
		s.Resume()
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestNOQUORUMNamesTheTimeout: the reply says for how long the proxy has waited for a hung master.
func TestNOQUORUMNamesTheTimeout(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--master-timeout", "400ms") // a shorter one is longer while a proxy is late
	host := lab.Dial(t, c.Addr)
	want := fmt.Sprintf("-NOQUORUM 1 of 3 masters can vote, 2 needed: "+
		"%s gave no answer in 400ms; %s gave no answer in 400ms\r\n", c.Masters[0].Addr, c.Masters[1].Addr)
	reply := ""
	if !lab.Poll(lab.Patience, func() bool { // again if the third master takes more than 400ms on a busy machine
		for _, s := range c.Masters[:2] {
			s.Pause(t)
		}
		reply = lab.NotLate(host.Do("LOCK", "job", "60s"))
		for _, s := range c.Masters[:2] {
			s.Resume()
		}
		return reply == want
	}) {
		t.Errorf("LOCK with 2 masters hung: got %q, want %q", reply, want)
	}
}

// TestShowMastersOffHidesAddresses: with show-masters off clients do not see addresses of masters.
func TestShowMastersOffHidesAddresses(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--show-masters=false")
	host := lab.Dial(t, c.Addr)
	c.Masters[0].Kill()
	c.Masters[2].Kill()
	lab.WaitFor(t, "NOQUORUM because two masters refuse connections", lab.Patience, func() bool {
		reply := host.Do("LOCK", "job", "60s")
		for _, s := range c.Masters {
			if strings.Contains(reply, s.Addr) {
				t.Fatalf("LOCK: got %q, want no address such as %s in it", reply, s.Addr)
			}
		}
		return reply == "-NOQUORUM 1 of 3 masters can vote, 2 needed: master 1 refused the connection; "+
			"master 3 refused the connection\r\n"
	})
}

// TestTwoSlowMastersOfFiveDoNoHarm: two masters that are slower than master-timeout do not prevent
// locks, and three do. Their answers take five times as long, because on a busy machine the
// proxy's timer may fire late.
func TestTwoSlowMastersOfFiveDoNoHarm(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 6)
	upstream, masters := servers[0], servers[1:]
	relays, list := lab.StartRelays(t, masters)
	p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", list, "--restart-guard", "off")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	for slow := range 4 {
		if slow > 0 {
			relays[slow-1].Slow(5 * time.Second)
		}
		if slow == 3 {
			break
		}
		for i := range 20 {
			key := fmt.Sprintf("job-%d-%d", slow, i)
			host.Unlock(key, host.Lock(key, "60s"))
		}
	}
	if reply := lab.NotLate(host.Do("LOCK", "job", "60s")); !strings.HasPrefix(reply,
		"-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("LOCK with 3 slow masters: got %q, want -NOQUORUM 2 of 5", reply)
	}
	host.WantDo("+PONG\r\n", "PING")
	for _, r := range relays {
		r.Slow(0)
	}
	lab.WantNoStray(t, masters, p)
}
