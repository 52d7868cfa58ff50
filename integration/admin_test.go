package integration

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What operators ask: LOCKINFO, LOCKPROXY, and the shapes of FULL.

// elements splits an array or a map into its elements, raw; an element may be an array again.
func elements(frame string) (list []string) {
	r := bufio.NewReader(strings.NewReader(frame))
	if _, err := r.ReadString('\n'); err != nil {
		return nil
	}
	for {
		element, err := readFrame(r)
		if err != nil {
			return list
		}
		list = append(list, element)
	}
}

// lastOf returns the last element of an array.
func lastOf(frame string) string {
	list := elements(frame)
	if len(list) == 0 {
		return "_\r\n"
	}
	return list[len(list)-1]
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Errorf("%q is no number", text)
	}
	return n
}

// TestShapes: what LOCK FULL and LOCKINFO answer in both protocol versions, and that no part of a token that proves
// anything is shown.
func TestShapes(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for name, c := range map[string]*client{"RESP2": p.desk, "RESP3": dial3(t, p.addr)} {
		null, head := null2, "*12\r\n"
		if name == "RESP3" {
			null, head = null3, "%6\r\n"
		}
		reply := c.do("lock", "job", "30s", "full", "OWNER", "me and you", "WAIT", "5s", "session")
		parts := fields(reply)
		if !strings.HasPrefix(reply, "*3\r\n$57\r\n") || len(parts) != 3 {
			t.Fatalf("%s: LOCK FULL: %q", name, reply)
		}
		token := parts[0]
		if fence := number(t, parts[1]); fmt.Sprintf("%016d", fence) != token[:16] || !strings.Contains(reply, "\r\n:"+parts[1]+"\r\n:") {
			t.Errorf("%s: LOCK FULL: %q, want the number of the token as an integer", name, reply)
		}
		if validity := number(t, parts[2]); validity < 25_000 || validity > 30_000-300-2 {
			t.Errorf("%s: validity %d, want 30s less 1%% and 2ms and what it took", name, validity)
		}
		c.wantDo(null, "LOCK", "job", "30s", "FULL")
		p.wantHolders(t, "job", 5)
		reply = c.do("LOCKINFO", "job")
		info := mapOf(reply)
		ttl := number(t, info["ttl"])
		want := map[string]string{"held": "5", "masters": "5", "ttl": info["ttl"], "fence": parts[1], "owner": "me and you", "waiting": "0"}
		if !strings.HasPrefix(reply, head) || fmt.Sprint(info) != fmt.Sprint(want) || ttl < 20_000 || ttl > 30_000 {
			t.Errorf("%s: LOCKINFO: %q", name, reply)
		}
		if strings.Contains(reply, token[17:]) {
			t.Errorf("%s: LOCKINFO shows the token", name)
		}
		c.unlock("job", token)
		c.wantDo(null, "LOCKINFO", "job")
		token = tokenOf(c.do("LOCK", "job", "30s", "WAIT", "5s"))
		if info := mapOf(c.do("LOCKINFO", "job")); info["owner"] != "" {
			t.Errorf("%s: owner %q of a lock without label", name, info["owner"])
		}
		c.unlock("job", token)
		for _, s := range p.masters {
			s.do(t, "DEL", "lock:job")
			if s != p.masters[4] {
				s.do(t, "SET", "lock:job", "of another library", "PX", "10000")
			}
		}
		if info := mapOf(c.do("LOCKINFO", "job")); info["held"] != "4" || info["fence"] != "0" {
			t.Errorf("%s: LOCKINFO of another library's lock: %v", name, info)
		}
		for _, s := range p.masters {
			s.do(t, "DEL", "lock:job")
		}
	}
	p.wantNoStray(t)
}

// TestLocksPaging: LOCKPROXY LOCKS pages over 200 locks and returns each once.
func TestLocksPaging(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--admin-commands", "on")
	const locks = 200
	secrets := map[string]string{}
	for i := range locks {
		key := fmt.Sprintf("job-%d", i)
		secrets[key] = p.desk.lock(key, "60s")[17:]
	}
	p.wantHolders(t, fmt.Sprintf("job-%d", locks-1), 5)
	for _, s := range p.masters[:2] { // no lock: it holds no majority
		s.do(t, "SET", "lock:minority", strings.Repeat("a", 56), "PX", "60000")
	}
	for i, s := range p.masters[:2] { // not on the first masters
		s.do(t, "DEL", fmt.Sprintf("lock:job-%d", i))
	}
	page := func(c *client, args ...string) map[string]int {
		seen, cursor := map[string]int{}, "0"
		for range 1000 {
			reply := c.do(append([]string{"LOCKPROXY", "LOCKS", cursor}, args...)...)
			parts := elements(reply)
			if len(parts) != 2 {
				t.Fatalf("LOCKPROXY LOCKS %s: %q", cursor, reply)
			}
			for _, lock := range elements(parts[1]) {
				info := mapOf(lock)
				seen[info["key"]]++
				if held := number(t, info["held"]); held < 4 || info["masters"] != "5" || number(t, info["ttl"]) < 1000 {
					t.Errorf("%v", info)
				}
				if secret := secrets[info["key"]]; secret != "" && strings.Contains(lock, secret) {
					t.Errorf("LOCKS shows the token of %s", info["key"])
				}
			}
			if cursor = scalar(parts[0]); cursor == "0" {
				return seen
			}
		}
		t.Fatal("the cursor does not come back to 0")
		return nil
	}
	for _, c := range []*client{p.desk, p.far, dial3(t, p.addr)} {
		for _, args := range [][]string{nil, {"COUNT", "7"}, {"count", "500", "match", "job-*"}} {
			seen := page(c, args...)
			for key, n := range seen {
				if n != 1 || secrets[key] == "" {
					t.Errorf("LOCKS %q: %s came %d times", args, key, n)
				}
			}
			if len(seen) != locks {
				t.Errorf("LOCKS %q: %d locks, want %d", args, len(seen), locks)
			}
		}
	}
	if seen := page(p.far, "MATCH", "job-1?"); len(seen) != 10 {
		t.Errorf("LOCKS MATCH job-1?: %v, want job-10 to job-19", seen)
	}
	for _, args := range [][]string{{"LOCKS", "x"}, {"LOCKS", "0", "COUNT", "0"}, {"LOCKS", "0", "COUNT"}, {"LOCKS", "0", "TYPE", "x"}, {"LOCKS"}, {"NOSUCH"}} {
		if reply := p.desk.do(append([]string{"LOCKPROXY"}, args...)...); !strings.HasPrefix(reply, "-ERR ") {
			t.Errorf("LOCKPROXY %q: %q, want an error", args, reply)
		}
	}
}

// TestOperatorRelease: LOCKPROXY RELEASE frees a lock whoever holds it, and wakes who waits, in either proxy.
func TestOperatorRelease(t *testing.T) {
	t.Parallel()
	p := startPair(t, "--admin-commands", "on")
	p.desk.wantDo(":0\r\n", "LOCKPROXY", "RELEASE", "job")
	for _, operator := range []*client{p.desk, p.far} {
		host := dial(t, p.addr)
		token := host.lockSession("job", "5s")
		p.wantHolders(t, "job", 5)
		waiter := dial(t, p.two.addr)
		granted := waiter.later("LOCK", "job", "60s", "WAIT", "20s")
		p.waitHeard(t, "job")
		start := time.Now()
		operator.wantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
		next, at := wantToken(t, "RELEASE", granted)
		if took := at.Sub(start); took > 200*time.Millisecond*slack {
			t.Errorf("a waiter was woken %v after RELEASE", took)
		}
		host.wantDo(":0\r\n", "UNLOCK", "job", token)
		waiter.unlock("job", next)
	}
	p.wantNoStray(t)
}

// TestAdminGate: LOCKS, RELEASE and ADMIT answer on network listeners only with admin-commands, on Unix sockets always; the
// others everywhere.
func TestAdminGate(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	socket := filepath.Join(t.TempDir(), "p.sock")
	startProxy(t, append(p.flags, "--listen", "unix://"+socket)...)
	cli := tool(t, "redis-cli")
	token := p.desk.lock("job", "60s")
	for _, args := range [][]string{{"LOCKS", "0"}, {"RELEASE", "job"}, {"ADMIT", p.masters[0].addr}} {
		if reply := p.desk.do(append([]string{"LOCKPROXY"}, args...)...); !strings.HasPrefix(reply, "-NOPERM ") {
			t.Errorf("LOCKPROXY %q without admin-commands: %q", args, reply)
		}
	}
	p.wantHolders(t, "job", 5)
	for _, want := range []struct{ command, reply string }{{"LOCKS 0 COUNT 1000", "job"}, {"RELEASE job", "1"}} {
		args := append([]string{"-s", socket, "LOCKPROXY"}, strings.Fields(want.command)...)
		run := launch(t, "redis-cli", cli, args...)
		<-run.done
		if out := run.log.String(); !strings.Contains(out, want.reply) || strings.Contains(out, "NOPERM") {
			t.Errorf("%s over a Unix socket: %q", want.command, out)
		}
	}
	p.desk.wantDo(":0\r\n", "UNLOCK", "job", token)

	if help := p.desk.do("LOCKPROXY", "help"); !strings.HasPrefix(help, "*") || !strings.Contains(help, "RELEASE <key>") {
		t.Errorf("LOCKPROXY HELP: %q", help)
	}
	if info := scalar(p.desk.do("LOCKPROXY", "INFO")); !strings.Contains(info, "lockproxy_version:") || p.desk.counter("granted") < 1 {
		t.Errorf("LOCKPROXY INFO: %q", info)
	}
	p.masters[0].kill()
	waitFor(t, "the dead master seen", patience, func() bool {
		return mapOf(elements(p.far.do("LOCKPROXY", "MASTERS"))[0])["state"] == "down"
	})
	for name, c := range map[string]*client{"*20\r\n": p.desk, "%10\r\n": dial3(t, p.addr)} {
		list := elements(c.do("LOCKPROXY", "MASTERS"))
		if len(list) != 5 {
			t.Fatalf("LOCKPROXY MASTERS: %q", list)
		}
		for i, master := range list {
			info, state := mapOf(master), "voting"
			if i == 0 {
				state = "down"
			}
			if !strings.HasPrefix(master, name) || info["address"] != p.masters[i].addr || info["state"] != state || (info["reason"] == "") != (i > 0) {
				t.Errorf("LOCKPROXY MASTERS: %q", master)
			}
		}
	}
}
