package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"lockproxy/conf"
)

// files are the certificates and passwords that the settings name. The start and each reload read
// them. New connections use the latest contents.
type files struct{ current atomic.Pointer[contents] }

// contents is the result of one reading. It never changes.
type contents struct {
	text      map[string][]byte           // by setting
	server    *tls.Config                 // of rediss:// listeners; nil: none
	certs     map[string]*tls.Certificate // by setting
	pools     map[string]*x509.CertPool   // by setting
	passwords map[string]string           // by setting

	adminToken string // the setting itself
}

// openFiles reads all files of the settings.
func openFiles(cfg conf.Config) (*files, error) {
	f := &files{}
	now, err := readFiles(cfg)
	f.current.Store(now)
	return f, err
}

// reload reads the files that cfg names. If any of them is wrong, the old contents stay. changed
// names the settings whose files have new content.
func (f *files) reload(cfg conf.Config) (changed []string, err error) {
	now, err := readFiles(cfg)
	if err != nil {
		return nil, err
	}
	before := f.current.Swap(now)
	for _, name := range slices.Sorted(maps.Keys(now.text)) {
		if string(now.text[name]) != string(before.text[name]) {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// readFiles reads every file, and reports all faults by setting.
func readFiles(cfg conf.Config) (*contents, error) {
	c := &contents{text: map[string][]byte{}, certs: map[string]*tls.Certificate{}, pools: map[string]*x509.CertPool{},
		passwords: map[string]string{}, adminToken: cfg.AdminToken}
	err := errors.Join(
		c.readCert("tls-cert", cfg.TLSCert, "tls-key", cfg.TLSKey), c.readPool("tls-client-ca", cfg.TLSClientCA),
		c.readCert("upstream-tls-cert", cfg.UpstreamTLS.Cert, "upstream-tls-key", cfg.UpstreamTLS.Key),
		c.readPool("upstream-tls-ca", cfg.UpstreamTLS.CA),
		c.readCert("masters-tls-cert", cfg.MastersTLS.Cert, "masters-tls-key", cfg.MastersTLS.Key),
		c.readPool("masters-tls-ca", cfg.MastersTLS.CA),
		c.readPassword("upstream-password-file", cfg.UpstreamLogin.PasswordFile),
		c.readPassword("sentinel-password-file", cfg.SentinelLogin.PasswordFile),
		c.readPassword("masters-password-file", cfg.MastersLogin.PasswordFile),
		c.readPassword("admin-token-file", cfg.AdminTokenFile))
	if cert := c.certs["tls-cert"]; cert != nil {
		c.server = serverTLS(cert, c.pools["tls-client-ca"])
	}
	return c, err
}

// readFile reads the file of a setting. It returns nil if the setting names none.
func (c *contents) readFile(name, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, path, err)
	}
	c.text[name] = text
	return text, nil
}

func (c *contents) readCert(certName, certPath, keyName, keyPath string) error {
	cert, certErr := c.readFile(certName, certPath)
	key, keyErr := c.readFile(keyName, keyPath)
	if err := errors.Join(certErr, keyErr); err != nil || cert == nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s %s and %s %s: %w", certName, certPath, keyName, keyPath, err)
	}
	c.certs[certName] = &pair
	return nil
}

func (c *contents) readPool(name, path string) error {
	text, err := c.readFile(name, path)
	if err != nil || path == "" {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s %s: no certificate in it", name, path)
	}
	c.pools[name] = pool
	return nil
}

// readPassword reads a file of one line.
func (c *contents) readPassword(name, path string) error {
	text, err := c.readFile(name, path)
	if err != nil || path == "" {
		return err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" || strings.ContainsAny(password, "\r\n\x00") {
		return fmt.Errorf("%s %s: not one line with a password", name, path)
	}
	c.passwords[name] = password
	return nil
}

// serverTLS shows cert. With a pool it accepts only clients whose certificate one of its
// authorities signed.
func serverTLS(cert *tls.Certificate, clients *x509.CertPool) *tls.Config {
	config := &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, clients
		// a ticket would outlive the authority that let its owner in
		config.SessionTicketsDisabled = true
	}
	return config
}

// listenTLS returns the configuration of rediss:// listeners. Each handshake uses the current
// certificates.
func (f *files) listenTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return f.current.Load().server, nil
	}}
}

// clientTLS returns the TLS configuration for a connection to the rediss:// address a, or nil for
// other addresses. group says whose it is: upstream or masters. Without upstream-tls-ca or
// masters-tls-ca the system's authorities are trusted.
func (f *files) clientTLS(a conf.Address, group string, settings conf.ClientTLS) func() *tls.Config {
	if !a.TLS {
		return nil
	}
	name := settings.ServerName
	if name == "" {
		name = a.Host() // empty with Sentinels: the host that is dialled counts
	}
	return func() *tls.Config {
		now := f.current.Load()
		config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12, RootCAs: now.pools[group+"-tls-ca"]}
		if cert := now.certs[group+"-tls-cert"]; cert != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		}
		return config
	}
}

// adminToken returns the token that operators must show; "": none.
func (f *files) adminToken() string {
	now := f.current.Load()
	return cmp.Or(now.adminToken, now.passwords["admin-token-file"])
}

// login returns the credentials for servers without any in their address; nil: none.
func (f *files) login(group string, settings conf.Login) func() (user, password string) {
	if settings.PasswordFile == "" {
		return nil
	}
	return func() (string, string) { return settings.User, f.current.Load().passwords[group+"-password-file"] }
}
