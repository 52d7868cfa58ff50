package operations

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// What operators ask: LOCKINFO, LOCKPROXY, and the shapes of FULL.

// TestShapes: what LOCK FULL and LOCKINFO answer in both protocol versions, and that no part of a
// token that proves anything is shown.
func TestShapes(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	for name, c := range map[string]*lab.Client{"RESP2": p.Near, "RESP3": lab.Dial3(t, p.Addr)} {
		null, head := lab.Null2, "*16\r\n"
		if name == "RESP3" {
			null, head = lab.Null3, "%8\r\n"
		}
		reply := c.Do("lock", "job", "30s", "full", "OWNER", "me and you", "WAIT", "5s", "session")
		parts := lab.Fields(reply)
		if !strings.HasPrefix(reply, "*3\r\n$57\r\n") || len(parts) != 3 {
			t.Fatalf("%s: LOCK FULL: %q", name, reply)
		}
		token := parts[0]
		if fence := lab.Number(t, parts[1]); fmt.Sprintf("%016d", fence) != token[:16] || !strings.Contains(reply, "\r\n:"+parts[1]+"\r\n:") {
			t.Errorf("%s: LOCK FULL: %q, want the number of the token as an integer", name, reply)
		}
		if validity := lab.Number(t, parts[2]); validity < 25_000 || validity > 30_000-300-2 {
			t.Errorf("%s: validity %d, want 30s less 1%% and 2ms and what it took", name, validity)
		}
		c.WantDo(null, "LOCK", "job", "30s", "FULL")
		p.WantHolders(t, "job", 5)
		reply = c.Do("LOCKINFO", "job")
		info := lab.MapOf(reply)
		ttl := lab.Number(t, info["ttl"])
		want := map[string]string{"held": "5", "masters": "5", "ttl": info["ttl"], "fence": parts[1], "owner": "me and you", "waiting": "0",
			"mode": "exclusive", "holders": "1"}
		if !strings.HasPrefix(reply, head) || fmt.Sprint(info) != fmt.Sprint(want) || ttl < 20_000 || ttl > 30_000 {
			t.Errorf("%s: LOCKINFO: %q", name, reply)
		}
		if strings.Contains(reply, token[17:]) {
			t.Errorf("%s: LOCKINFO shows the token", name)
		}
		c.Unlock("job", token)
		c.WantDo(null, "LOCKINFO", "job")
		token = lab.TokenOf(c.Do("LOCK", "job", "30s", "WAIT", "5s"))
		if info := lab.MapOf(c.Do("LOCKINFO", "job")); !strings.HasPrefix(info["owner"], "127.0.0.1:") {
			t.Errorf("%s: owner %q of a lock without label, want the client's address", name, info["owner"])
		}
		c.Unlock("job", token)
		for _, s := range p.Masters {
			s.Do(t, "DEL", "lock:job")
			if s != p.Masters[4] {
				s.Do(t, "SET", "lock:job", "of another library", "PX", "10000")
			}
		}
		if info := lab.MapOf(c.Do("LOCKINFO", "job")); info["held"] != "4" || info["fence"] != "0" {
			t.Errorf("%s: LOCKINFO of another library's lock: %v", name, info)
		}
		for _, s := range p.Masters {
			s.Do(t, "DEL", "lock:job")
		}
	}
	p.WantNoStray(t)
}

// TestLocksPaging: LOCKPROXY LOCKS pages over 200 locks and returns each once.
func TestLocksPaging(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--admin-commands", "on")
	const locks = 200
	secrets := map[string]string{}
	for i := range locks {
		key := fmt.Sprintf("job-%d", i)
		secrets[key] = p.Near.Lock(key, "60s")[17:]
	}
	p.WantHolders(t, fmt.Sprintf("job-%d", locks-1), 5)
	for _, s := range p.Masters[:2] { // no lock: it holds no majority
		s.Do(t, "SET", "lock:minority", strings.Repeat("a", 56), "PX", "60000")
	}
	for i, s := range p.Masters[:2] { // not on the first masters
		s.Do(t, "DEL", fmt.Sprintf("lock:job-%d", i))
	}
	page := func(c *lab.Client, args ...string) map[string]int {
		seen, cursor := map[string]int{}, "0"
		for range 1000 {
			reply := c.Do(append([]string{"LOCKPROXY", "LOCKS", cursor}, args...)...)
			parts := lab.Elements(reply)
			if len(parts) != 2 {
				t.Fatalf("LOCKPROXY LOCKS %s: %q", cursor, reply)
			}
			for _, lock := range lab.Elements(parts[1]) {
				info := lab.MapOf(lock)
				seen[info["key"]]++
				if held := lab.Number(t, info["held"]); held < 4 || info["masters"] != "5" || lab.Number(t, info["ttl"]) < 1000 {
					t.Errorf("%v", info)
				}
				if secret := secrets[info["key"]]; secret != "" && strings.Contains(lock, secret) {
					t.Errorf("LOCKS shows the token of %s", info["key"])
				}
			}
			if cursor = lab.Scalar(parts[0]); cursor == "0" {
				return seen
			}
		}
		t.Fatal("the cursor does not come back to 0")
		return nil
	}
	for _, c := range []*lab.Client{p.Near, p.Far, lab.Dial3(t, p.Addr)} {
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
	if seen := page(p.Far, "MATCH", "job-1?"); len(seen) != 10 {
		t.Errorf("LOCKS MATCH job-1?: %v, want job-10 to job-19", seen)
	}
	for _, args := range [][]string{{"LOCKS", "x"}, {"LOCKS", "0", "COUNT", "0"}, {"LOCKS", "0", "COUNT"}, {"LOCKS", "0", "TYPE", "x"}, {"LOCKS"}, {"NOSUCH"}} {
		if reply := p.Near.Do(append([]string{"LOCKPROXY"}, args...)...); !strings.HasPrefix(reply, "-ERR ") {
			t.Errorf("LOCKPROXY %q: %q, want an error", args, reply)
		}
	}
}

// TestOperatorRelease: LOCKPROXY RELEASE frees a lock whoever holds it, and wakes who waits, in
// either proxy.
func TestOperatorRelease(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--admin-commands", "on")
	p.Near.WantDo(":0\r\n", "LOCKPROXY", "RELEASE", "job")
	for _, operator := range []*lab.Client{p.Near, p.Far} {
		host := lab.Dial(t, p.Addr)
		token := host.LockSession("job", "5s")
		p.WantHolders(t, "job", 5)
		waiter := lab.Dial(t, p.Second.Addr)
		granted := waiter.Later("LOCK", "job", "60s", "WAIT", "20s")
		p.WaitSubscribed(t, "job")
		operator.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
		next, _ := lab.WantToken(t, "RELEASE", granted)
		host.WantDo(":0\r\n", "UNLOCK", "job", token)
		waiter.Unlock("job", next)
	}
	p.WantNoStray(t)
}

// TestAdminGate: LOCKS, RELEASE and ADMIT answer on network listeners only with admin-commands, on
// Unix sockets always; the others everywhere.
func TestAdminGate(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	socket := filepath.Join(t.TempDir(), "p.sock")
	lab.StartProxy(t, append(p.Flags, "--listen", "unix://"+socket)...)
	cli := lab.Tool(t, "redis-cli")
	token := p.Near.Lock("job", "60s")
	for _, args := range [][]string{{"LOCKS", "0"}, {"RELEASE", "job"}, {"ADMIT", p.Masters[0].Addr}} {
		if reply := p.Near.Do(append([]string{"LOCKPROXY"}, args...)...); !strings.HasPrefix(reply, "-NOPERM ") {
			t.Errorf("LOCKPROXY %q without admin-commands: %q", args, reply)
		}
	}
	p.WantHolders(t, "job", 5)
	for _, want := range []struct{ command, reply string }{{"LOCKS 0 COUNT 1000", "job"}, {"RELEASE job", "1"}} {
		args := append([]string{"-s", socket, "LOCKPROXY"}, strings.Fields(want.command)...)
		run := lab.Launch(t, "redis-cli", cli, args...)
		<-run.Done
		if out := run.Log.String(); !strings.Contains(out, want.reply) || strings.Contains(out, "NOPERM") {
			t.Errorf("%s over a Unix socket: %q", want.command, out)
		}
	}
	p.Near.WantDo(":0\r\n", "UNLOCK", "job", token)

	if help := p.Near.Do("LOCKPROXY", "help"); !strings.HasPrefix(help, "*") || !strings.Contains(help, "RELEASE <key>") {
		t.Errorf("LOCKPROXY HELP: %q", help)
	}
	if info := lab.Scalar(p.Near.Do("LOCKPROXY", "INFO")); !strings.Contains(info, "lockproxy_version:") || p.Near.Counter("granted") < 1 {
		t.Errorf("LOCKPROXY INFO: %q", info)
	}
	p.Masters[0].Kill()
	lab.WaitFor(t, "the dead master seen", lab.Patience, func() bool {
		return lab.MapOf(lab.Elements(p.Far.Do("LOCKPROXY", "MASTERS"))[0])["state"] == "down"
	})
	for name, c := range map[string]*lab.Client{"*24\r\n": p.Near, "%12\r\n": lab.Dial3(t, p.Addr)} {
		list := lab.Elements(c.Do("LOCKPROXY", "MASTERS"))
		if len(list) != 5 {
			t.Fatalf("LOCKPROXY MASTERS: %q", list)
		}
		for i, master := range list {
			info, state := lab.MapOf(master), "voting"
			if i == 0 {
				state = "down"
			}
			if !strings.HasPrefix(master, name) || info["address"] != p.Masters[i].Addr || info["state"] != state ||
				(info["reason"] == "") != (i > 0 && info["slow_ms"] == "0") {
				t.Errorf("LOCKPROXY MASTERS: %q", master)
			}
		}
	}
}
