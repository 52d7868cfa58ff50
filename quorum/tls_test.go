package quorum

import (
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
)

// tlsFront serves TLS in front of a server, with a certificate for 127.0.0.1, and returns the pool that trusts it.
func tlsFront(t *testing.T, to string) (addr string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(leaf)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
	return ln.Addr().String(), roots
}

// A master behind TLS votes if its certificate is good for the host of its address, and not otherwise.
func TestTLS(t *testing.T) {
	addr, roots := tlsFront(t, startRedis(t).addr)
	good := dialQuorum(t, []string{addr}, func(o *Options) { o.Masters[0].TLS = func() *tls.Config { return &tls.Config{RootCAs: roots} } })
	mustRelease(t, good, "job", eventually(t, good, "job", time.Minute).Token)
	bad := dialQuorum(t, []string{addr}, func(o *Options) { o.Masters[0].TLS = func() *tls.Config { return &tls.Config{} } })
	if st := bad.Masters()[0]; st.State != StateDown || st.Reason == "" {
		t.Errorf("status %+v, want down: the certificate is not trusted", st)
	} else {
		t.Log(st.Reason)
	}
}
