package listen

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"
	"go.uber.org/zap"

	"lockproxy/conf"
)

// headerV2 is a header of version 2 for a client at source.
func headerV2(t *testing.T, source string, command proxyproto.ProtocolVersionAndCommand) string {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", source)
	if err != nil {
		t.Fatal(err)
	}
	header := proxyproto.HeaderProxyFromAddrs(2, addr, &net.TCPAddr{IP: addr.IP, Port: 6380})
	header.Command = command
	if err := header.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("name")}}); err != nil {
		t.Fatal(err)
	}
	b, err := header.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadProxyHeader(t *testing.T) {
	sigV2 := string(proxyproto.SIGV2)
	for name, c := range map[string]struct{ header, want string }{
		"v1":              {"PROXY TCP4 192.0.2.1 198.51.100.1 56324 6380\r\n", "192.0.2.1:56324"},
		"v1, IPv6":        {"PROXY TCP6 2001:db8::1 2001:db8::2 1 6380\r\n", "[2001:db8::1]:1"},
		"v1, unknown":     {"PROXY UNKNOWN\r\n", "itself"},
		"v1, longest":     {"PROXY UNKNOWN " + strings.Repeat("f", 91) + "\r\n", "itself"},
		"v2":              {headerV2(t, "192.0.2.1:7", proxyproto.PROXY), "192.0.2.1:7"},
		"v2, IPv6":        {headerV2(t, "[2001:db8::1]:7", proxyproto.PROXY), "[2001:db8::1]:7"},
		"v2, local":       {headerV2(t, "192.0.2.1:7", proxyproto.LOCAL), "itself"},
		"v2, unspecified": {sigV2 + "\x20\x00\x00\x00", "itself"},
		"none":            {"*1\r\n$4\r\nPING\r\n", ""}, "inline": {"PING\r\n", ""}, "half": {"PROXY TCP4 1.2.3.4", ""},
		"v1, too long":       {"PROXY UNKNOWN " + strings.Repeat("f", 92) + "\r\n", ""},
		"v1, bare line feed": {"PROXY UNKNOWN\n", ""},
		"v1, no address":     {"PROXY TCP4 x 198.51.100.1 1 2\r\n", ""},
		"v1, junk":           {"PROXYjunk TCP4 1.2.3.4 1.2.3.4 1 2\r\n", ""},
		"v2, short":          {sigV2 + "\x21\x11\x00\x04abcd", ""},
		"v2, huge":           {sigV2 + "\x21\x11\xff\xff" + strings.Repeat("a", 65535), ""},
		"v2, other version":  {sigV2 + "\x31\x11\x00\x00", ""}, "almost v2": {"\r\n\r\n\x00\r\nQUIT\r", ""},
		"lower case": {"proxy UNKNOWN\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
				rest := bytes.NewReader([]byte(c.header + "*1\r\n"))
				from, err := readProxyHeader(pieces(rest))
				if got := showFrom(from, err); got != c.want {
					t.Errorf("got %q %v, want %q", got, err, c.want)
				}
				if left, _ := io.ReadAll(rest); err == nil && string(left) != "*1\r\n" {
					t.Errorf("%q is left for the client's conversation", left)
				}
			}
		})
	}
}

// showFrom returns the address in a header, "itself" for none, and an empty text for an error.
func showFrom(from net.Addr, err error) string {
	switch {
	case err != nil:
		return ""
	case from == nil:
		return "itself"
	}
	return from.String()
}

func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 198.51.100.1 56324 6380\r\n"))
	f.Add([]byte(string(proxyproto.SIGV2) + "\x21\x11\x00\x0cabcdefghijkl"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		if from, err := readProxyHeader(r); err == nil && from == nil && len(b)-r.Len() < 15 {
			t.Errorf("%q passes for a header", b)
		}
	})
}

// TestProxyHeaderIsRequired: connections without a header are closed, slow ones do not delay
// others, the rest have their client's address.
func TestProxyHeaderIsRequired(t *testing.T) {
	listeners, err := listenOn(t, Options{ProxyProtocol: true}, conf.Address{Network: "tcp", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(send string) net.Conn {
		conn, err := net.Dial("tcp", listeners[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, send)
		return conn
	}
	slow, without := dial("PROXY TC"), dial("PING\r\n")
	dial("PROXY TCP4 192.0.2.1 198.51.100.1 56324 6380\r\nrest")
	conn, err := listeners[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := make([]byte, 10)
	if n, _ := conn.Read(b); conn.RemoteAddr().String() != "192.0.2.1:56324" || string(b[:n]) != "rest" {
		t.Errorf("got %q from %s", b[:n], conn.RemoteAddr())
	}
	if _, err := without.Read(b); err == nil {
		t.Error("a connection without a header got an answer")
	}
	io.WriteString(slow, "P4 192.0.2.2 198.51.100.1 1 6380\r\n")
	if conn, err := listeners[0].Accept(); err != nil || conn.RemoteAddr().String() != "192.0.2.2:1" {
		t.Errorf("got %v %v", conn, err)
	}
	hanging := dial("PROXY")
	listeners[0].Close()
	if _, err := listeners[0].Accept(); err == nil {
		t.Error("accepts after Close")
	}
	if _, err := hanging.Read(b); err == nil {
		t.Error("Close leaves a connection open")
	}
}

func TestSlowProxyHeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		l := &proxiedListener{log: zap.NewNop(), ready: make(chan net.Conn), done: make(chan struct{})}
		start := time.Now()
		go l.readHeader(l.enter(server))
		client.Write([]byte("PROXY "))
		if _, err := client.Read(make([]byte, 1)); err != io.EOF || time.Since(start) != headerTimeout {
			t.Errorf("got %v after %v, want the end after %v", err, time.Since(start), headerTimeout)
		}
	})
}
