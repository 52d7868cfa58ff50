package upstream

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"lockproxy/integration/redistest"
)

// redisServer starts a real Redis.
func redisServer(t *testing.T, args ...string) Options {
	t.Helper()
	s := redistest.Start(t, args...)
	return Options{Name: "redis", Network: s.Network, Addr: s.Addr, DialTimeout: 2 * time.Second}
}

func pingOn(t *testing.T, conn net.Conn, command, want string) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(conn, command+"\r\n")
	if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || got != want+"\r\n" {
		t.Errorf("%s: got %q %v, want %q", command, got, err, want)
	}
}

func TestAgainstRealRedis(t *testing.T) {
	open := redisServer(t)
	locked := redisServer(t, "--requirepass", "hush", "--user", "app", "on", ">app-hush", "~*", "+@all",
		"--user", "bare", "on", "nopass", "-@all")
	noRights := redisServer(t, "--user", "default", "on", "nopass", "~*", "-@all", "+auth", "+hello")
	for name, c := range map[string]struct {
		opts Options
		want GuestRules
	}{"open": {open, GuestRules{AuthRequired: false, Resets: true}},
		"password":  {locked, GuestRules{AuthRequired: true, Resets: true}},
		"no rights": {noRights, GuestRules{AuthRequired: true, GuestsLimited: true, Resets: true}}} {
		t.Run("Ask/"+name, func(t *testing.T) {
			if got, err := New(c.opts).Ask(t.Context()); err != nil || got != c.want {
				t.Errorf("got %+v %v, want %+v", got, err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		opts           Options
		user, password string
		db             int
		want           string
	}{
		"plain":            {open, "", "", 0, ""},
		"database":         {open, "", "", 7, ""},
		"no such database": {open, "", "", 99, "ERR DB index is out of range"},
		"no password set": {open, "", "x", 0, "ERR AUTH <password> called without any password configured for the " +
			"default user. Are you sure your configuration is correct?"},
		"password":  {locked, "", "hush", 3, ""},
		"user":      {locked, "app", "app-hush", 3, ""},
		"wrong":     {locked, "app", "hush", 0, "WRONGPASS invalid username-password pair or user is disabled."},
		"no rights": {locked, "bare", "any", 1, "NOPERM User bare has no permissions to run the 'select' command"},
	} {
		t.Run("Dial/"+name, func(t *testing.T) {
			opts := c.opts
			opts.User, opts.Password, opts.DB = c.user, c.password, c.db
			conn, err := New(opts).Dial(t.Context())
			if got := Reason(err); got != c.want && !(name == "no rights" && len(got) > 6 && got[:6] == "NOPERM") {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			if err == nil {
				defer conn.Close()
				pingOn(t, conn, "PING", "+PONG")
				if c.db != 0 {
					pingOn(t, conn, "MOVE x 0", ":0") // an error if this were database 0
				}
			}
		})
	}
}

// TestTLS speaks TLS to a server whose certificate is checked against the name in the address.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, _ := x509.ParseCertificate(der)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r := bufio.NewReader(conn); request(r) == "AUTH p" {
					io.WriteString(conn, "+OK\r\n+rest\r\n")
					io.Copy(io.Discard, r)
				}
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	opts := Options{Network: "tcp", Addr: "localhost:" + port, Password: "p",
		TLS: func() *tls.Config { return &tls.Config{RootCAs: roots} }}
	conn, err := New(opts).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rest := make([]byte, 7)
	if _, err := io.ReadFull(conn, rest); err != nil || string(rest) != "+rest\r\n" {
		t.Errorf("got %q %v", rest, err)
	}
	if _, half := conn.(interface{ CloseWrite() error }); !half {
		t.Errorf("%T cannot close one half", conn)
	}
	opts.Addr = "127.0.0.1:" + port // not a name in the certificate
	if _, err := New(opts).Dial(t.Context()); err == nil {
		t.Error("a certificate for another name passed")
	} else {
		t.Logf("reason: %s", Reason(err))
	}
}
