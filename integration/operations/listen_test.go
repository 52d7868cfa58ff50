package operations

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Listeners of the whole program: several at once, TLS, changing certificates, Unix sockets, the
// PROXY protocol.

// listening returns the addresses in the ready line of the log.
func listening(t testing.TB, p *lab.Proxy) []string {
	t.Helper()
	for line := range strings.Lines(p.Log.String()) {
		var entry struct {
			Msg    string
			Listen []string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "ready" {
			return entry.Listen
		}
	}
	t.Fatal("the log has no ready line")
	return nil
}

// overTLS is a client connection over TLS.
type overTLS struct {
	*tls.Conn
	br *bufio.Reader
}

func dialTLS(t *testing.T, addr string, config *tls.Config) (*overTLS, error) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: lab.Patience}, "tcp", addr, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return &overTLS{c, bufio.NewReader(c)}, nil
}

func (c *overTLS) do(args ...string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(lab.Patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, lab.Encode(args...)); err != nil {
		return "", err
	}
	return lab.ReadFrame(c.br)
}

func (c *overTLS) wantDo(t *testing.T, want string, args ...string) {
	t.Helper()
	if got, err := c.do(args...); err != nil || got != want {
		t.Errorf("%q: got %q %v, want %q", args, got, err, want)
	}
}

// Mutual TLS works for the whole program, and certificates change while clients are connected.
func TestMutualTLSAndNewCertificates(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	local := net.IPv4(127, 0, 0, 1)
	cert, key := a.issue("server", local)
	clientCert, clientKey := a.issue("client")
	good := a.client(clientCert, clientKey)
	c := lab.StartCluster(t, 3, "--listen", "127.0.0.1:0,rediss://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
		"--tls-client-ca", a.ca)
	addr := listening(t, c.Proxy)[1]
	old, err := dialTLS(t, addr, good)
	if err != nil {
		t.Fatal(err)
	}
	old.wantDo(t, "+OK\r\n", "SET", "a", strings.Repeat("x", 100_000))
	old.wantDo(t, lab.Bulk(strings.Repeat("x", 100_000)), "GET", "a")
	if token, _ := old.do("LOCK", "job", "60s"); lab.TokenOf(token) == "" {
		t.Errorf("LOCK: %q", token)
	}
	wantCertificateNeeded(t, addr, a, other)

	serial := func() string {
		conn, err := dialTLS(t, addr, good)
		if err != nil {
			return err.Error()
		}
		conn.wantDo(t, "+PONG\r\n", "PING")
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	intact, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the log line about the broken key", lab.Patience,
		func() bool { return strings.Contains(c.Log.String(), "nothing was reloaded") })
	if now := serial(); now != first || !strings.Contains(c.Log.String(), key) ||
		strings.Contains(c.Log.String(), string(intact)) {
		t.Errorf("after a broken key: got certificate %s, want %s and no key in the log", now, first)
	}
	a.issue("server", local)
	c.Signal(syscall.SIGHUP)
	lab.WaitFor(t, "the new certificate", lab.Patience, func() bool { return serial() != first })
	old.wantDo(t, "+PONG\r\n", "PING")

	// Clients that stop in the middle of the handshake delay no other client.
	for range 20 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			defer conn.Close()
			io.WriteString(conn, "\x16\x03\x01")
		}
	}
	serial() // beside 20 unfinished handshakes
}

// wantCertificateNeeded fails if a client without a certificate of a is served.
func wantCertificateNeeded(t *testing.T, addr string, a, other *authority) {
	t.Helper()
	stranger, strangerKey := other.issue("stranger")
	for name, config := range map[string]*tls.Config{"none": a.client("", ""),
		"of another authority": a.client(stranger, strangerKey)} {
		if conn, err := dialTLS(t, addr, config); err == nil { // with TLS 1.3 the refusal comes with the first read
			if got, err := conn.do("PING"); err == nil {
				t.Errorf("PING with certificate %q: got %q, want an error", name, got)
			}
		}
	}
}

// The header's address is the client's address in the log; a connection without a header is
// closed; with the setting off the header is an unknown command.
func TestProxyProtocolGivesClientAddress(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("server", net.IPv4(127, 0, 0, 1))
	socket := filepath.Join(t.TempDir(), "s")
	servers := lab.StartMasters(t, 2)
	p := lab.StartProxy(t, "--upstream", servers[0].Addr, "--masters", servers[1].Addr, "--restart-guard", "off",
		"--proxy-protocol", "on",
		"--listen", "127.0.0.1:0,rediss://127.0.0.1:0,unix://"+socket, "--tls-cert", cert, "--tls-key", key,
		"--admin-commands", "on")
	plain, secure := listening(t, p)[0], listening(t, p)[1]
	host := lab.Dial(t, plain)
	host.Send("PROXY TCP4 192.0.2.77 198.51.100.1 5555 6380\r\n" + lab.Encode("PING"))
	host.Want("+PONG\r\n")
	lab.WaitFor(t, "first lock", lab.Patience, func() bool { return lab.TokenOf(host.Do("LOCK", "job", "60s")) != "" })
	host.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	host.Lock("job", "60s")
	v2 := lab.Dial(t, plain)
	v2.Send("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + "\xc0\x00\x02\x78" + "\xc6\x33\x64\x01" + "\x15\xb4\x18\xec" +
		lab.Encode("LOCKPROXY", "RELEASE", "job"))
	v2.Want(":1\r\n")
	lab.WaitFor(t, "both addresses in the log", lab.Patience, func() bool {
		return strings.Contains(p.Log.String(), `"client":"192.0.2.77:5555"`) &&
			strings.Contains(p.Log.String(), `"client":"192.0.2.120:5556"`)
	})
	under, err := net.Dial("tcp", secure)
	if err != nil {
		t.Fatal(err)
	}
	defer under.Close()
	io.WriteString(under, "PROXY TCP4 192.0.2.79 198.51.100.1 5557 6380\r\n")
	conn := &overTLS{Conn: tls.Client(under, a.client("", ""))}
	conn.br = bufio.NewReader(conn.Conn)
	if got, err := conn.do("LOCKPROXY", "RELEASE", "job"); got != ":0\r\n" {
		t.Errorf("LOCK over TLS: got %q, %v", got, err)
	}
	lab.WaitFor(t, "the address of the client with TLS", lab.Patience,
		func() bool { return strings.Contains(p.Log.String(), `"client":"192.0.2.79:5557"`) })
	without := lab.Dial(t, plain)
	without.Send(lab.Encode("PING"))
	without.WantClosed()
	local, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	io.WriteString(local, lab.Encode("PING"))
	local.SetDeadline(time.Now().Add(lab.Patience))
	if got, err := lab.ReadFrame(bufio.NewReader(local)); got != "+PONG\r\n" {
		t.Errorf("PING over a Unix socket, without a header: got %q, %v", got, err)
	}

	off := lab.StartProxy(t, "--upstream", servers[0].Addr, "--restart-guard", "off", "--admin-commands", "on")
	liar := lab.Dial(t, off.Addr)
	liar.Send("PROXY TCP4 192.0.2.99 198.51.100.1 5555 6380\r\n")
	if got := liar.Frame(); !strings.HasPrefix(got, "-ERR unknown command") {
		t.Errorf("header with the setting off: got %q", got)
	}
	lab.WaitFor(t, "first lock", lab.Patience, func() bool { return lab.TokenOf(liar.Do("LOCK", "job", "60s")) != "" })
	liar.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	lab.WaitFor(t, "the log line of the release", lab.Patience, func() bool {
		return strings.Contains(off.Log.String(), "lock released by an operator")
	})
	if strings.Contains(off.Log.String(), "192.0.2.99") {
		t.Error("the log has the header's address although proxy-protocol is off")
	}
}

// Any number of connections that send no header does not delay one that does.
func TestSilentConnectionsDelayNoProxyHeader(t *testing.T) {
	t.Parallel()
	const crowd = 3000
	s := lab.StartRedis(t)
	p := lab.StartProxy(t, "--upstream", s.Addr, "--restart-guard", "off", "--proxy-protocol", "on")
	for name, said := range map[string]string{"silent": "", "half a header": "PROXY TCP4 192.0.2.1 "} {
		t.Run(name, func(t *testing.T) {
			for range crowd {
				_ = lab.Dial(t, p.Addr).Put(said) // the proxy may have closed it
			}
			host := lab.Dial(t, p.Addr)
			host.Send("PROXY TCP4 192.0.2.1 198.51.100.1 56324 6380\r\n")
			host.WantDo("+PONG\r\n", "PING")
		})
	}
}

// The socket has the mode of the setting.
func TestUnixModeAppliesToSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	s := lab.StartRedis(t)
	lab.StartProxy(t, "--upstream", s.Addr, "--restart-guard", "off", "--listen", "unix://"+socket, "--unix-mode", "0660")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("got %v %v, want 0660", info, err)
	}
}
