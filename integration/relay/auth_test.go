package relay

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// The proxy answers LOCK itself, so LOCK must not bypass the upstream's authentication.

const noAuth = "-NOAUTH Authentication required.\r\n"

func TestNoLockWithoutAuth(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	token := "0000000000000001:" + strings.Repeat("0", 40)
	for name, steps := range map[string][]step{
		"not at all": {{lab.Encode("LOCK", "job", "60s"), noAuth}, {lab.Encode("UNLOCK", "job", token), noAuth},
			{lab.Encode("GET", "a"), noAuth}},
		"arguments come first": {{lab.Encode("LOCK", "job"), "-ERR wrong number of arguments for 'lock' command\r\n"},
			{lab.Encode("LOCK", "job", "0"), "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s\r\n"}},
		"wrong password": {{lab.Encode("AUTH", "wrong"),
			"-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
			{lab.Encode("LOCK", "job", "60s"), noAuth}},
		"malformed": {{lab.Encode("AUTH"), "-ERR wrong number of arguments for 'auth' command\r\n"},
			{lab.Encode("LOCK", "job", "60s"), noAuth}},
		"right password": {{lab.Encode("LOCK", "job", "60s"), noAuth}, {lab.Encode("AUTH", "secret"), "+OK\r\n"},
			{lab.Encode("LOCK", "a", "60s"), "token"}, {lab.Encode("RESET"), "+RESET\r\n"},
			{lab.Encode("LOCK", "job", "60s"), noAuth},
			{lab.Encode("AUTH", "default", "secret"), "+OK\r\n"}, {lab.Encode("LOCK", "b", "60s"), "token"}},
		"a later wrong one": {{lab.Encode("AUTH", "secret"), "+OK\r\n"},
			{lab.Encode("AUTH", "wrong"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
			{lab.Encode("GET", "a"), lab.Null2}, {lab.Encode("LOCK", "c", "60s"), "token"}},
		"inline":                         {{"auth secret\r\n", "+OK\r\n"}, {"lock d 60s\r\n", "token"}},
		"a word that only looks like it": {{lab.Encode("ECHO", "AUTH"), noAuth}, {lab.Encode("LOCK", "job", "60s"), noAuth}},
	} {
		t.Run(name, func(t *testing.T) {
			host := lab.Dial(t, c.Addr)
			play(host, steps, host.Send)
		})
	}
	if found := lab.Census(t, c.Masters); found[c.Masters[0].Addr] != nil &&
		strings.Contains(strings.Join(found[c.Masters[0].Addr], " "), "job") {
		t.Errorf("got locks %v without authentication, want none of job", found)
	}
}

// Redis compares command names as C strings, which end at a zero byte, if its hash table has both
// names in one bucket. So about one name in a hundred like "RESET\x0042" is RESET. No lock
// command may run after such a name, because the connection is logged out.
func TestNoLockAfterDisguisedReset(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "secret")
	host.Lock("before", "60s")
	reply := ""
	for n := 0; n < 50_000 && reply != "+RESET\r\n"; n++ {
		reply = host.Do(fmt.Sprintf("RESET\x00%d", n))
	}
	if reply != "+RESET\r\n" {
		t.Skipf("this server takes no such name for RESET: last reply %q", reply)
	}
	host.WantDo(noAuth, "PING")
	if got := host.Do("LOCK", "job", "60s"); lab.TokenOf(got) != "" ||
		c.Masters[0].Do(t, "EXISTS", "lock:job") != ":0\r\n" {
		t.Errorf("LOCK after a disguised RESET: got %q, want an error and no key on the master", got)
	}
}

// Valkey 8 reads all that follows a line of blanks line by line, so an argument could hide a
// command. The proxy forwards an empty line instead, which cannot hide one.
func TestBlankLineHidesNoCommand(t *testing.T) {
	t.Parallel()
	upstreams := []*lab.Redis{lab.StartRedis(t, "--requirepass", "secret")}
	if path, err := exec.LookPath("valkey-server"); err == nil {
		upstreams = append(upstreams, lab.StartServer(t, path, "--requirepass", "secret"))
	}
	for _, upstream := range upstreams {
		c := lab.StartProtectedBy(t, upstream)
		for i, blank := range []string{" \r\n", "\t\n", "\r\r\n"} {
			host := lab.Dial(t, c.Addr)
			host.WantDo("+OK\r\n", "AUTH", "secret")
			host.Send(blank + lab.Encode("ECHO", "x\r\nRESET"))
			host.Want(lab.Bulk("x\r\nRESET"))
			host.WantDo(lab.Bulk("default"), "ACL", "WHOAMI")
			key := fmt.Sprint("job-", i)
			host.Unlock(key, host.Lock(key, "60s"))
		}
	}
}

func TestHelloWithAuthAllowsLock(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	for _, version := range []string{"2", "3"} {
		host := lab.Dial(t, c.Addr)
		if got := host.Do("HELLO", version, "AUTH", "default", "wrong"); !strings.HasPrefix(got, "-WRONGPASS") {
			t.Fatalf("HELLO with a wrong password: got %q, want WRONGPASS", got)
		}
		host.WantDo(noAuth, "LOCK", "job", "60s")
		if got := host.Do("HELLO", version); !strings.HasPrefix(got, "-NOAUTH") {
			t.Fatalf("HELLO without a password: got %q, want NOAUTH", got)
		}
		host.WantDo(noAuth, "LOCK", "job", "60s")
		host.Send(lab.Encode("HELLO", version, "SETNAME", "me", "AUTH", "default", "secret") + lab.Encode("LOCK", "job",
			"60s"))
		if got := host.Frame(); got[0] != "*%"[map[string]int{"2": 0, "3": 1}[version]] {
			t.Fatalf("HELLO %s: got %q, want a map", version, got)
		}
		token := lab.TokenOf(host.Frame())
		if token == "" {
			t.Error("LOCK after HELLO AUTH: got no token")
		}
		host.Unlock("job", token)
		host.WantDo("+RESET\r\n", "RESET")
		host.WantDo(noAuth, "LOCK", "job", "60s")
	}
}

// A queued AUTH takes effect at EXEC, whose reply contains its reply. The proxy may then refuse
// or ask the upstream, but must not admit a connection that Redis does not.
func TestQueuedAuthAdmitsNoMoreThanRedis(t *testing.T) {
	t.Parallel()
	c := lab.StartProtected(t)
	admin := lab.Dial(t, c.Upstream.Addr)
	admin.WantDo("+OK\r\n", "AUTH", "secret")
	admin.WantDo("+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reader", "+get", "+multi", "+exec", "+auth", "~*")
	host := lab.Dial(t, c.Addr)
	host.Send(lab.Encode("AUTH", "secret") + lab.Encode("MULTI") + lab.Encode("AUTH", "reader",
		"reader") + lab.Encode("EXEC") + lab.Encode("LOCK", "job", "60s"))
	host.Want("+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")
	if got := host.Frame(); lab.TokenOf(got) == "" && got != noAuth {
		t.Errorf("LOCK after an AUTH in a transaction: got %q, want a token or NOAUTH", got)
	}
	host.WantDo("+OK\r\n", "AUTH", "secret")
	if token := lab.TokenOf(host.Do("LOCK", "job-2", "60s")); token == "" {
		t.Error("LOCK after a transaction and a plain AUTH: got no token")
	}

	// Before authentication MULTI is refused, so the AUTH after it takes effect at once.
	host = lab.Dial(t, c.Addr)
	play(host, []step{{lab.Encode("MULTI"), noAuth}, {lab.Encode("AUTH", "secret"), "+OK\r\n"},
		{lab.Encode("EXEC"), "-ERR EXEC without MULTI\r\n"}, {lab.Encode("LOCK", "job-3", "60s"), "token"},
		{lab.Encode("GET", "a"), lab.Null2}}, host.Send)
}

// A password that is set while the proxy runs also closes the locks to new connections.
func TestPasswordSetLaterClosesLocks(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	host.Unlock("job", host.Lock("job", "60s"))
	if got := c.Upstream.Do(t, "CONFIG", "SET", "requirepass", "secret"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	lab.WaitFor(t, "LOCK on a new connection refused", lab.Patience, func() bool {
		return lab.Dial(t, c.Addr).Do("LOCK", "job", "20ms") == noAuth
	})
	host = lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "secret")
	lab.WaitFor(t, "LOCK after AUTH", lab.Patience, func() bool {
		return lab.TokenOf(host.Do("LOCK", "job", "60s")) != ""
	})
}

// Masters and upstream get their passwords from the addresses. The client needs none, because the
// proxy authenticates to the upstream for it.
func TestPasswordsInAddressesWorkAndStaySecret(t *testing.T) {
	t.Parallel()
	servers := lab.StartMasters(t, 4, "--requirepass", "p@ss word")
	var list []string
	for _, s := range servers {
		list = append(list, "redis://:p%40ss%20word@"+s.Addr)
	}
	p := lab.StartProxy(t, "--upstream", list[0]+"/3", "--masters", strings.Join(list[1:], ","), "--restart-guard", "off")
	p.WaitVoting(t)
	host := lab.Dial(t, p.Addr)
	host.Unlock("job", host.Lock("job", "60s"))
	host.WantDo("+OK\r\n", "SET", "a", "1")
	direct := lab.Dial(t, servers[0].Addr)
	direct.WantDo("+OK\r\n", "AUTH", "p@ss word")
	direct.WantDo("+OK\r\n", "SELECT", "3")
	direct.WantDo(lab.Bulk("1"), "GET", "a")
	for _, s := range servers[1:] {
		s.Kill()
	}
	lab.WaitFor(t, "NOQUORUM", lab.Patience, func() bool {
		return strings.Count(host.Do("LOCK", "job", "1s"), "refused") == 3
	})
	if text := host.Do("LOCK", "job", "60s") + p.Log.String(); strings.Contains(text, "p@ss") ||
		strings.Contains(text, "p%40ss") {
		t.Errorf("got a password in a reply or the log: %s", text)
	}
}

// A proxy that never reached the upstream cannot know whether it wants a password, so it refuses
// to lock.
func TestNoLockBeforeUpstreamIsReached(t *testing.T) {
	t.Parallel()
	masters := lab.StartMasters(t, 3)
	gone := lab.FreeAddr(t)
	p := lab.StartProxy(t, "--upstream", gone, "--masters", strings.Join(lab.Addrs(masters), ","), "--restart-guard",
		"off")
	host := lab.Dial(t, p.Addr)
	for range 20 {
		if reply := host.Do("LOCK", "job", "60s"); !strings.HasPrefix(reply, "-") {
			t.Fatalf("LOCK with an upstream that was never reached: got %q, want an error", reply)
		}
		lab.Pass(t, 10*time.Millisecond)
	}
	if found := lab.Census(t, masters); len(found) > 0 {
		t.Errorf("got locks %v without authentication, want none", found)
	}
}
