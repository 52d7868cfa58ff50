package relay

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// lock-acl: who may lock is what the upstream's ACL says of the connection's user and the lock's
// full key.

const (
	noKey     = "-NOPERM This user has no permissions to access the 'lock:other' key\r\n"
	noCommand = "-NOPERM This user has no permissions to run the 'set' command\r\n"
)

// aclCluster has an upstream with a password and users, and asks it as one that may do nothing
// else.
func aclCluster(t testing.TB, flags ...string) *lab.Cluster {
	t.Helper()
	upstream := lab.StartRedis(t, "--requirepass", "secret",
		"--user", "asker", "on", ">asks", "+acl|dryrun",
		"--user", "app", "on", ">app", "~lock:app:*", "+@all",
		"--user", "reader", "on", ">reader", "~*", "+@all", "-set")
	return lab.StartProtectedBy(t, upstream, append([]string{"--lock-acl", "on", "--lock-acl-upstream", "redis://asker:asks@" + upstream.Addr}, flags...)...)
}

func TestLockACL(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	if c.Upstream.Do(t, "PING") != noAuth {
		t.Fatal("the upstream lets everybody in")
	}
	token := "0000000000000001:" + strings.Repeat("0", 40)
	ok, app, reader := "+OK\r\n", lab.Encode("AUTH", "app", "app"), lab.Encode("AUTH", "reader", "reader")
	lock := lab.Encode("LOCK", "other", "60s")
	for name, steps := range map[string][]step{
		"not authenticated": {{lock, noAuth}, {lab.Encode("UNLOCK", "other", token), noAuth}, {lab.Encode("EXTEND", "other", token, "60s"), noAuth},
			{lab.Encode("LOCKINFO", "other"), noAuth}, {lab.Encode("RESET"), "+RESET\r\n"}, {lock, noAuth}},
		"own and other keys": {{app, ok}, {lab.Encode("LOCK", "app:a", "60s"), "token"}, {lock, noKey}, {lab.Encode("UNLOCK", "other", token), noKey},
			{lab.Encode("EXTEND", "other", token, "60s"), noKey}, {lab.Encode("LOCKINFO", "other"), noKey}, {lab.Encode("LOCK", "other", "60s", "WAIT", "1s", "SESSION"), noKey},
			{lab.Encode("LOCK", "other", "0"), "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h, from 10ms to 60s\r\n"}},
		"command not allowed":    {{reader, ok}, {lock, noCommand}},
		"by HELLO":               {{lab.Encode("HELLO", "2", "AUTH", "app", "app"), "any"}, {lab.Encode("LOCK", "app:b", "60s"), "token"}, {lock, noKey}},
		"by HELLO and a name":    {{lab.Encode("HELLO", "2", "SETNAME", "x", "AUTH", "app", "app"), "any"}, {lab.Encode("LOCK", "app:c", "60s"), "token"}, {lock, noKey}},
		"another user":           {{app, ok}, {lock, noKey}, {reader, ok}, {lock, noCommand}, {lab.Encode("AUTH", "secret"), ok}, {lab.Encode("LOCK", "d", "60s"), "token"}},
		"a failed change":        {{app, ok}, {lab.Encode("AUTH", "reader", "no"), "any"}, {lock, noKey}, {lab.Encode("LOCK", "app:e", "60s"), "token"}},
		"RESET":                  {{app, ok}, {lab.Encode("RESET"), "+RESET\r\n"}, {lock, noAuth}, {app, ok}, {lock, noKey}},
		"changed in MULTI":       {{lab.Encode("AUTH", "secret"), ok}, {lab.Encode("MULTI"), ok}, {reader, "+QUEUED\r\n"}, {lab.Encode("EXEC"), "*1\r\n+OK\r\n"}, {lock, noCommand}, {lock, noCommand}, {app, ok}, {lock, noKey}},
		"HELLO in MULTI":         {{lab.Encode("AUTH", "secret"), ok}, {lab.Encode("MULTI"), ok}, {lab.Encode("HELLO", "2", "AUTH", "app", "app"), "+QUEUED\r\n"}, {lab.Encode("EXEC"), "any"}, {lock, noKey}},
		"dropped in MULTI":       {{app, ok}, {lab.Encode("MULTI"), ok}, {reader, "+QUEUED\r\n"}, {lab.Encode("DISCARD"), ok}, {lock, noKey}},
		"admin commands not":     {{app, ok}, {lab.Encode("LOCKPROXY", "HELP"), "any"}},
		"a command in the order": {{app, ok}, {lab.Encode("LOCK", "app:f", "60s") + lock + lab.Encode("PING"), "token"}, {"", noKey}, {"", "+PONG\r\n"}},
	} {
		t.Run(name, func(t *testing.T) { converse(lab.Dial(t, c.Addr), steps, false) })
		for i := range steps { // keys that nobody holds
			steps[i].send = strings.ReplaceAll(steps[i].send, "app:", "app-")
			steps[i].send = strings.ReplaceAll(steps[i].send, "$5\r\napp-", "$7\r\napp:2-")
			steps[i].send = strings.ReplaceAll(steps[i].send, "$1\r\nd\r\n", "$2\r\nd2\r\n")
		}
		t.Run(name+", at once", func(t *testing.T) { converse(lab.Dial(t, c.Addr), steps, true) })
	}
	if found := lab.Census(t, c.Masters); strings.Contains(strings.Join(found[c.Masters[0].Addr], " "), "other") {
		t.Errorf("locked without permission: %v", found)
	}
	if text := c.Log.String(); strings.Contains(text, ":asks") {
		t.Errorf("a password shows: %s", text)
	}
}

// converse sends one step after the other was answered, or all at once, and checks every reply;
// "any" is any.
func converse(host *lab.Client, steps []step, atOnce bool) {
	host.T.Helper()
	if atOnce {
		var text strings.Builder
		for _, s := range steps {
			text.WriteString(s.send)
		}
		host.Send(text.String())
	}
	for i, s := range steps {
		if !atOnce {
			host.Send(s.send)
		}
		got := host.Frame()
		if s.want == "any" || s.want == "token" && lab.TokenOf(got) != "" {
			continue
		}
		if got != s.want {
			host.T.Fatalf("step %d, %.60q: got %.100q, want %.100q", i, s.send, got, s.want)
		}
	}
}

// TestLockACLWithoutAnAnswer: what the upstream said last counts while it is away; where it never
// said anything, or will not say, nobody locks, and the log says why.
func TestLockACLWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	host.Unlock("app:a", host.Lock("app:a", "60s"))
	host.WantDo(noKey, "LOCK", "other", "60s")
	c.Upstream.Pause(t)
	for range 20 {
		host.Unlock("app:a", host.Lock("app:a", "60s"))
		host.WantDo(noKey, "LOCK", "other", "60s")
		lab.Pass(t, 50*time.Millisecond)
	}
	const never = "-NOPERM lock-acl: i/o timeout\r\n"
	host.WantDo(never, "LOCK", "app:never-asked", "60s")
	c.Upstream.Resume()
	lab.WaitFor(t, "LOCK once the upstream is back", lab.Patience, func() bool { return lab.TokenOf(host.Do("LOCK", "app:never-asked", "60s")) != "" })

	// Credentials that may not ask.
	c.Flags[len(c.Flags)-1] = "redis://reader:reader@" + c.Upstream.Addr
	if got := lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "reader", "-acl"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	deaf := lab.StartProxy(t, c.Flags...)
	host = lab.Dial(t, deaf.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	if got := host.Do("LOCK", "app:b", "60s"); !strings.HasPrefix(got, "-NOPERM lock-acl: NOPERM this user has no permissions to run the 'acl|dryrun' command") {
		t.Errorf("LOCK with credentials that may not ask: %q", got)
	}
	if !deaf.Says("the upstream cannot be asked for permissions") {
		t.Error("the log does not say that the upstream cannot be asked")
	}
}

// TestLockACLFollowsTheUpstream: rights given and taken while connections live count within a
// second.
func TestLockACLFollowsTheUpstream(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	host.WantDo(noKey, "LOCK", "other", "60s")
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "~lock:other")
	lab.WaitFor(t, "a right that was given", lab.Patience, func() bool { return lab.TokenOf(host.Do("LOCK", "other", "20ms")) != "" })
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "resetkeys")
	lab.WaitFor(t, "a right that was taken", lab.Patience, func() bool { return host.Do("LOCK", "other", "20ms") == noKey })
}

// TestLockACLNamesLater: a connection whose user the upstream did not name, for want of a right or
// as a script kept it busy, locks as soon as it is named.
func TestLockACLNamesLater(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "-acl|whoami")
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	if got := host.Do("LOCK", "app:a", "20ms"); !strings.HasPrefix(got, "-NOPERM the upstream does not say who is logged in") {
		t.Fatalf("LOCK of a user without the right to WHOAMI: %q", got)
	}
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "+acl|whoami")
	if got := host.Do("LOCK", "app:a", "20ms"); lab.TokenOf(got) == "" {
		t.Errorf("LOCK once the user has the right: %q", got)
	}
}

// TestUserNotAsked: where nobody wants to know who locks, the upstream is not asked for it. So
// users without the right to ask leave nothing in its log.
func TestUserNotAsked(t *testing.T) {
	t.Parallel()
	upstream := lab.StartRedis(t, "--requirepass", "secret", "--user", "app", "on", ">app", "~*", "+@all", "-acl")
	c := lab.StartProtectedBy(t, upstream)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	host.Unlock("job", host.Lock("job", "60s"))
	if got := lab.AskAs(t, upstream, "secret", "ACL", "LOG"); got != "*0\r\n" {
		t.Errorf("ACL LOG of the upstream: %q", got)
	}
}

// TestLockACLOperators: LOCKPROXY shows and releases only locks whose keys the user may SET, and
// admits a master only for an administrator; over a Unix socket it asks for no right.
func TestLockACLOperators(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "p.sock")
	c := aclCluster(t, "--admin-commands", "on")
	lab.StartProxy(t, append(c.Flags, "--listen", "unix://"+socket)...)
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "admin", "on", ">admin", "-@all", "+config|set", "+acl|whoami")
	as := func(user string) *lab.Client {
		host := lab.Dial(t, c.Addr)
		host.WantDo("+OK\r\n", "AUTH", user, user)
		return host
	}
	all := lab.Dial(t, c.Addr)
	all.WantDo("+OK\r\n", "AUTH", "secret")
	app, reader, admin := as("app"), as("reader"), as("admin")
	var own, others []string
	for i := range 40 {
		own, others = append(own, fmt.Sprintf("app:%02d", i)), append(others, fmt.Sprintf("other:%02d", i))
		app.Lock(own[i], "60s")
		all.Lock(others[i], "60s")
	}
	list := func(c *lab.Client, options ...string) (keys []string) {
		for cursor, pages := "0", 0; pages == 0 || cursor != "0"; pages++ {
			if pages == 1000 {
				t.Fatal("the cursor does not come back to 0")
			}
			parts := lab.Elements(c.Do(append([]string{"LOCKPROXY", "LOCKS", cursor}, options...)...))
			if len(parts) != 2 {
				t.Fatalf("LOCKPROXY LOCKS: %q", parts)
			}
			for _, lock := range lab.Elements(parts[1]) {
				keys = append(keys, lab.MapOf(lock)["key"])
			}
			cursor = lab.Scalar(parts[0])
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	for _, options := range [][]string{nil, {"COUNT", "1000"}, {"MATCH", "*:0*", "COUNT", "7"}} {
		match := func(keys []string) []string {
			if slices.Contains(options, "MATCH") {
				return keys[:10]
			}
			return keys
		}
		for _, tt := range []struct {
			name string
			c    *lab.Client
			want []string
		}{{"all", all, slices.Concat(match(own), match(others))}, {"app", app, match(own)}, {"reader", reader, nil}, {"admin", admin, nil}} {
			if got := list(tt.c, options...); !slices.Equal(got, tt.want) {
				t.Errorf("LOCKS %q of %s: %q, want %q", options, tt.name, got, tt.want)
			}
		}
	}
	reader.WantDo(noCommand, "LOCKPROXY", "RELEASE", own[0])
	app.WantDo(strings.ReplaceAll(noKey, "other", others[0]), "LOCKPROXY", "RELEASE", others[0])
	all.WantDo(lab.Null2, "LOCK", others[0], "1s")
	app.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", own[0])
	all.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", own[1])
	const noConfig = "-NOPERM This user has no permissions to run the 'config|set' command\r\n"
	master := c.Masters[0].Addr
	app.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", master) // +@all
	reader.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", master)
	admin.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", master)
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "-@dangerous", "+acl|whoami")
	lab.WaitFor(t, "a right that was taken", lab.Patience, func() bool { return app.Do("LOCKPROXY", "ADMIT", master) == noConfig })
	app.WantDo(noConfig, "LOCKPROXY", "ADMIT", "no-such-master")
	stranger := lab.Dial(t, c.Addr)
	for _, args := range [][]string{{"LOCKS", "0"}, {"RELEASE", own[2]}, {"ADMIT", master}} {
		stranger.WantDo(noAuth, append([]string{"LOCKPROXY"}, args...)...)
	}
	for _, open := range []string{"HELP", "INFO", "MASTERS"} {
		if got := reader.Do("LOCKPROXY", open); strings.HasPrefix(got, "-") {
			t.Errorf("LOCKPROXY %s: %q", open, got)
		}
	}

	cli := lab.Tool(t, "redis-cli")
	c.Upstream.Kill()
	for _, want := range []struct{ command, reply string }{{"LOCKS 0 COUNT 1000", others[0]}, {"RELEASE " + others[0], "1"}, {"ADMIT " + master, "OK"}} {
		run := lab.Launch(t, "redis-cli", cli, append([]string{"-s", socket, "LOCKPROXY"}, strings.Fields(want.command)...)...)
		<-run.Done
		if out := run.Log.String(); !strings.Contains(out, want.reply) || strings.Contains(out, "NOPERM") {
			t.Errorf("%s over a Unix socket: %q", want.command, out)
		}
	}
}
