package integration

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Five masters, of which up to three are killed, hung or slow.

// TestMastersKilled: two killed, everything works and ten calls of redis-cli are fast; three killed, NOQUORUM
// names them. B11: one node down raised an error instead of using the quorum (redlock-rb#60).
func TestMastersKilled(t *testing.T) {
	t.Parallel()
	cli := tool(t, "redis-cli")
	c := startCluster(t, 5)
	host := dial(t, c.addr)
	_, port, _ := strings.Cut(c.addr, ":")
	for dead := range 4 {
		if dead > 0 {
			c.masters[dead-1].kill()
		}
		host.wantDo("+OK\r\n", "SET", "passes", fmt.Sprint(dead))
		if dead == 3 {
			break
		}
		for i := range 20 {
			key := fmt.Sprintf("job-%d", i)
			host.unlock(key, host.lock(key, "30s"))
		}
		start := time.Now()
		for i := range 10 {
			out, err := exec.Command(cli, "-p", port, "LOCK", fmt.Sprintf("cli-%d-%d", dead, i), "30000").Output()
			if token := strings.TrimSpace(string(out)); err != nil || tokenOf(bulk(token)) == "" {
				t.Fatalf("redis-cli LOCK with %d masters dead: %q, %v", dead, out, err)
			}
		}
		if took := time.Since(start); took > 800*time.Millisecond*slack {
			t.Errorf("ten LOCKs with %d masters dead took %v, want under 0.8s", dead, took)
		}
	}
	waitFor(t, "every dead master known as refusing connections", patience, func() bool {
		reply := host.do("LOCK", "job", "30s")
		if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
			t.Fatalf("LOCK with 3 masters dead: %q", reply)
		}
		return strings.Count(reply, " refused the connection") == 3
	})
	reply := host.do("UNLOCK", "job", "0000000000000001:"+strings.Repeat("0", 40))
	for _, dead := range c.masters[:3] {
		if want := dead.addr + " refused the connection"; !strings.Contains(reply, want) {
			t.Errorf("UNLOCK answered %q, want %q in it", reply, want)
		}
	}
	if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("UNLOCK with 3 masters dead: %q", reply)
	}
	host.wantDo(bulk("3"), "GET", "passes")

	c.masters[2].restart(t)
	waitFor(t, "LOCK after a master came back", patience, func() bool { return tokenOf(host.do("LOCK", "back", "30s")) != "" })
}

// TestMastersHung: SIGSTOP of two costs no LOCK more than its majority takes; of three, NOQUORUM says so after
// the master timeout, and pass-through does not notice.
func TestMastersHung(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5, "--master-timeout", "2s")
	host := dial(t, c.addr)
	for hung := range 4 {
		if hung > 0 {
			c.masters[hung-1].pause(t)
		}
		host.wantDo("+OK\r\n", "SET", "passes", fmt.Sprint(hung))
		if hung == 3 {
			break
		}
		for i := range 50 {
			key, start := fmt.Sprintf("job-%d", i), time.Now()
			host.unlock(key, host.lock(key, "60s"))
			if took := time.Since(start); took > 200*time.Millisecond*slack {
				t.Errorf("LOCK and UNLOCK with %d masters hung took %v; the master timeout is 2s", hung, took)
			}
		}
	}
	start := time.Now()
	reply := host.do("LOCK", "job", "60s")
	if !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("LOCK with 3 masters hung: %q", reply)
	}
	if took := time.Since(start); took > 2500*time.Millisecond*slack {
		t.Errorf("NOQUORUM took %v, want about the master timeout of 2s", took)
	}
	for _, s := range c.masters[:3] {
		if !strings.Contains(reply, s.addr+" ") {
			t.Errorf("%q does not name %s", reply, s.addr)
		}
	}
	host.wantDo(bulk("3"), "GET", "passes")
	for _, s := range c.masters[:3] {
		s.resume()
	}
	wantNoStray(t, c.masters, c.proxy)
}

// TestMastersHungText: with the default master timeout the reply comes at once and says how long was waited.
func TestMastersHungText(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	for _, s := range c.masters[:2] {
		s.pause(t)
	}
	start := time.Now()
	reply := host.do("LOCK", "job", "60s")
	took := time.Since(start)
	want := fmt.Sprintf("-NOQUORUM 1 of 3 masters can vote, 2 needed: %s gave no answer in 50ms; %s gave no answer in 50ms\r\n",
		c.masters[0].addr, c.masters[1].addr)
	if reply != want {
		t.Errorf("got  %q\nwant %q", reply, want)
	}
	if took < 50*time.Millisecond || took > 250*time.Millisecond*slack {
		t.Errorf("NOQUORUM took %v, want 50ms", took)
	}
}

// TestMastersHidden: with show-masters off the addresses do not reach clients.
func TestMastersHidden(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--show-masters=false")
	host := dial(t, c.addr)
	c.masters[0].kill()
	c.masters[2].kill()
	waitFor(t, "both dead masters known as refusing connections", patience, func() bool {
		reply := host.do("LOCK", "job", "60s")
		for _, s := range c.masters {
			if strings.Contains(reply, s.addr) {
				t.Fatalf("%q shows the address %s", reply, s.addr)
			}
		}
		return reply == "-NOQUORUM 1 of 3 masters can vote, 2 needed: master 1 refused the connection; "+
			"master 3 refused the connection\r\n"
	})
}

// TestMastersSlow: two masters slower than the master timeout cost no LOCK anything; three make it NOQUORUM.
func TestMastersSlow(t *testing.T) {
	t.Parallel()
	servers := startMasters(t, 6)
	upstream, masters := servers[0], servers[1:]
	relays, list := startRelays(t, masters)
	p := startProxy(t, "--upstream", upstream.addr, "--masters", list, "--restart-guard", "off")
	p.waitVoting(t)
	host := dial(t, p.addr)
	for slow := range 4 {
		if slow > 0 {
			relays[slow-1].slow(150 * time.Millisecond)
		}
		if slow == 3 {
			break
		}
		start := time.Now()
		for i := range 20 {
			key := fmt.Sprintf("job-%d-%d", slow, i)
			host.unlock(key, host.lock(key, "60s"))
		}
		if took := time.Since(start); took > 500*time.Millisecond*slack {
			t.Errorf("20 LOCKs with %d slow masters took %v", slow, took)
		}
	}
	if reply := host.do("LOCK", "job", "60s"); !strings.HasPrefix(reply, "-NOQUORUM 2 of 5 masters can vote, 3 needed: ") {
		t.Errorf("LOCK with 3 slow masters: %q", reply)
	}
	host.wantDo("+PONG\r\n", "PING")
	for _, r := range relays {
		r.slow(0)
	}
	wantNoStray(t, masters, p)
}
