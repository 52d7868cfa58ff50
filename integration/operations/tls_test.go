package operations

import (
	"net"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// TLS to real servers that want client certificates, and the combinations of address, credentials
// and database.

// startTLS starts a Redis that also listens with TLS, has a certificate of the given name, and
// wants one of clients.
func startTLS(t *testing.T, a *authority, name string, args ...string) (s *lab.Redis, addr string) {
	t.Helper()
	cert, key := a.issue(name)
	addr = lab.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	s = lab.StartRedis(t, append(args, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.ca, "--tls-auth-clients", "yes")...)
	return s, addr
}

// private configures servers that use TLS with each other. A nil *private: they do not.
type private struct {
	a         *authority
	cert, key string
}

// newPrivate skips the test if redis-server is built without TLS.
func newPrivate(t *testing.T) *private {
	t.Helper()
	needTLS(t)
	p := &private{a: newAuthority(t)}
	p.cert, p.key = p.a.issue("server", net.IPv4(127, 0, 0, 1))
	return p
}

// needTLS skips the test if redis-server is built without TLS.
func needTLS(t *testing.T) {
	t.Helper()
	if out := lab.StartRedis(t).Do(t, "CONFIG", "GET", "tls-port"); out == "*0\r\n" {
		t.Skip("redis-server is built without TLS")
	}
}

// port returns a TLS port for another server, and the arguments that make it listen there.
func (p *private) port() (addr string, args []string) {
	if p == nil {
		return "", nil
	}
	addr = lab.FreeAddr(p.a.t)
	_, port, _ := strings.Cut(addr, ":")
	return addr, []string{"--tls-port", port, "--tls-replication", "yes", "--tls-auth-clients", "yes", "--tls-cert-file",
		p.cert, "--tls-key-file", p.key,
		"--tls-ca-cert-file", p.a.ca}
}

// flags returns the flags with which lockproxy reaches such an upstream.
func (p *private) flags() []string {
	cert, key := p.a.issue("lockproxy")
	return []string{"--upstream-tls-ca", p.a.ca, "--upstream-tls-cert", cert, "--upstream-tls-key", key}
}

func TestTLSToUpstreamAndMasters(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	needTLS(t)
	upstream, upstreamAddr := startTLS(t, a, "upstream.test", "--requirepass", "pw")
	var masters []string
	for range 3 {
		_, addr := startTLS(t, a, "masters.test")
		masters = append(masters, "rediss://"+addr)
	}
	cert, key := a.issue("lockproxy")
	up := []string{"--upstream", "rediss://:pw@" + upstreamAddr + "/5", "--upstream-tls-ca", a.ca, "--upstream-tls-cert",
		cert, "--upstream-tls-key", key,
		"--upstream-tls-server-name", "upstream.test"}
	down := []string{"--masters", strings.Join(masters, ","), "--masters-tls-ca", a.ca, "--masters-tls-cert", cert,
		"--masters-tls-key", key,
		"--masters-tls-server-name", "masters.test", "--restart-guard", "off"}
	p := lab.StartProxy(t, slices.Concat(up, down)...)
	p.WaitVoting(t)
	c := lab.Dial(t, p.Addr)
	c.WantDo("+OK\r\n", "SET", "a", "1")
	c.Unlock("job", c.Lock("job", "60s"))
	direct := lab.Dial(t, upstream.Addr)
	direct.WantDo("+OK\r\n", "AUTH", "pw")
	direct.WantDo("+OK\r\n", "SELECT", "5")
	direct.WantDo(lab.Bulk("1"), "GET", "a")

	change := func(flags []string, name, value string) []string {
		flags = slices.Clone(flags)
		flags[slices.Index(flags, name)+1] = value
		return flags
	}
	drop := func(flags []string, names ...string) []string {
		flags = slices.Clone(flags)
		for _, name := range names {
			i := slices.Index(flags, name)
			flags = slices.Delete(flags, i, i+2)
		}
		return flags
	}
	for name, c := range map[string]struct {
		up, down []string
		set      string // contained in the reply to SET
		reason   string // of each master, in the reply to LOCK
	}{
		"upstream of another name": {change(up, "--upstream-tls-server-name", "other.test"), down,
			"certificate is valid for upstream.test, not other.test", ""},
		"upstream of an unknown CA": {change(up, "--upstream-tls-ca", other.ca), down,
			"certificate signed by unknown authority", ""},
		"upstream wants a certificate": {drop(up, "--upstream-tls-cert", "--upstream-tls-key"), down, "certificate required",
			""},
		"masters of another name": {up, change(down, "--masters-tls-server-name", "other.test"), "+OK",
			"has a certificate for another name"},
		"masters of an unknown CA": {up, change(down, "--masters-tls-ca", other.ca), "+OK",
			"has a certificate of an unknown authority"},
		"masters want a certificate": {up, drop(down, "--masters-tls-cert", "--masters-tls-key"), "+OK",
			"refused TLS: certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lab.StartProxy(t, slices.Concat(c.up, c.down, []string{"--show-masters=false"})...)
			host := lab.Dial(t, p.Addr)
			wantTLSFaults(host, name, c.set, c.reason)
		})
	}
}

// wantTLSFaults checks that the reply to SET contains set, and that LOCK of key names the reason
// for each master, or is granted if the reason is "". No reply may show an address.
func wantTLSFaults(host *lab.Client, key, set, reason string) {
	t := host.T
	t.Helper()
	var got string
	// a reset may overtake the TLS alert
	if !lab.Poll(lab.Patience, func() bool { got = host.Do("SET", "a", "1"); return strings.Contains(got, set) }) {
		t.Errorf("SET: got %q, want %q", got, set)
	}
	good := func() bool {
		got = host.Do("LOCK", key, "60s")
		return reason != "" && strings.Contains(got, "master 1 "+reason) || reason == "" && lab.TokenOf(got) != ""
	}
	if !lab.Poll(lab.Patience, good) {
		t.Errorf("LOCK: got %q, want reason %q", got, reason)
	}
	for _, leak := range []string{"masters.test", "127.0.0.1", "localhost"} {
		if strings.Contains(got, leak) {
			t.Errorf("LOCK with show-masters off: got %q, want no %s", got, leak)
		}
	}
}

// Addresses work in any combination of user, password, file, database, Unix socket and TLS.
func TestUpstreamAddressFormsWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := dir + "/redis.sock"
	a := newAuthority(t)
	cert, key := a.issue("localhost", net.IPv4(127, 0, 0, 1))
	tlsAddr := lab.FreeAddr(t)
	_, tlsPort, _ := strings.Cut(tlsAddr, ":")
	s := lab.StartRedis(t, "--requirepass", "pw", "--user", "app", "on", ">app-pw", "~*", "&*", "+@all", "--unixsocket",
		socket, "--tls-port", tlsPort,
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.ca, "--tls-auth-clients", "no")
	master := lab.StartRedis(t)
	pw, appPW := secretFile(t, dir, "pw"), secretFile(t, dir, "app-pw")
	for name, c := range map[string]struct {
		flags []string
		who   string
		db    string
	}{
		"address":      {[]string{"redis://app:app-pw@" + s.Addr + "/3"}, "app", "3"},
		"default user": {[]string{"redis://:pw@" + s.Addr}, "default", "0"},
		"file":         {[]string{s.Addr, "--upstream-password-file", pw}, "default", "0"},
		"file, user": {[]string{"redis://" + s.Addr + "/2", "--upstream-password-file", appPW, "--upstream-user",
			"app"}, "app", "2"},
		"Unix socket, file": {[]string{"unix://" + socket, "--upstream-password-file", appPW, "--upstream-user", "app"},
			"app", "0"},
		"TLS, file, database": {[]string{"rediss://" + tlsAddr + "/4", "--upstream-password-file", pw, "--upstream-tls-ca",
			a.ca}, "default", "4"},
		"TLS, by name": {[]string{"rediss://app:app-pw@localhost:" + tlsPort, "--upstream-tls-ca", a.ca}, "app", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lab.StartProxy(t, append([]string{"--masters", master.Addr, "--restart-guard", "off", "--upstream"},
				c.flags...)...)
			host := lab.Dial(t, p.Addr)
			host.WantDo(lab.Bulk(c.who), "ACL", "WHOAMI")
			if got := host.Do("CLIENT", "INFO"); !strings.Contains(got, " db="+c.db+" ") {
				t.Errorf("got %q, want database %s", got, c.db)
			}
			p.WaitVoting(t) // the proxy logs in, so the client needs no AUTH
		})
	}
}
