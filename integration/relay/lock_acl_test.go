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

// lock-acl: the upstream's ACL for the connection's user and the lock's full key decides who may
// lock.

const (
	noKey     = "-NOPERM This user has no permissions to access the 'lock:other' key\r\n"
	noCommand = "-NOPERM This user has no permissions to run the 'set' command\r\n"
)

// aclCluster starts an upstream with a password and users, and a proxy that asks it as a user
// with no other right.
func aclCluster(t testing.TB, flags ...string) *lab.Cluster {
	t.Helper()
	upstream := lab.StartRedis(t, "--requirepass", "secret",
		"--user", "asker", "on", ">asks", "+acl|dryrun",
		"--user", "app", "on", ">app", "~lock:app:*", "+@all",
		"--user", "reader", "on", ">reader", "~*", "+@all", "-set")
	return lab.StartProtectedBy(t, upstream, append([]string{"--lock-acl", "on", "--lock-acl-upstream",
		"redis://asker:asks@" + upstream.Addr}, flags...)...)
}

func TestLockACLDecidesWhoMayLock(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	if c.Upstream.Do(t, "PING") != noAuth {
		t.Fatal("the upstream admits clients without a password")
	}
	token := "0000000000000001:" + strings.Repeat("0", 40)
	ok, app, reader := "+OK\r\n", lab.Encode("AUTH", "app", "app"), lab.Encode("AUTH", "reader", "reader")
	lock := lab.Encode("LOCK", "other", "60s")
	for name, steps := range map[string][]step{
		"not authenticated": {{lock, noAuth}, {lab.Encode("UNLOCK", "other", token), noAuth},
			{lab.Encode("EXTEND", "other", token, "60s"), noAuth},
			{lab.Encode("LOCKINFO", "other"), noAuth}, {lab.Encode("RESET"), "+RESET\r\n"}, {lock, noAuth}},
		"own and other keys": {{app, ok}, {lab.Encode("LOCK", "app:a", "60s"), "token"}, {lock, noKey},
			{lab.Encode("UNLOCK", "other", token), noKey},
			{lab.Encode("EXTEND", "other", token, "60s"), noKey}, {lab.Encode("LOCKINFO", "other"), noKey},
			{lab.Encode("LOCK", "other", "60s", "WAIT", "1s", "SESSION"), noKey},
			{lab.Encode("LOCK", "other", "0"), "-ERR invalid expire time in 'lock' command: want digits, which are milliseconds, or digits with ms, s, m or h (30s, 1m30s), from 10ms to 60s\r\n"}},
		"command not allowed": {{reader, ok}, {lock, noCommand}},
		"by HELLO": {{lab.Encode("HELLO", "2", "AUTH", "app", "app"), "any"},
			{lab.Encode("LOCK", "app:b", "60s"), "token"}, {lock, noKey}},
		"by HELLO and a name": {{lab.Encode("HELLO", "2", "SETNAME", "x", "AUTH", "app", "app"), "any"},
			{lab.Encode("LOCK", "app:c", "60s"), "token"}, {lock, noKey}},
		"another user": {{app, ok}, {lock, noKey}, {reader, ok}, {lock, noCommand},
			{lab.Encode("AUTH", "secret"), ok}, {lab.Encode("LOCK", "d", "60s"), "token"}},
		"a failed change": {{app, ok}, {lab.Encode("AUTH", "reader", "no"), "any"}, {lock, noKey},
			{lab.Encode("LOCK", "app:e", "60s"), "token"}},
		"RESET": {{app, ok}, {lab.Encode("RESET"), "+RESET\r\n"}, {lock, noAuth}, {app, ok}, {lock, noKey}},
		"changed in MULTI": {{lab.Encode("AUTH", "secret"), ok}, {lab.Encode("MULTI"), ok}, {reader, "+QUEUED\r\n"},
			{lab.Encode("EXEC"), "*1\r\n+OK\r\n"}, {lock, noCommand}, {lock, noCommand}, {app, ok}, {lock, noKey}},
		"HELLO in MULTI": {{lab.Encode("AUTH", "secret"), ok}, {lab.Encode("MULTI"), ok},
			{lab.Encode("HELLO", "2", "AUTH", "app", "app"), "+QUEUED\r\n"}, {lab.Encode("EXEC"), "any"}, {lock, noKey}},
		"dropped in MULTI": {{app, ok}, {lab.Encode("MULTI"), ok}, {reader, "+QUEUED\r\n"},
			{lab.Encode("DISCARD"), ok}, {lock, noKey}},
		"admin commands not": {{app, ok}, {lab.Encode("LOCKPROXY", "HELP"), "any"}},
		"a command in the order": {{app, ok}, {lab.Encode("LOCK", "app:f", "60s") + lock + lab.Encode("PING"), "token"},
			{"", noKey}, {"", "+PONG\r\n"}},
	} {
		t.Run(name, func(t *testing.T) { converse(lab.Dial(t, c.Addr), steps, false) })
		for i := range steps { // rename to keys that are free
			steps[i].send = strings.ReplaceAll(steps[i].send, "app:", "app-")
			steps[i].send = strings.ReplaceAll(steps[i].send, "$5\r\napp-", "$7\r\napp:2-")
			steps[i].send = strings.ReplaceAll(steps[i].send, "$1\r\nd\r\n", "$2\r\nd2\r\n")
		}
		t.Run(name+", at once", func(t *testing.T) { converse(lab.Dial(t, c.Addr), steps, true) })
	}
	if found := lab.Census(t, c.Masters); strings.Contains(strings.Join(found[c.Masters[0].Addr], " "), "other") {
		t.Errorf("got locks %v without permission, want none", found)
	}
	if text := c.Log.String(); strings.Contains(text, ":asks") {
		t.Errorf("got a password in a reply or the log: %s", text)
	}
}

// converse sends the steps one by one, waiting for each reply, or all at once, and checks every
// reply; "any" accepts any.
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

// While the upstream is away its last answer counts. If it never gave one, or refuses to, no
// client can lock, and the log says why.
func TestLockACLKeepsLastAnswer(t *testing.T) {
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
	lab.WaitFor(t, "LOCK once the upstream is back", lab.Patience, func() bool {
		return lab.TokenOf(host.Do("LOCK", "app:never-asked", "60s")) != ""
	})

	// Credentials without the right to ask.
	c.Flags[len(c.Flags)-1] = "redis://reader:reader@" + c.Upstream.Addr
	if got := lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "reader", "-acl"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	deaf := lab.StartProxy(t, c.Flags...)
	host = lab.Dial(t, deaf.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	if got := host.Do("LOCK", "app:b", "60s"); !strings.HasPrefix(got,
		"-NOPERM lock-acl: NOPERM this user has no permissions to run the 'acl|dryrun' command") {
		t.Errorf("LOCK with credentials that may not ask: got %q, want NOPERM with the reason", got)
	}
	if !deaf.Says("the upstream cannot be asked for permissions") {
		t.Error("the log does not say that the upstream cannot be asked")
	}
}

// Rights granted and revoked while connections are open take effect.
func TestLockACLFollowsTheUpstream(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	host.WantDo(noKey, "LOCK", "other", "60s")
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "~lock:other")
	lab.WaitFor(t, "a right that was given", lab.Patience, func() bool {
		return lab.TokenOf(host.Do("LOCK", "other", "20ms")) != ""
	})
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "resetkeys")
	lab.WaitFor(t, "a right that was taken", lab.Patience, func() bool {
		return host.Do("LOCK", "other", "20ms") == noKey
	})
}

// The upstream may not be able to name a connection's user, for want of a right or because a
// script keeps it busy. The connection can lock as soon as the upstream names the user.
func TestLockACLAllowsLockOnceUserIsKnown(t *testing.T) {
	t.Parallel()
	c := aclCluster(t)
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "-acl|whoami")
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	if got := host.Do("LOCK", "app:a", "20ms"); !strings.HasPrefix(got,
		"-NOPERM the upstream does not say who is logged in") {
		t.Fatalf("LOCK of a user without the right to WHOAMI: got %q, want NOPERM", got)
	}
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "+acl|whoami")
	if got := host.Do("LOCK", "app:a", "60s"); lab.TokenOf(got) == "" {
		t.Errorf("LOCK once the user has the right: got %q, want a token", got)
	}
}

// If no setting needs the user's name, the proxy does not ask for it. So users without the right
// to ask leave no entry in the upstream's ACL log.
func TestUpstreamIsNotAskedForUserNeedlessly(t *testing.T) {
	t.Parallel()
	upstream := lab.StartRedis(t, "--requirepass", "secret", "--user", "app", "on", ">app", "~*", "+@all", "-acl")
	c := lab.StartProtectedBy(t, upstream)
	host := lab.Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "app", "app")
	host.Unlock("job", host.Lock("job", "60s"))
	if got := lab.AskAs(t, upstream, "secret", "ACL", "LOG"); got != "*0\r\n" {
		t.Errorf("ACL LOG of the upstream: got %q, want it empty", got)
	}
}

// LOCKPROXY shows and releases only locks whose keys the user may SET, and admits a master only
// for an administrator; over a Unix socket it needs no right.
func TestLockACLLimitsOperators(t *testing.T) {
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
	each := lab.Long(20, 40)
	for i := range each {
		own, others = append(own, fmt.Sprintf("app:%02d", i)), append(others, fmt.Sprintf("other:%02d", i))
		app.Lock(own[i], "60s")
		all.Lock(others[i], "60s")
	}
	// A listing may leave out a lock that a master gets meanwhile. Masters get locks in order.
	lab.WaitFor(t, "the last lock on all masters", lab.Patience, func() bool {
		return lab.MapOf(all.Do("LOCKINFO", others[each-1]))["held"] == "3"
	})
	for _, listing := range []struct {
		options []string
		n       int // of own and of others
	}{{nil, each}, {[]string{"COUNT", "1000"}, each}, {[]string{"MATCH", "*:0*", "COUNT", "7"}, 10}} {
		wantListed(all, slices.Concat(own[:listing.n], others[:listing.n]), listing.options...)
		wantListed(app, own[:listing.n], listing.options...)
		wantListed(reader, nil, listing.options...)
		wantListed(admin, nil, listing.options...)
	}

	reader.WantDo(noCommand, "LOCKPROXY", "RELEASE", own[0])
	app.WantDo(strings.ReplaceAll(noKey, "other", others[0]), "LOCKPROXY", "RELEASE", others[0])
	all.WantDo(lab.Null2, "LOCK", others[0], "1s")
	app.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", own[0])
	all.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", own[1])

	master := c.Masters[0].Addr
	for _, host := range []*lab.Client{app, reader, admin} { // app has +@all
		host.WantDo("+OK\r\n", "LOCKPROXY", "ADMIT", master)
	}
	wantAdmitRevoked(c, app)
	stranger := lab.Dial(t, c.Addr)
	for _, args := range [][]string{{"LOCKS", "0"}, {"RELEASE", own[2]}, {"ADMIT", master}} {
		stranger.WantDo(noAuth, append([]string{"LOCKPROXY"}, args...)...)
	}
	for _, open := range []string{"HELP", "INFO", "MASTERS"} {
		if got := reader.Do("LOCKPROXY", open); strings.HasPrefix(got, "-") {
			t.Errorf("LOCKPROXY %s: got %q, want no error", open, got)
		}
	}

	c.Upstream.Kill()
	wantOverSocket(t, socket, "LOCKS 0 COUNT 1000", others[0])
	wantOverSocket(t, socket, "RELEASE "+others[0], "1")
	wantOverSocket(t, socket, "ADMIT "+master, "OK")
}

// wantListed pages through LOCKPROXY LOCKS and compares the keys.
func wantListed(c *lab.Client, want []string, options ...string) {
	c.T.Helper()
	var got []string
	for cursor, pages := "0", 0; pages == 0 || cursor != "0"; pages++ {
		if pages == 1000 {
			c.T.Fatal("LOCKPROXY LOCKS: the cursor does not return to 0")
		}
		parts := lab.Elements(c.Do(append([]string{"LOCKPROXY", "LOCKS", cursor}, options...)...))
		if len(parts) != 2 {
			c.T.Fatalf("LOCKPROXY LOCKS: got %q, want two elements", parts)
		}
		for _, lock := range lab.Elements(parts[1]) {
			got = append(got, lab.MapOf(lock)["key"])
		}
		cursor = lab.Scalar(parts[0])
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		c.T.Errorf("LOCKPROXY LOCKS %q: got %q, want %q", options, got, want)
	}
}

// wantAdmitRevoked takes app's right to CONFIG SET away: from then on LOCKPROXY ADMIT is refused,
// for unknown masters as well.
func wantAdmitRevoked(c *lab.Cluster, app *lab.Client) {
	t := app.T
	t.Helper()
	const noConfig = "-NOPERM This user has no permissions to run the 'config|set' command\r\n"
	lab.AskAs(t, c.Upstream, "secret", "ACL", "SETUSER", "app", "-@dangerous", "+acl|whoami")
	lab.WaitFor(t, "a right that was taken", lab.Patience, func() bool {
		return app.Do("LOCKPROXY", "ADMIT", c.Masters[0].Addr) == noConfig
	})
	app.WantDo(noConfig, "LOCKPROXY", "ADMIT", "no-such-master")
}

// wantOverSocket runs a LOCKPROXY command with redis-cli over a Unix socket.
func wantOverSocket(t *testing.T, socket, command, want string) {
	t.Helper()
	run := lab.Launch(t, "redis-cli", lab.Tool(t, "redis-cli"), append([]string{"-s", socket, "LOCKPROXY"},
		strings.Fields(command)...)...)
	<-run.Done
	if got := run.Log.String(); !strings.Contains(got, want) || strings.Contains(got, "NOPERM") {
		t.Errorf("LOCKPROXY %s over a Unix socket: got %q, want %q", command, got, want)
	}
}
