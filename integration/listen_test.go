package integration

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
)

// Listeners of the whole program: several at once, TLS, certificates that change, Unix sockets, the PROXY protocol.

// listening returns the addresses of the ready line.
func (p *proxy) listening(t *testing.T) []string {
	t.Helper()
	for line := range strings.Lines(p.log.String()) {
		var entry struct {
			Msg    string
			Listen []string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "ready" {
			return entry.Listen
		}
	}
	t.Fatal("no ready line")
	return nil
}

// overTLS is a client connection over TLS.
type overTLS struct {
	*tls.Conn
	br *bufio.Reader
}

func dialTLS(t *testing.T, addr string, config *tls.Config) (*overTLS, error) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return &overTLS{c, bufio.NewReader(c)}, nil
}

func (c *overTLS) do(args ...string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, encode(args...)); err != nil {
		return "", err
	}
	return readFrame(c.br)
}

// TestTLSClients: mutual TLS in front of the whole program, and certificates that change while clients are connected.
func TestTLSClients(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	local := net.IPv4(127, 0, 0, 1)
	cert, key := a.issue("server", local)
	clientCert, clientKey := a.issue("client")
	good := a.client(clientCert, clientKey)
	c := startCluster(t, 3, "--listen", "127.0.0.1:0,rediss://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", a.ca)
	addr := c.listening(t)[1]
	old, err := dialTLS(t, addr, good)
	if err != nil {
		t.Fatal(err)
	}
	wantDo := func(conn *overTLS, want string, args ...string) {
		t.Helper()
		if got, err := conn.do(args...); err != nil || got != want {
			t.Errorf("%q: got %q %v, want %q", args, got, err, want)
		}
	}
	wantDo(old, "+OK\r\n", "SET", "a", strings.Repeat("x", 100_000))
	wantDo(old, bulk(strings.Repeat("x", 100_000)), "GET", "a")
	if token, _ := old.do("LOCK", "job", "60s"); tokenOf(token) == "" {
		t.Errorf("LOCK: %q", token)
	}
	stranger, strangerKey := other.issue("stranger")
	for name, config := range map[string]*tls.Config{"none": a.client("", ""), "of another authority": a.client(stranger, strangerKey)} {
		if conn, err := dialTLS(t, addr, config); err == nil { // with TLS 1.3 the refusal comes with the first read
			if got, err := conn.do("PING"); err == nil {
				t.Errorf("with a certificate %s: %q", name, got)
			}
		}
	}

	serial := func() string {
		conn, err := dialTLS(t, addr, good)
		if err != nil {
			return err.Error()
		}
		wantDo(conn, "+PONG\r\n", "PING")
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
	c.signal(syscall.SIGHUP)
	waitFor(t, "the complaint", patience, func() bool { return strings.Contains(c.log.String(), "nothing was reloaded") })
	if now := serial(); now != first || !strings.Contains(c.log.String(), key) || strings.Contains(c.log.String(), string(intact)) {
		t.Errorf("after a broken key the certificate is %s, was %s", now, first)
	}
	a.issue("server", local)
	c.signal(syscall.SIGHUP)
	waitFor(t, "the new certificate", patience, func() bool { return serial() != first })
	wantDo(old, "+PONG\r\n", "PING")

	// A client that does not go on with its handshake keeps nobody waiting.
	for range 20 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			defer conn.Close()
			io.WriteString(conn, "\x16\x03\x01")
		}
	}
	start := time.Now()
	if serial(); time.Since(start) > 2*time.Second*slack {
		t.Errorf("a handshake beside 20 that hang took %v", time.Since(start))
	}
}

// TestProxyProtocol: the address of the header is the client's, in the log; without a header no client, and when the setting is off the header
// is nothing but a strange command.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("server", net.IPv4(127, 0, 0, 1))
	socket := filepath.Join(t.TempDir(), "s")
	servers := startMasters(t, 2)
	p := startProxy(t, "--upstream", servers[0].addr, "--masters", servers[1].addr, "--restart-guard", "off", "--proxy-protocol", "on",
		"--listen", "127.0.0.1:0,rediss://127.0.0.1:0,unix://"+socket, "--tls-cert", cert, "--tls-key", key, "--admin-commands", "on")
	plain, secure := p.listening(t)[0], p.listening(t)[1]
	host := dial(t, plain)
	host.send("PROXY TCP4 192.0.2.77 198.51.100.1 5555 6380\r\n" + encode("PING"))
	host.want("+PONG\r\n")
	waitFor(t, "first lock", patience, func() bool { return tokenOf(host.do("LOCK", "job", "60s")) != "" })
	host.wantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	host.lock("job", "60s")
	v2 := dial(t, plain)
	v2.send("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + "\xc0\x00\x02\x78" + "\xc6\x33\x64\x01" + "\x15\xb4\x18\xec" + encode("LOCKPROXY", "RELEASE", "job"))
	v2.want(":1\r\n")
	waitFor(t, "both addresses in the log", patience, func() bool {
		return strings.Contains(p.log.String(), `"client":"192.0.2.77:5555"`) && strings.Contains(p.log.String(), `"client":"192.0.2.120:5556"`)
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
		t.Errorf("over TLS: %q %v", got, err)
	}
	waitFor(t, "the address of the client with TLS", patience, func() bool { return strings.Contains(p.log.String(), `"client":"192.0.2.79:5557"`) })
	without := dial(t, plain)
	without.send(encode("PING"))
	without.wantClosed()
	local, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	io.WriteString(local, encode("PING"))
	local.SetDeadline(time.Now().Add(patience))
	if got, err := readFrame(bufio.NewReader(local)); got != "+PONG\r\n" {
		t.Errorf("a Unix socket has no header: %q %v", got, err)
	}

	off := startProxy(t, "--upstream", servers[0].addr, "--restart-guard", "off", "--admin-commands", "on")
	liar := dial(t, off.addr)
	liar.send("PROXY TCP4 192.0.2.99 198.51.100.1 5555 6380\r\n")
	if got := liar.frame(); !strings.HasPrefix(got, "-ERR unknown command") {
		t.Errorf("off: %q", got)
	}
	waitFor(t, "first lock", patience, func() bool { return tokenOf(liar.do("LOCK", "job", "60s")) != "" })
	liar.wantDo(":1\r\n", "LOCKPROXY", "RELEASE", "job")
	waitFor(t, "the log", patience, func() bool { return strings.Contains(off.log.String(), "lock released by an operator") })
	if strings.Contains(off.log.String(), "192.0.2.99") {
		t.Error("a header is believed although proxy-protocol is off")
	}
}

// TestUnixModeSetting: the socket's mode is that of the setting in the running program.
func TestUnixModeSetting(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	s := startRedis(t)
	startProxy(t, "--upstream", s.addr, "--restart-guard", "off", "--listen", "unix://"+socket, "--unix-mode", "0660")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("got %v %v, want 0660", info, err)
	}
}
