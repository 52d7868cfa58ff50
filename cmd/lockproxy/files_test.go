package main

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"lockproxy/cmd/lockproxy/internal/listen"
	"lockproxy/conf"
	"lockproxy/quorum"
)

// tlsEcho listens with cfg and sends back a line to whom it lets in.
func tlsEcho(t *testing.T, files *files) (addr string) {
	t.Helper()
	cfg := conf.Default()
	cfg.Listen = []conf.Address{{Network: "tcp", Addr: "127.0.0.1:0", TLS: true}}
	listeners, err := listen.All(t.Context(), listenOptions(cfg, files), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listen.CloseAll(listeners) })
	go func() {
		for {
			conn, err := listeners[0].Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 1)
				if _, err := conn.Read(b); err == nil {
					conn.Write(b)
				}
			}()
		}
	}()
	return listeners[0].Addr().String()
}

// speak makes a handshake, sends a byte and wants it back. It returns the certificate's name.
func speak(addr string, config *tls.Config) (name string, err error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", addr, config)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("x")); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestTLSListener(t *testing.T) {
	ours, strangers := newAuthority(t), newAuthority(t)
	var cfg conf.Config
	cfg.TLSCert, cfg.TLSKey = ours.issue("server", time.Now().Add(time.Hour))
	plain := tlsEcho(t, filesOf(t, cfg))
	cfg.TLSClientCA = ours.ca
	mutual := tlsEcho(t, filesOf(t, cfg))

	cert, key := ours.issue("client", time.Now().Add(time.Hour))
	good := ours.client("server", cert, key)
	cert, key = ours.issue("late", time.Now().Add(-time.Minute))
	late := ours.client("server", cert, key)
	cert, key = strangers.issue("stranger", time.Now().Add(time.Hour))
	foreign := ours.client("server", cert, key)
	old := ours.client("server", "", "")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	older := good.Clone()
	older.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		addr   string
		config *tls.Config
		err    string
	}{
		"no certificate asked":       {plain, ours.client("server", "", ""), ""},
		"wrong name":                 {plain, ours.client("other", "", ""), "not other"},
		"wrong authority":            {plain, strangers.client("server", "", ""), "unknown authority"},
		"TLS 1.1":                    {plain, old, "protocol version"},
		"mutual":                     {mutual, good, ""},
		"mutual, TLS 1.2":            {mutual, older, ""},
		"mutual, none shown":         {mutual, ours.client("server", "", ""), "certificate required"},
		"mutual, expired":            {mutual, late, "expired certificate"},
		"mutual, of somebody else's": {mutual, foreign, "unknown certificate authority"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := speak(c.addr, c.config)
			if c.err == "" && (err != nil || got != "server") ||
				c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: got %q %v, want error %q", name, got, err, c.err)
			}
		})
	}
}

// reloading are files that are in use: of a listener, of the upstream and of a master.
type reloading struct {
	*testing.T
	ours     *authority
	cfg      conf.Config
	files    *files
	addr     string // of the listener
	master   quorum.MasterOptions
	upstream func() *tls.Config
	login    func() (user, password string)
}

func startReloading(t *testing.T) *reloading {
	r := &reloading{T: t, ours: newAuthority(t)}
	cfg := &r.cfg
	cfg.TLSCert, cfg.TLSKey = r.ours.issue("server", time.Now().Add(time.Hour))
	cfg.UpstreamLogin.PasswordFile = r.ours.dir + "/password"
	os.WriteFile(cfg.UpstreamLogin.PasswordFile, []byte("one\n"), 0o600)
	cfg.UpstreamTLS.Cert, cfg.UpstreamTLS.Key = r.ours.issue("us", time.Now().Add(time.Hour))
	cfg.MastersTLS.CA = r.ours.dir + "/masters.pem"
	cfg.MastersLogin.PasswordFile = r.ours.dir + "/masters"
	os.WriteFile(cfg.MastersLogin.PasswordFile, []byte("old\n"), 0o600)
	r.copyFile(cfg.MastersTLS.CA, r.ours.ca)
	r.files = filesOf(t, *cfg)
	r.addr = tlsEcho(t, r.files)
	cfg.Masters = []conf.Address{{Network: "tcp", Addr: "127.0.0.1:1", TLS: true}}
	r.master = quorumOptions(*cfg, nil, r.files, nil, zap.NewNop()).Masters[0]
	r.upstream = r.files.clientTLS(conf.Address{TLS: true}, "upstream", cfg.UpstreamTLS)
	r.login = r.files.login("upstream", cfg.UpstreamLogin)
	return r
}

func (r *reloading) copyFile(to, from string) {
	text, err := os.ReadFile(from)
	if err != nil {
		r.Fatal(err)
	}
	os.WriteFile(to, text, 0o600)
}

// want compares the files in use: the names in the certificates of the listener and of the client
// of the upstream, both passwords, and whether the master trusts the authority of the listener.
func (r *reloading) want(what, want string) {
	r.Helper()
	name, err := speak(r.addr, r.ours.client("127.0.0.1", "", ""))
	if err != nil {
		name = err.Error()
	}
	us, _ := r.upstream().GetClientCertificate(nil)
	_, password := r.login()
	_, of := r.master.Login()
	trusted := "friend"
	config := r.master.TLS()
	config.ServerName = "127.0.0.1"
	if _, err := speak(r.addr, config); err != nil {
		trusted = "stranger"
	}
	if got := strings.Join([]string{name, us.Leaf.Subject.CommonName, password, of, trusted}, " "); got != want {
		r.Errorf("%s: %s, want %s", what, got, want)
	}
}

// reload reads the files again, and compares what changed, or the error.
func (r *reloading) reload(want string) {
	r.Helper()
	changed, err := r.files.reload(r.cfg)
	got := strings.Join(changed, ",") + ";"
	if err != nil {
		got = err.Error()
	}
	if !strings.Contains(got, want) {
		r.Errorf("got %s, want %s", got, want)
	}
}

func TestReloadChangesAllFilesOrNone(t *testing.T) {
	r := startReloading(t)
	r.want("before", "server us one old friend")
	r.reload(";")
	newCert, newKey := r.ours.issue("second", time.Now().Add(time.Hour))
	r.copyFile(r.cfg.TLSCert, newCert)
	r.reload("tls-cert") // the key does not belong to it yet
	r.want("with a broken pair", "server us one old friend")
	r.copyFile(r.cfg.TLSKey, newKey)
	os.WriteFile(r.cfg.UpstreamLogin.PasswordFile, nil, 0o600)
	r.reload("upstream-password-file " + r.cfg.UpstreamLogin.PasswordFile + ": not one line with a password")
	r.want("with one broken file", "server us one old friend")
	os.WriteFile(r.cfg.UpstreamLogin.PasswordFile, []byte("two"), 0o600)
	r.copyFile(r.cfg.UpstreamTLS.Cert, newCert)
	r.copyFile(r.cfg.UpstreamTLS.Key, newKey)
	r.copyFile(r.cfg.MastersTLS.CA, newAuthority(t).ca)
	os.WriteFile(r.cfg.MastersLogin.PasswordFile, []byte("new"), 0o600)
	r.reload("masters-password-file,masters-tls-ca,tls-cert,tls-key," +
		"upstream-password-file,upstream-tls-cert,upstream-tls-key;")
	r.want("after all", "second second two new stranger")
}

func TestPasswordFiles(t *testing.T) {
	path := t.TempDir() + "/p"
	for text, want := range map[string]string{"a": "a", "a\n": "a", "a\r\n": "a", " a b ": " a b ", "a\n\n": "", "": "",
		"\n": "", "a\nb": "", "a\x00": ""} {
		t.Run(text, func(t *testing.T) {
			os.WriteFile(path, []byte(text), 0o600)
			cfg := conf.Config{MastersLogin: conf.Login{User: "u", PasswordFile: path}}
			f, err := openFiles(cfg)
			if (err != nil) != (want == "") {
				t.Errorf("%q: %v", text, err)
			}
			if err == nil {
				if user, password := f.login("masters", cfg.MastersLogin)(); user != "u" || password != want {
					t.Errorf("%q: got %q %q", text, user, password)
				}
			}
		})
	}
}
