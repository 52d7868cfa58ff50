package master

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/redistest"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// dial starts a lane to a real server, without the guard: a new server has no record.
func dial(t *testing.T, addr string, change ...func(*LaneConfig)) (*Lane, *host) {
	t.Helper()
	change = append(change, func(c *LaneConfig) { c.Unguarded = true })
	l, h := begin(t, &Options{Addr: addr}, change...)
	<-l.Ready()
	return l, h
}

// smallSocket opens a connection whose socket takes few bytes.
func smallSocket(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// TestRealServer: operations of every kind on a real Redis; what its socket does not take at once
// goes out in order, too.
func TestRealServer(t *testing.T) {
	server := redistest.StartTCP(t)
	l, _ := dial(t, server.Addr, func(c *LaneConfig) { c.Options.Dial = smallSocket })
	var c collect
	k := tokenAt("k", 1)
	for _, kind := range []wire.OpKind{wire.Acquire, wire.Raise, wire.Check, wire.Extend, wire.TopUp, wire.Inspect,
		wire.Fade, wire.Free} {
		mustAsk(t, l, op(kind, k), &c)
	}
	if err := l.Release(unlock(k), time.Minute, true, &c); err != nil {
		t.Fatal(err)
	}
	l.Flush()
	eventually(t, func() bool { return len(c.all()) == 9 })
	if got := c.all(); strings.Join(got[:3], ", ") != "acquire 1, raise 1, check 1" || got[7] != "free 1" ||
		got[8] != "release 0" {
		t.Errorf("answered %v", got)
	}

	var many collect
	const pairs = 64
	long := strings.Repeat("k", 8<<10) // 1 MB in all: more than the sockets take
	server.Pause(t)
	for i := range pairs { // quick work: after two seconds of the pause the lane would be dead
		o := op(wire.Acquire, tokenAt(fmt.Sprint(i)+long, i))
		mustAsk(t, l, o, nil)
		if err := l.Release(unlock(o.TokenAt), time.Minute, false, &many); err != nil {
			t.Fatal(err)
		}
		l.Flush()
	}
	server.Resume(t)
	eventually(t, func() bool { return len(many.all()) == pairs })
	for _, got := range many.all() {
		if got != "release 1" {
			t.Fatalf("answered %s: a release overtook its SET", got)
		}
	}
	// the counters
	if r, err := l.Call(t.Context(), wire.AppendCommand(nil, "DBSIZE")); err != nil || r.Int != 0 && r.Int != 1 {
		t.Errorf("DBSIZE %+v, %v", r, err)
	}
}

// tlsFront serves TLS in front of a server, with a certificate for 127.0.0.1, and returns the pool
// that trusts it.
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
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der},
		PrivateKey: key}}})
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

// A master with TLS votes only if its certificate is good for the host of its address.
func TestTLS(t *testing.T) {
	addr, roots := tlsFront(t, redistest.StartTCP(t).Addr)
	with := func(cfg *tls.Config) func(*LaneConfig) {
		return func(c *LaneConfig) { c.Options.TLS = func() *tls.Config { return cfg } }
	}
	l, _ := dial(t, addr, with(&tls.Config{RootCAs: roots}))
	var c collect
	mustAsk(t, l, op(wire.Acquire, tokenAt("k", 1)), &c)
	if err := l.Release(unlock(tokenAt("k", 1)), time.Minute, true, &c); err != nil {
		t.Fatal(err)
	}
	l.Flush()
	eventually(t, func() bool { return c.String() == "acquire 1, release 1" })
	bad, _ := dial(t, addr, with(&tls.Config{}))
	if s := bad.Status(); s.State != stat.StateDown || s.Reason == "" {
		t.Errorf("status %+v, want down: the certificate is not trusted", s)
	}
}
