package integration

import (
	"strings"
	"testing"
	"time"
)

// lock-acl: who may lock is what the upstream's ACL says of the connection's user and the lock's full key.

const (
	noKey     = "-NOPERM This user has no permissions to access the 'lock:other' key\r\n"
	noCommand = "-NOPERM This user has no permissions to run the 'set' command\r\n"
	noUser    = "-NOPERM lock-acl: it is not certain who this connection is logged in as; send AUTH again\r\n"
)

// aclCluster has an upstream with a password and users, and asks it as one that may do nothing else.
func aclCluster(t testing.TB, flags ...string) *cluster {
	t.Helper()
	c := &cluster{upstream: startRedis(t, "--requirepass", "secret",
		"--user", "asker", "on", ">asks", "+acl|dryrun",
		"--user", "app", "on", ">app", "~lock:app:*", "+@all",
		"--user", "reader", "on", ">reader", "~*", "+@all", "-set"), masters: startMasters(t, 3)}
	c.flags = append([]string{"--upstream", c.upstream.addr, "--masters", strings.Join(addrs(c.masters), ","), "--restart-guard", "off",
		"--lock-acl", "on", "--lock-acl-upstream", "redis://asker:asks@" + c.upstream.addr}, flags...)
	c.proxy = startProxy(t, c.flags...)
	host := dial(t, c.addr)
	host.wantDo("+OK\r\n", "AUTH", "secret")
	waitFor(t, "first lock", patience, func() bool {
		token := tokenOf(host.do("LOCK", "warm-up", "60s"))
		return token != "" && host.do("UNLOCK", "warm-up", token) == ":1\r\n"
	})
	return c
}

func TestLockACL(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	if c.upstream.do(t, "PING") != noAuth {
		t.Fatal("the upstream lets everybody in")
	}
	token := "0000000000000001:" + strings.Repeat("0", 40)
	ok, app, reader := "+OK\r\n", encode("AUTH", "app", "app"), encode("AUTH", "reader", "reader")
	lock := encode("LOCK", "other", "60s")
	for name, steps := range map[string][]step{
		"not authenticated": {{lock, noAuth}, {encode("UNLOCK", "other", token), noAuth}, {encode("EXTEND", "other", token, "60s"), noAuth},
			{encode("LOCKINFO", "other"), noAuth}, {encode("RESET"), "+RESET\r\n"}, {lock, noAuth}},
		"own and other keys": {{app, ok}, {encode("LOCK", "app:a", "60s"), "token"}, {lock, noKey}, {encode("UNLOCK", "other", token), noKey},
			{encode("EXTEND", "other", token, "60s"), noKey}, {encode("LOCKINFO", "other"), noKey}, {encode("LOCK", "other", "60s", "WAIT", "1s", "SESSION"), noKey},
			{encode("LOCK", "other", "0"), "-ERR invalid expire time in 'lock' command\r\n"}},
		"command not allowed":    {{reader, ok}, {lock, noCommand}},
		"by HELLO":               {{encode("HELLO", "2", "AUTH", "app", "app"), "any"}, {encode("LOCK", "app:b", "60s"), "token"}, {lock, noKey}},
		"by HELLO and a name":    {{encode("HELLO", "2", "SETNAME", "x", "AUTH", "app", "app"), "any"}, {encode("LOCK", "app:c", "60s"), "token"}, {lock, noKey}},
		"another user":           {{app, ok}, {lock, noKey}, {reader, ok}, {lock, noCommand}, {encode("AUTH", "secret"), ok}, {encode("LOCK", "d", "60s"), "token"}},
		"a failed change":        {{app, ok}, {encode("AUTH", "reader", "no"), "any"}, {lock, noKey}, {encode("LOCK", "app:e", "60s"), "token"}},
		"RESET":                  {{app, ok}, {encode("RESET"), "+RESET\r\n"}, {lock, noAuth}, {app, ok}, {lock, noKey}},
		"changed in MULTI":       {{encode("AUTH", "secret"), ok}, {encode("MULTI"), ok}, {reader, "+QUEUED\r\n"}, {encode("EXEC"), "*1\r\n+OK\r\n"}, {lock, noUser}, {lock, noUser}, {app, ok}, {lock, noKey}},
		"HELLO in MULTI":         {{encode("AUTH", "secret"), ok}, {encode("MULTI"), ok}, {encode("HELLO", "2", "AUTH", "app", "app"), "+QUEUED\r\n"}, {encode("EXEC"), "any"}, {lock, noUser}},
		"dropped in MULTI":       {{app, ok}, {encode("MULTI"), ok}, {reader, "+QUEUED\r\n"}, {encode("DISCARD"), ok}, {lock, noKey}},
		"admin commands not":     {{app, ok}, {encode("LOCKPROXY", "HELP"), "any"}},
		"a command in the order": {{app, ok}, {encode("LOCK", "app:f", "60s") + lock + encode("PING"), "token"}, {"", noKey}, {"", "+PONG\r\n"}},
	} {
		t.Run(name, func(t *testing.T) { converse(dial(t, c.addr), steps, false) })
		for i := range steps { // keys that nobody holds
			steps[i].send = strings.ReplaceAll(steps[i].send, "app:", "app-")
			steps[i].send = strings.ReplaceAll(steps[i].send, "$5\r\napp-", "$7\r\napp:2-")
			steps[i].send = strings.ReplaceAll(steps[i].send, "$1\r\nd\r\n", "$2\r\nd2\r\n")
		}
		t.Run(name+", at once", func(t *testing.T) { converse(dial(t, c.addr), steps, true) })
	}
	if found := census(t, c.masters); strings.Contains(strings.Join(found[c.masters[0].addr], " "), "other") {
		t.Errorf("locked without permission: %v", found)
	}
	if text := c.log.String(); strings.Contains(text, ":asks") {
		t.Errorf("a password shows: %s", text)
	}
}

// converse sends one step after the other was answered, or all at once, and checks every reply; "any" is any.
func converse(host *client, steps []step, atOnce bool) {
	host.t.Helper()
	if atOnce {
		var text strings.Builder
		for _, s := range steps {
			text.WriteString(s.send)
		}
		host.send(text.String())
	}
	for i, s := range steps {
		if !atOnce {
			host.send(s.send)
		}
		got := host.frame()
		if s.want == "any" || s.want == "token" && tokenOf(got) != "" {
			continue
		}
		if got != s.want {
			host.t.Fatalf("step %d, %.60q: got %.100q, want %.100q", i, s.send, got, s.want)
		}
	}
}

// TestLockACLWithoutAnAnswer: what the upstream said last counts while it is away; where it never said anything, or will not say, nobody locks,
// and the log says why.
func TestLockACLWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	host := dial(t, c.addr)
	host.wantDo("+OK\r\n", "AUTH", "app", "app")
	host.unlock("app:a", host.lock("app:a", "60s"))
	host.wantDo(noKey, "LOCK", "other", "60s")
	c.upstream.pause(t)
	start := time.Now()
	for range 20 {
		host.unlock("app:a", host.lock("app:a", "60s"))
		host.wantDo(noKey, "LOCK", "other", "60s")
		pauseBetween(t, 50*time.Millisecond)
	}
	if took := time.Since(start); took > 20*50*time.Millisecond+5*time.Second*slack {
		t.Errorf("40 answers took %v while the upstream hung", took)
	}
	const never = "-NOPERM lock-acl: i/o timeout\r\n"
	host.wantDo(never, "LOCK", "app:never-asked", "60s")
	c.upstream.resume()
	waitFor(t, "LOCK once the upstream is back", patience, func() bool { return tokenOf(host.do("LOCK", "app:never-asked", "60s")) != "" })

	// Credentials that may not ask.
	c.flags[len(c.flags)-1] = "redis://reader:reader@" + c.upstream.addr
	if got := c.upstream.ask2(t, "secret", "ACL", "SETUSER", "reader", "-acl"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	deaf := startProxy(t, c.flags...)
	host = dial(t, deaf.addr)
	host.wantDo("+OK\r\n", "AUTH", "app", "app")
	if got := host.do("LOCK", "app:b", "60s"); !strings.HasPrefix(got, "-NOPERM lock-acl: NOPERM this user has no permissions to run the 'acl|dryrun' command") {
		t.Errorf("LOCK with credentials that may not ask: %q", got)
	}
	if !strings.Contains(deaf.log.String(), "nobody may") {
		t.Error("the log does not say that the upstream cannot be asked")
	}
}

// ask2 sends one command on an authenticated connection of its own.
func (s *redisServer) ask2(t testing.TB, password string, args ...string) string {
	t.Helper()
	c := dial(t, s.addr)
	defer c.Close()
	c.wantDo("+OK\r\n", "AUTH", password)
	return c.do(args...)
}

// TestLockACLFollowsTheUpstream: rights given and taken while connections live count within a second.
func TestLockACLFollowsTheUpstream(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	host := dial(t, c.addr)
	host.wantDo("+OK\r\n", "AUTH", "app", "app")
	host.wantDo(noKey, "LOCK", "other", "60s")
	c.upstream.ask2(t, "secret", "ACL", "SETUSER", "app", "~lock:other")
	waitFor(t, "a right that was given", patience, func() bool { return tokenOf(host.do("LOCK", "other", "20ms")) != "" })
	c.upstream.ask2(t, "secret", "ACL", "SETUSER", "app", "resetkeys")
	waitFor(t, "a right that was taken", patience, func() bool { return host.do("LOCK", "other", "20ms") == noKey })
}
