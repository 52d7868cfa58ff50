package operations

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/lab"
)

// Passwords, certificates and authority of running servers change, and the proxy follows at
// SIGHUP, without a restart; connections opened before keep working.
func TestPasswordsAndCertificatesRotate(t *testing.T) {
	t.Parallel()
	needTLS(t)
	first, second := newAuthority(t), newAuthority(t)
	local, dir := net.IPv4(127, 0, 0, 1), t.TempDir()
	cert, key := first.issue("server", local)
	upstream, upstreamAt := startWithTLS(t, first.ca, cert, key)
	var masters []*lab.Redis
	var mastersAt []string
	for range 3 {
		s, at := startWithTLS(t, first.ca, cert, key)
		masters, mastersAt = append(masters, s), append(mastersAt, at)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authorities := textOf(t, first.ca)
	p := lab.StartProxy(t, "--restart-guard", "off",
		"--upstream", upstreamAt, "--upstream-password-file", file("upstream", "old\n"),
		"--upstream-tls-ca", file("upstream.pem", authorities),
		"--masters", strings.Join(mastersAt, ","), "--masters-password-file", file("masters", "old\n"),
		"--masters-tls-ca", file("masters.pem", authorities))
	p.WaitVoting(t)
	old := lab.Dial(t, p.Addr)
	old.WantDo("+OK\r\n", "SET", "a", "1")

	cert, key = second.issue("server", local)
	rotate(t, upstream, masters, cert, key)
	host := lab.Dial(t, p.Addr)
	lab.WaitFor(t, "masters of an unknown authority", lab.Patience, func() bool {
		got := host.Do("LOCK", "job", "1s")
		return strings.HasPrefix(got, "-NOQUORUM") && strings.Contains(got, "unknown authority")
	})
	if got := host.Do("GET", "a"); !strings.Contains(got, "unknown authority") {
		t.Errorf("GET on a new connection: got %q, want unknown authority", got)
	}

	authorities = textOf(t, second.ca)
	file("upstream.pem", authorities)
	file("masters.pem", authorities)
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "masters with another password", lab.Patience, func() bool {
		return strings.Contains(host.Do("LOCK", "job", "1s"), "says wrong password")
	})
	file("upstream", "new\n")
	file("masters", "new\n")
	p.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "a LOCK with the new passwords", lab.Patience, func() bool {
		return lab.TokenOf(host.Do("LOCK", "job", "60s")) != ""
	})
	lab.WaitFor(t, "a GET with the new passwords", lab.Patience, func() bool {
		return host.Do("GET", "a") == lab.Bulk("1")
	})
	old.WantDo(lab.Bulk("1"), "GET", "a")
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startWithTLS starts a Redis with TLS and the password "old", and returns its address with
// scheme.
func startWithTLS(t *testing.T, ca, cert, key string) (s *lab.Redis, addr string) {
	t.Helper()
	addr = lab.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	return lab.StartRedis(t, "--requirepass", "old", "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", ca, "--tls-auth-clients", "no"), "rediss://" + addr
}

// rotate gives all servers the certificate and the password "new", and ends the proxy's
// connections to the masters.
func rotate(t *testing.T, upstream *lab.Redis, masters []*lab.Redis, cert, key string) {
	t.Helper()
	changes := [][]string{
		{"CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key},
		{"CONFIG", "SET", "requirepass", "new"},
	}
	for _, s := range append(masters, upstream) {
		for _, change := range changes {
			if got := lab.AskAs(t, s, "old", change...); got != "+OK\r\n" && !strings.HasPrefix(got, "-NOAUTH") {
				t.Fatalf("%q: got %q", change, got)
			}
		}
	}
	for _, s := range masters {
		lab.AskAs(t, s, "new", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		lab.AskAs(t, s, "new", "CLIENT", "KILL", "TYPE", "pubsub")
	}
}
