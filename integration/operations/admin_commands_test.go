package operations

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Commands for operators: LOCKINFO, LOCKPROXY, and the replies of FULL.

// LOCK FULL and LOCKINFO reply as documented in both protocol versions, and show no secret part of
// a token.
func TestFullAndLockinfoRepliesAreAsDocumented(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	t.Run("RESP2", func(t *testing.T) { wantShapes(p, p.Near, lab.Null2, "*16\r\n") })
	t.Run("RESP3", func(t *testing.T) { wantShapes(p, lab.Dial3(t, p.Addr), lab.Null3, "%8\r\n") })
	p.WantNoStray(t)
}

// wantShapes checks the replies to LOCK FULL and LOCKINFO. null is the protocol's null, and head
// the beginning of LOCKINFO's reply.
func wantShapes(p *lab.TwoProxies, c *lab.Client, null, head string) {
	t := c.T
	t.Helper()
	start := time.Now()
	reply := c.Do("lock", "job", "30s", "full", "OWNER", "me and you", "WAIT", "5s", "session")
	parts := lab.Fields(reply)
	if !strings.HasPrefix(reply, "*3\r\n$57\r\n") || len(parts) != 3 {
		t.Fatalf("LOCK FULL: got %q, want three elements", reply)
	}
	token := parts[0]
	if fence := lab.Number(t, parts[1]); fmt.Sprintf("%016d", fence) != token[:16] ||
		!strings.Contains(reply, "\r\n:"+parts[1]+"\r\n:") {
		t.Errorf("LOCK FULL: got %q, want the number of the token as an integer", reply)
	}
	const full = 30_000 - 300 - 2
	if validity, took := lab.Number(t, parts[2]), millisSince(start); validity < full-took || validity > full {
		t.Errorf("LOCK FULL: got validity %d, want %d less the time of the attempt, at most %d", validity, full, took)
	}
	c.WantDo(null, "LOCK", "job", "30s", "FULL")
	p.WantHolders(t, "job", 5)
	reply = c.Do("LOCKINFO", "job")
	info := lab.MapOf(reply)
	ttl, took := lab.Number(t, info["ttl"]), millisSince(start)
	want := map[string]string{"held": "5", "masters": "5", "ttl": info["ttl"], "fence": parts[1], "owner": "me and you",
		"waiting": "0", "mode": "exclusive", "holders": "1"}
	if !strings.HasPrefix(reply, head) || fmt.Sprint(info) != fmt.Sprint(want) || ttl < 30_000-took || ttl > 30_000 {
		t.Errorf("LOCKINFO: got %q, want %v and ttl 30000 less at most %d", reply, want, took)
	}
	if strings.Contains(reply, token[17:]) {
		t.Error("LOCKINFO: got the secret part of the token")
	}
	c.Unlock("job", token)
	c.WantDo(null, "LOCKINFO", "job")
	token = lab.TokenOf(c.Do("LOCK", "job", "30s", "WAIT", "5s"))
	if info := lab.MapOf(c.Do("LOCKINFO", "job")); !strings.HasPrefix(info["owner"], "127.0.0.1:") {
		t.Errorf("lock without label: got owner %q, want the client's address", info["owner"])
	}
	c.Unlock("job", token)
	wantForeignLock(p, c)
}

// millisSince returns the milliseconds since start, and two more for rounding: a master cuts its
// clock to milliseconds, and LOCKINFO cuts the rest of a ttl after it took off the answer's age.
func millisSince(start time.Time) int { return int(time.Since(start).Milliseconds()) + 2 }

// wantForeignLock checks LOCKINFO of another library's lock, and removes that.
func wantForeignLock(p *lab.TwoProxies, c *lab.Client) {
	t := c.T
	t.Helper()
	for _, s := range p.Masters {
		s.Do(t, "DEL", "lock:job")
		if s != p.Masters[4] {
			s.Do(t, "SET", "lock:job", "of another library", "PX", "60000")
		}
	}
	if info := lab.MapOf(c.Do("LOCKINFO", "job")); info["held"] != "4" || info["fence"] != "0" {
		t.Errorf("LOCKINFO of another library's lock: got %v, want it held on 4, fence 0", info)
	}
	for _, s := range p.Masters {
		s.Do(t, "DEL", "lock:job")
	}
}

// LOCKPROXY LOCKS pages over 200 locks and returns each once.
func TestLocksPagesReturnEachLockOnce(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--admin-commands", "on")
	const locks = 60
	secrets := map[string]string{}
	for i := range locks {
		key := fmt.Sprintf("job-%d", i)
		secrets[key] = p.Near.Lock(key, "60s")[17:]
	}
	p.WantHolders(t, fmt.Sprintf("job-%d", locks-1), 5)
	for _, s := range p.Masters[:2] { // not a lock, because it holds no majority
		s.Do(t, "SET", "lock:minority", strings.Repeat("a", 56), "PX", "60000")
	}
	for i, s := range p.Masters[:2] { // locks that the first masters do not have
		s.Do(t, "DEL", fmt.Sprintf("lock:job-%d", i))
	}
	for _, c := range []*lab.Client{p.Near, p.Far, lab.Dial3(t, p.Addr)} {
		for _, args := range [][]string{nil, {"COUNT", "7"}, {"count", "500", "match", "job-*"}} {
			wantEachLockOnce(t, secrets, pagedLocks(c, secrets, args...), args)
		}
	}
	if seen := pagedLocks(p.Far, secrets, "MATCH", "job-1?"); len(seen) != 10 {
		t.Errorf("LOCKPROXY LOCKS MATCH job-1?: got %v, want job-10 to job-19", seen)
	}
	for _, args := range [][]string{{"LOCKS", "x"}, {"LOCKS", "0", "COUNT", "0"}, {"LOCKS", "0", "COUNT"},
		{"LOCKS", "0", "TYPE", "x"}, {"LOCKS"}, {"NOSUCH"}} {
		if reply := p.Near.Do(append([]string{"LOCKPROXY"}, args...)...); !strings.HasPrefix(reply, "-ERR ") {
			t.Errorf("LOCKPROXY %q: got %q, want an error", args, reply)
		}
	}
}

// wantEachLockOnce: LOCKPROXY LOCKS with args has shown each key that has a secret once, and no
// other keys.
func wantEachLockOnce(t *testing.T, secrets map[string]string, seen map[string]int, args []string) {
	t.Helper()
	for key, n := range seen {
		if n != 1 || secrets[key] == "" {
			t.Errorf("LOCKPROXY LOCKS %q: got %s %d times, want locks once each", args, key, n)
		}
	}
	if len(seen) != len(secrets) {
		t.Errorf("LOCKPROXY LOCKS %q: got %d locks, want %d", args, len(seen), len(secrets))
	}
}

// pagedLocks pages through LOCKPROXY LOCKS, and counts how often each key comes. No lock may show
// its secret.
func pagedLocks(c *lab.Client, secrets map[string]string, args ...string) (seen map[string]int) {
	c.T.Helper()
	seen = map[string]int{}
	cursor := "0"
	for range 1000 {
		reply := c.Do(append([]string{"LOCKPROXY", "LOCKS", cursor}, args...)...)
		parts := lab.Elements(reply)
		if len(parts) != 2 {
			c.T.Fatalf("LOCKPROXY LOCKS %s: got %q, want two elements", cursor, reply)
		}
		for _, lock := range lab.Elements(parts[1]) {
			info := lab.MapOf(lock)
			seen[info["key"]]++
			if held := lab.Number(c.T, info["held"]); held < 4 || info["masters"] != "5" ||
				lab.Number(c.T, info["ttl"]) < 1000 {
				c.T.Errorf("LOCKPROXY LOCKS: got %v, want it held by at least 4 of 5 masters for a second", info)
			}
			if secret := secrets[info["key"]]; secret != "" && strings.Contains(lock, secret) {
				c.T.Errorf("LOCKPROXY LOCKS: got the secret part of the token of %s", info["key"])
			}
		}
		if cursor = lab.Scalar(parts[0]); cursor == "0" {
			return seen
		}
	}
	c.T.Fatal("LOCKPROXY LOCKS: the cursor does not return to 0")
	return nil
}

// LOCKPROXY RELEASE releases a lock of any holder, and wakes its waiters, through either proxy.
func TestOperatorReleaseWakesWaiters(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t, "--admin-commands", "on")
	p.Near.WantDo(":0\r\n", "LOCKPROXY", "RELEASE", "job")
	for _, operator := range []*lab.Client{p.Near, p.Far} {
		host := lab.Dial(t, p.Addr)
		token := host.LockSession("job", "60s")
		p.WantHolders(t, "job", 5)
		waiter := lab.Dial(t, p.Second.Addr)
		granted := waiter.Later("LOCK", "job", "60s", "WAIT", "60s")
		p.WaitSubscribed(t, "job")
		operator.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
		next, _ := lab.WantToken(t, "RELEASE", granted)
		host.WantDo(":0\r\n", "UNLOCK", "job", token)
		waiter.Unlock("job", next)
	}
	p.WantNoStray(t)
}

// LOCKS, RELEASE and ADMIT work on network listeners only with admin-commands, and always on Unix
// sockets; the other subcommands work everywhere.
func TestAdminCommandsNeedSettingOrUnixSocket(t *testing.T) {
	t.Parallel()
	p := lab.StartTwoProxies(t)
	socket := filepath.Join(t.TempDir(), "p.sock")
	lab.StartProxy(t, append(p.Flags, "--listen", "unix://"+socket)...)
	cli := lab.Tool(t, "redis-cli")
	token := p.Near.Lock("job", "60s")
	for _, args := range [][]string{{"LOCKS", "0"}, {"RELEASE", "job"}, {"ADMIT", p.Masters[0].Addr}} {
		if reply := p.Near.Do(append([]string{"LOCKPROXY"}, args...)...); !strings.HasPrefix(reply, "-NOPERM ") {
			t.Errorf("LOCKPROXY %q without admin-commands: got %q, want NOPERM", args, reply)
		}
	}
	p.WantHolders(t, "job", 5)
	for _, want := range []struct{ command, reply string }{{"LOCKS 0 COUNT 1000", "job"}, {"RELEASE job", "1"}} {
		args := append([]string{"-s", socket, "LOCKPROXY"}, strings.Fields(want.command)...)
		run := lab.Launch(t, "redis-cli", cli, args...)
		<-run.Done
		if out := run.Log.String(); !strings.Contains(out, want.reply) || strings.Contains(out, "NOPERM") {
			t.Errorf("LOCKPROXY %s over a Unix socket: got %q", want.command, out)
		}
	}
	p.Near.WantDo(":0\r\n", "UNLOCK", "job", token)

	if help := p.Near.Do("LOCKPROXY", "help"); !strings.HasPrefix(help, "*") || !strings.Contains(help, "RELEASE <key>") {
		t.Errorf("LOCKPROXY HELP: got %q", help)
	}
	if info := lab.Scalar(p.Near.Do("LOCKPROXY", "INFO")); !strings.Contains(info, "lockproxy_version:") ||
		p.Near.Counter("granted") < 1 {
		t.Errorf("LOCKPROXY INFO: got %q", info)
	}
	p.Masters[0].Kill()
	lab.WaitFor(t, "the dead master reported as down", lab.Patience, func() bool {
		return lab.MapOf(lab.Elements(p.Far.Do("LOCKPROXY", "MASTERS"))[0])["state"] == "down"
	})
	wantFirstMasterDown(t, p, p.Near, "*24\r\n")
	wantFirstMasterDown(t, p, lab.Dial3(t, p.Addr), "%12\r\n")
}

// wantFirstMasterDown: LOCKPROXY MASTERS lists five masters, each beginning with head, of which
// the first is down and the others vote. A reason is given for the first and for slow ones.
func wantFirstMasterDown(t *testing.T, p *lab.TwoProxies, c *lab.Client, head string) {
	t.Helper()
	list := lab.Elements(c.Do("LOCKPROXY", "MASTERS"))
	if len(list) != 5 {
		t.Fatalf("LOCKPROXY MASTERS: got %q, want 5 masters", list)
	}
	for i, master := range list {
		info, state := lab.MapOf(master), "voting"
		if i == 0 {
			state = "down"
		}
		if !strings.HasPrefix(master, head) || info["address"] != p.Masters[i].Addr || info["state"] != state ||
			(info["reason"] == "") != (i > 0 && info["slow_ms"] == "0") {
			t.Errorf("LOCKPROXY MASTERS: got %q, want state %s", master, state)
		}
	}
}
