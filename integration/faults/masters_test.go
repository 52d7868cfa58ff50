package faults

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Five masters, of which up to three are killed, hung or slow.

// TestMastersKilled: two killed, everything works, also for redis-cli; three killed, NOQUORUM names
// them. B11: one node down raised an error instead of using the quorum
// (redlock-rb#60).
func TestMastersKilled(t *testing.T) {
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
		for i := range 10 {
			out, err := exec.Command(cli, "-p", port, "LOCK", fmt.Sprintf("cli-%d-%d", dead, i), "30000").Output()
			if token := strings.TrimSpace(string(out)); err != nil || lab.TokenOf(lab.Bulk(token)) == "" {
				t.Fatalf("redis-cli LOCK with %d masters dead: %q, %v", dead, out, err)
			}
		}
	}
	lab.WaitFor(t, "every dead master known as refusing connections", lab.Patience, func() bool {
		reply := lab.NotLate(host.Do("LOCK", "job", "30s"))
		if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
			t.Fatalf("LOCK with 3 masters dead: %q", reply)
		}
		return strings.Count(reply, " refused the connection") == 3
	})
	reply := lab.NotLate(host.Do("UNLOCK", "job", "0000000000000001:"+strings.Repeat("0", 40)))
	for _, dead := range c.Masters[:3] {
		if want := dead.Addr + " refused the connection"; !strings.Contains(reply, want) {
			t.Errorf("UNLOCK answered %q, want %q in it", reply, want)
		}
	}
	if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("UNLOCK with 3 masters dead: %q", reply)
	}
	host.WantDo(lab.Bulk("3"), "GET", "passes")

	c.Masters[2].RestartEmpty(t)
	lab.WaitFor(t, "LOCK after a master came back", lab.Patience, func() bool { return lab.TokenOf(host.Do("LOCK", "back", "30s")) != "" })
}

// TestMastersHung: SIGSTOP of two masters does not prevent locks; of three it makes LOCK reply
// NOQUORUM, while pass-through goes on. The tests of quorum check how long both take.
func TestMastersHung(t *testing.T) {
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
		t.Errorf("LOCK with 3 masters hung: %q", reply)
	}
	for _, s := range c.Masters[:3] {
		if !strings.Contains(reply, s.Addr+" ") {
			t.Errorf("%q does not name %s", reply, s.Addr)
		}
	}
	host.WantDo(lab.Bulk("3"), "GET", "passes")
	for _, s := range c.Masters[:3] {
		s.Resume()
	}
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// TestMastersHungText: the reply says how long was waited.
func TestMastersHungText(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--master-timeout", "50ms")
	host := lab.Dial(t, c.Addr)
	for _, s := range c.Masters[:2] {
		s.Pause(t)
	}
	reply := lab.NotLate(host.Do("LOCK", "job", "60s"))
	want := fmt.Sprintf("-NOQUORUM 1 of 3 masters can vote, 2 needed: %s gave no answer in 50ms; %s gave no answer in 50ms\r\n",
		c.Masters[0].Addr, c.Masters[1].Addr)
	if reply != want {
		t.Errorf("got  %q\nwant %q", reply, want)
	}
}

// TestMastersHidden: with show-masters off the addresses do not reach clients.
func TestMastersHidden(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--show-masters=false")
	host := lab.Dial(t, c.Addr)
	c.Masters[0].Kill()
	c.Masters[2].Kill()
	lab.WaitFor(t, "both dead masters known as refusing connections", lab.Patience, func() bool {
		reply := host.Do("LOCK", "job", "60s")
		for _, s := range c.Masters {
			if strings.Contains(reply, s.Addr) {
				t.Fatalf("%q shows the address %s", reply, s.Addr)
			}
		}
		return reply == "-NOQUORUM 1 of 3 masters can vote, 2 needed: master 1 refused the connection; "+
			"master 3 refused the connection\r\n"
	})
}

// TestMastersSlow: two masters slower than the master timeout do not prevent locks, three do. They
// are ten times as slow: on a busy machine the timer of the proxy may fire so late that answers
// which were due after the timeout count.
func TestMastersSlow(t *testing.T) {
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
	if reply := lab.NotLate(host.Do("LOCK", "job", "60s")); !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("LOCK with 3 slow masters: %q", reply)
	}
	host.WantDo("+PONG\r\n", "PING")
	for _, r := range relays {
		r.Slow(0)
	}
	lab.WantNoStray(t, masters, p)
}
