package lab

import (
	"strings"
	"testing"
)

// Cluster is an upstream and n masters with one lockproxy before them, and no restart guard.
type Cluster struct {
	*Proxy
	Upstream *Redis
	Masters  []*Redis
	Flags    []string // that started the proxy
}

// StartCluster starts n masters, an upstream of its own and a proxy with more flags.
func StartCluster(t testing.TB, n int, flags ...string) *Cluster {
	t.Helper()
	l := Start(t, Config{Masters: n, Flags: append([]string{"--restart-guard", "off"}, flags...)})
	return &Cluster{Proxy: l.Proxies[0], Upstream: l.Upstream, Masters: l.Masters, Flags: l.ProxyFlags(t)}
}

// Another starts one more proxy in front of the same servers.
func (c *Cluster) Another(t testing.TB) *Proxy {
	t.Helper()
	p := StartProxy(t, c.Flags...)
	p.WaitVoting(t)
	return p
}

// AskAs sends one command on an authenticated connection of its own.
func AskAs(t testing.TB, s *Redis, password string, args ...string) string {
	t.Helper()
	c := Dial(t, s.Addr)
	defer c.Close()
	c.WantDo("+OK\r\n", "AUTH", password)
	return c.Do(args...)
}

// StartProtected starts an upstream with a password, three masters without, and a proxy.
func StartProtected(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	return StartProtectedBy(t, StartRedis(t, "--requirepass", "secret"), flags...)
}

// StartProtectedBy is StartProtected with an upstream whose password is secret. It returns once
// the proxy has granted a lock.
func StartProtectedBy(t testing.TB, upstream *Redis, flags ...string) *Cluster {
	t.Helper()
	c := &Cluster{Upstream: upstream, Masters: StartMasters(t, 3)}
	c.Flags = append([]string{"--upstream", c.Upstream.Addr, "--masters", strings.Join(Addrs(c.Masters), ","),
		"--restart-guard", "off"}, flags...)
	c.Proxy = StartProxy(t, c.Flags...)
	host := Dial(t, c.Addr)
	host.WantDo("+OK\r\n", "AUTH", "secret")
	WaitFor(t, "first lock", Patience, func() bool {
		token := TokenOf(host.Do("LOCK", "warm-up", "60s"))
		return token != "" && host.Do("UNLOCK", "warm-up", token) == ":1\r\n"
	})
	return c
}

// StartEmbedded starts a proxy with embedded servers.
func StartEmbedded(t testing.TB) *Proxy {
	t.Helper()
	p := StartProxy(t, "--embedded")
	p.WaitVoting(t)
	return p
}
