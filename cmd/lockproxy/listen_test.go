package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/conf"
)

func listenOn(t *testing.T, cfg conf.Config, addresses ...conf.Address) ([]net.Listener, error) {
	t.Helper()
	cfg.Listen = addresses
	listeners, err := listenAll(t.Context(), cfg)
	t.Cleanup(func() { closeAll(listeners) })
	return listeners, err
}

func TestUnixListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	address := conf.Address{Network: "unix", Addr: path}
	listeners, err := listenOn(t, conf.Config{}, address)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want a socket for this user only", info, err)
	}
	if _, err := listenOn(t, conf.Config{}, address); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("twice: %v", err)
	}
	listeners[0].(*net.UnixListener).SetUnlinkOnClose(false)
	listeners[0].Close() // as after a crash
	if _, err := os.Stat(path); err != nil {
		t.Fatal("no stale socket to test with")
	}
	if listeners, err = listenOn(t, conf.Config{}, address); err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	listeners[0].Close()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenOn(t, conf.Config{}, address); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if content, _ := os.ReadFile(path); string(content) != "precious" {
		t.Error("the file is gone")
	}
}

func TestListenAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := filepath.Join(t.TempDir(), "s")
	_, err = listenOn(t, conf.Config{}, conf.Address{Network: "unix", Addr: path}, conf.Address{Network: "tcp", Addr: taken.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "address already in use") || strings.Count(err.Error(), taken.Addr().String()) != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the first listener is left open")
	}
}

func TestTLSListener(t *testing.T) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, _ := x509.MarshalPKCS8PrivateKey(key)
	dir := t.TempDir()
	cfg := conf.Config{TLSCert: filepath.Join(dir, "cert"), TLSKey: filepath.Join(dir, "key")}
	os.WriteFile(cfg.TLSCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	os.WriteFile(cfg.TLSKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyBytes}), 0o600)
	listeners, err := listenOn(t, cfg, conf.Address{Network: "tcp", Addr: "127.0.0.1:0", TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := listeners[0].Accept()
		if err == nil {
			io.WriteString(conn, "+hello\r\n")
			conn.Close()
		}
	}()
	certificate, _ := x509.ParseCertificate(der)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	conn, err := tls.Dial("tcp", listeners[0].Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, _ := io.ReadAll(conn); string(got) != "+hello\r\n" {
		t.Errorf("got %q", got)
	}
	cfg.TLSKey = cfg.TLSCert
	if _, err := listenOn(t, cfg, conf.Address{Network: "tcp", Addr: "127.0.0.1:0", TLS: true}); err == nil || !strings.Contains(err.Error(), "tls-key") {
		t.Errorf("a wrong key: %v", err)
	}
}

func TestNoticeNamesWhereToType(t *testing.T) {
	var b bytes.Buffer
	listeners, err := listenOn(t, conf.Config{}, conf.Address{Network: "tcp", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	writeNotice(&b, listeners[0])
	_, port, _ := net.SplitHostPort(listeners[0].Addr().String())
	for _, want := range []string{"for trying out", "gone when it ends", "redis-cli -p " + port + " LOCK job 5000", "--masters", "--help"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the notice lacks %q:\n%s", want, b.String())
		}
	}
}

func TestOpenToOthers(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true, ":0": true} {
		listeners, err := listenOn(t, conf.Config{}, conf.Address{Network: "tcp", Addr: address})
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		if got := openToOthers(listeners) != nil; got != want {
			t.Errorf("%s: got %v", address, got)
		}
		if bound := listeners[0].Addr().(*net.TCPAddr); address == "0.0.0.0:0" && bound.IP.To4() == nil {
			t.Errorf("%s is open as %s", address, bound)
		}
	}
}
