package integration

import (
	"strings"
	"testing"
	"time"
)

// LOCK is answered by the proxy, so it must not be a way around the upstream's authentication.

const noAuth = "-NOAUTH Authentication required.\r\n"

// protectedCluster has an upstream with a password and three masters without.
func protectedCluster(t testing.TB, flags ...string) *cluster {
	t.Helper()
	c := &cluster{upstream: startRedis(t, "--requirepass", "secret"), masters: startMasters(t, 3)}
	c.flags = append([]string{"--upstream", c.upstream.addr, "--masters", strings.Join(addrs(c.masters), ","), "--restart-guard", "off"}, flags...)
	c.proxy = startProxy(t, c.flags...)
	host := dial(t, c.addr)
	host.wantDo("+OK\r\n", "AUTH", "secret")
	waitFor(t, "first lock", patience, func() bool {
		token := tokenOf(host.do("LOCK", "warm-up", "60s"))
		return token != "" && host.do("UNLOCK", "warm-up", token) == ":1\r\n"
	})
	return c
}

func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	c := protectedCluster(t)
	token := "0000000000000001:" + strings.Repeat("0", 40)
	for name, steps := range map[string][]step{
		"not at all": {{encode("LOCK", "job", "60s"), noAuth}, {encode("UNLOCK", "job", token), noAuth}, {encode("GET", "a"), noAuth}},
		"arguments come first": {{encode("LOCK", "job"), "-ERR wrong number of arguments for 'lock' command\r\n"},
			{encode("LOCK", "job", "0"), "-ERR invalid expire time in 'lock' command\r\n"}},
		"wrong password": {{encode("AUTH", "wrong"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
			{encode("LOCK", "job", "60s"), noAuth}},
		"malformed": {{encode("AUTH"), "-ERR wrong number of arguments for 'auth' command\r\n"}, {encode("LOCK", "job", "60s"), noAuth}},
		"right password": {{encode("LOCK", "job", "60s"), noAuth}, {encode("AUTH", "secret"), "+OK\r\n"},
			{encode("LOCK", "a", "60s"), "token"}, {encode("RESET"), "+RESET\r\n"}, {encode("LOCK", "job", "60s"), noAuth},
			{encode("AUTH", "default", "secret"), "+OK\r\n"}, {encode("LOCK", "b", "60s"), "token"}},
		"a later wrong one": {{encode("AUTH", "secret"), "+OK\r\n"},
			{encode("AUTH", "wrong"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
			{encode("GET", "a"), null2}, {encode("LOCK", "c", "60s"), "token"}},
		"inline":                         {{"auth secret\r\n", "+OK\r\n"}, {"lock d 60s\r\n", "token"}},
		"a word that only looks like it": {{encode("ECHO", "AUTH"), noAuth}, {encode("LOCK", "job", "60s"), noAuth}},
	} {
		t.Run(name, func(t *testing.T) {
			host := dial(t, c.addr)
			play(host, steps, host.send)
		})
	}
	if found := census(t, c.masters); found[c.masters[0].addr] != nil && strings.Contains(strings.Join(found[c.masters[0].addr], " "), "job") {
		t.Errorf("locked without authentication: %v", found)
	}
}

func TestHelloAuth(t *testing.T) {
	t.Parallel()
	c := protectedCluster(t)
	for _, version := range []string{"2", "3"} {
		host := dial(t, c.addr)
		if got := host.do("HELLO", version, "AUTH", "default", "wrong"); !strings.HasPrefix(got, "-WRONGPASS") {
			t.Fatalf("HELLO with a wrong password: %q", got)
		}
		host.wantDo(noAuth, "LOCK", "job", "60s")
		if got := host.do("HELLO", version); !strings.HasPrefix(got, "-NOAUTH") {
			t.Fatalf("HELLO without password: %q", got)
		}
		host.wantDo(noAuth, "LOCK", "job", "60s")
		host.send(encode("HELLO", version, "SETNAME", "me", "AUTH", "default", "secret") + encode("LOCK", "job", "60s"))
		if got := host.frame(); got[0] != "*%"[map[string]int{"2": 0, "3": 1}[version]] {
			t.Fatalf("HELLO %s: %q", version, got)
		}
		token := tokenOf(host.frame())
		if token == "" {
			t.Error("no token after HELLO AUTH")
		}
		host.unlock("job", token)
		host.wantDo("+RESET\r\n", "RESET")
		host.wantDo(noAuth, "LOCK", "job", "60s")
	}
}

// TestAuthInTransaction: an AUTH that was queued takes effect at EXEC, where its answer is nested in another. The
// proxy may ask or refuse then, but must not let a connection in that Redis does not.
func TestAuthInTransaction(t *testing.T) {
	t.Parallel()
	c := protectedCluster(t)
	admin := dial(t, c.upstream.addr)
	admin.wantDo("+OK\r\n", "AUTH", "secret")
	admin.wantDo("+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reader", "+get", "+multi", "+exec", "+auth", "~*")
	host := dial(t, c.addr)
	host.send(encode("AUTH", "secret") + encode("MULTI") + encode("AUTH", "reader", "reader") + encode("EXEC") + encode("LOCK", "job", "60s"))
	host.want("+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")
	if got := host.frame(); tokenOf(got) == "" && got != noAuth {
		t.Errorf("LOCK after an AUTH in a transaction: %q", got)
	}
	host.wantDo("+OK\r\n", "AUTH", "secret")
	if token := tokenOf(host.do("LOCK", "job-2", "60s")); token == "" {
		t.Error("no token after a plain AUTH behind the transaction")
	}

	// Not authenticated, MULTI is refused and so the AUTH behind it counts at once.
	host = dial(t, c.addr)
	play(host, []step{{encode("MULTI"), noAuth}, {encode("AUTH", "secret"), "+OK\r\n"},
		{encode("EXEC"), "-ERR EXEC without MULTI\r\n"}, {encode("LOCK", "job-3", "60s"), "token"}, {encode("GET", "a"), null2}}, host.send)
}

// TestPasswordLater: a password set while the proxy runs closes the locks to new connections, too.
func TestPasswordLater(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	host := dial(t, c.addr)
	host.unlock("job", host.lock("job", "60s"))
	if got := c.upstream.do(t, "CONFIG", "SET", "requirepass", "secret"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	waitFor(t, "LOCK on a new connection refused", patience, func() bool {
		return dial(t, c.addr).do("LOCK", "job", "20ms") == noAuth
	})
	host = dial(t, c.addr)
	host.wantDo("+OK\r\n", "AUTH", "secret")
	waitFor(t, "LOCK after AUTH", patience, func() bool { return tokenOf(host.do("LOCK", "job", "60s")) != "" })
}

// TestMasterPassword: masters and upstream with credentials of their own, given in their addresses. The client has
// none, and needs none where the proxy introduces itself to the upstream.
func TestMasterPassword(t *testing.T) {
	t.Parallel()
	servers := startMasters(t, 4, "--requirepass", "p@ss word")
	var list []string
	for _, s := range servers {
		list = append(list, "redis://:p%40ss%20word@"+s.addr)
	}
	p := startProxy(t, "--upstream", list[0]+"/3", "--masters", strings.Join(list[1:], ","), "--restart-guard", "off")
	p.waitVoting(t)
	host := dial(t, p.addr)
	host.unlock("job", host.lock("job", "60s"))
	host.wantDo("+OK\r\n", "SET", "a", "1")
	direct := dial(t, servers[0].addr)
	direct.wantDo("+OK\r\n", "AUTH", "p@ss word")
	direct.wantDo("+OK\r\n", "SELECT", "3")
	direct.wantDo(bulk("1"), "GET", "a")
	for _, s := range servers[1:] {
		s.kill()
	}
	waitFor(t, "NOQUORUM", patience, func() bool { return strings.Count(host.do("LOCK", "job", "1s"), "refused") == 3 })
	if text := host.do("LOCK", "job", "60s") + p.log.String(); strings.Contains(text, "p@ss") || strings.Contains(text, "p%40ss") {
		t.Errorf("a password shows: %s", text)
	}
}

// TestUpstreamNeverReached: a proxy that cannot ask whether the upstream wants a password refuses to lock.
func TestUpstreamNeverReached(t *testing.T) {
	t.Parallel()
	masters := startMasters(t, 3)
	gone := freeAddr(t)
	p := startProxy(t, "--upstream", gone, "--masters", strings.Join(addrs(masters), ","), "--restart-guard", "off")
	host := dial(t, p.addr)
	for range 20 {
		if reply := host.do("LOCK", "job", "60s"); !strings.HasPrefix(reply, "-") {
			t.Fatalf("LOCK with an upstream never reached: %q", reply)
		}
		pauseBetween(t, 10*time.Millisecond)
	}
	if found := census(t, masters); len(found) > 0 {
		t.Errorf("locked without authentication: %v", found)
	}
}
