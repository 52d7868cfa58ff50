package lab

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/redistest"
)

// Config configures a deployment. The comments name the default of a field.
type Config struct {
	Masters    int      // 3
	Proxies    int      // 1; a negative number starts none, and the test calls StartProxy
	Flags      []string // of every proxy, beside upstream and masters
	MasterArgs []string // of every master's redis-server
	Relays     bool     // every proxy reaches every master through a relay of its own
	Clocks     bool     // every master has a clock of its own
	Net        bool     // masters and proxies are nodes of a network of their own; not with Relays
	Parts      bool     // the test calls Part: Net if the system allows it, else Relays
	NoWait     bool     // return before the proxies can lock
	Plain      bool     // proxies without the race detector, for tests of much load
}

// Lab is a deployment: an upstream, masters, and proxies before them.
type Lab struct {
	Upstream *Redis
	Masters  []*Redis
	Proxies  []*Proxy
	Relays   [][]*Relay // of each proxy to each master, in their order; empty without Config.Relays
	Net      *Net       // nil without Config.Net
	config   Config
}

// Start starts a deployment and waits until every proxy has granted a lock.
func Start(t testing.TB, config Config) *Lab {
	t.Helper()
	if config.Masters == 0 {
		config.Masters = 3
	}
	if config.Proxies == 0 {
		config.Proxies = 1
	}
	if config.Parts {
		config.Net = NetMissing() == nil
		config.Relays = !config.Net
	}
	redistest.Program(t)
	l := &Lab{config: config}
	if config.Net {
		l.Net = NewNet(t)
	}
	places := make([]place, config.Masters)
	for i := range places {
		if places[i].node = l.node(t); config.Clocks {
			places[i].clock = NewClock(t)
		}
	}
	l.Upstream, l.Masters = startRedis(t, place{node: l.node(t)}, nil), startMasters(t, places, config.MasterArgs)
	for range config.Proxies {
		l.StartProxy(t)
	}
	if !config.NoWait {
		for _, p := range l.Proxies {
			p.WaitVoting(t)
		}
	}
	return l
}

// StartProxy adds a proxy with more flags and does not wait until it can lock. A flag replaces an
// earlier one of the same name.
func (l *Lab) StartProxy(t testing.TB, flags ...string) *Proxy {
	t.Helper()
	return l.StartProxyOf(t, "", flags...)
}

// StartProxyOf is StartProxy for another build of the program, by its path; "" is the build under
// test.
func (l *Lab) StartProxyOf(t testing.TB, binary string, flags ...string) *Proxy {
	t.Helper()
	p := &Proxy{Node: l.node(t), flags: l.ProxyFlags(t, flags...), plain: l.config.Plain, binary: binary}
	startProxy(t, p)
	l.Proxies = append(l.Proxies, p)
	return p
}

// StartProxies adds n proxies that start at the same moment.
func (l *Lab) StartProxies(t testing.TB, n int) []*Proxy {
	t.Helper()
	started := make([]*Proxy, n)
	var wg sync.WaitGroup
	for i := range started {
		node, flags := l.node(t), l.ProxyFlags(t)
		wg.Go(func() { started[i] = startProxy(t, &Proxy{Node: node, flags: flags, plain: l.config.Plain}) })
	}
	wg.Wait()
	for _, p := range started {
		if p == nil {
			t.FailNow()
		}
	}
	l.Proxies = append(l.Proxies, started...)
	return started
}

// ProxyFlags returns the flags of the next proxy, and starts its relays if the deployment has
// relays.
func (l *Lab) ProxyFlags(t testing.TB, flags ...string) []string {
	t.Helper()
	list := Addrs(l.Masters)
	if l.config.Relays {
		relays, _ := StartRelays(t, l.Masters)
		for i, r := range relays {
			list[i] = fmt.Sprintf("m%d@%s", i+1, r.Addr) // the proxies agree on the masters by name
		}
		l.Relays = append(l.Relays, relays)
	}
	all := []string{"--upstream", l.Upstream.Addr, "--masters", strings.Join(list, ",")}
	return withFlags(withFlags(all, l.config.Flags...), flags...)
}

// node adds a node if the deployment has a network, else it returns nil.
func (l *Lab) node(t testing.TB) *Node {
	t.Helper()
	if l.Net == nil {
		return nil
	}
	return l.Net.Node(t)
}

// Link returns the relay between a proxy and a master, by their numbers from 0.
func (l *Lab) Link(proxy, master int) *Relay { return l.Relays[proxy][master] }

// WantNoStray waits until the masters have executed all commands of the proxies, and fails if a
// lock key is left. All masters and proxies must run. See [WantNoStray] for the ttl.
func (l *Lab) WantNoStray(t testing.TB) {
	t.Helper()
	WantNoStray(t, l.Masters, l.Proxies...)
}
