package integration

import (
	"testing"

	"lockproxy/integration/lab"
)

// cluster is an upstream and n masters with one lockproxy before them.
type cluster struct {
	*lab.Proxy
	upstream *lab.Redis
	masters  []*lab.Redis
	flags    []string
}

// startCluster starts n masters, an upstream of its own and a proxy with more flags.
func startCluster(t testing.TB, n int, flags ...string) *cluster {
	t.Helper()
	l := lab.Start(t, lab.Config{Masters: n, Flags: append([]string{"--restart-guard", "off"}, flags...)})
	return &cluster{Proxy: l.Proxies[0], upstream: l.Upstream, masters: l.Masters, flags: l.ProxyFlags(t)}
}

// another starts one more proxy in front of the same servers.
func (c *cluster) another(t testing.TB) *lab.Proxy {
	t.Helper()
	p := lab.StartProxy(t, c.flags...)
	p.WaitVoting(t)
	return p
}
