package master

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The reasons that clients see, with show-masters off, too, contain no host, no address and no
// name of a certificate.
func TestConnReason(t *testing.T) {
	op := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}, Err: err}
	}
	wrap := func(err error) error {
		return fmt.Errorf("TLS handshake: %w", &tls.CertificateVerificationError{Err: err})
	}
	cert := &x509.Certificate{DNSNames: []string{"secret-host"}}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"refused":  {op(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "refused the connection"},
		"no route": {op(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "cannot be reached: no route to host"},
		"socket": {op(&fs.PathError{Op: "open", Path: "/run/secret-host", Err: syscall.EACCES}),
			"cannot be reached: permission denied"},
		"unknown": {op(&net.DNSError{Name: "secret-host", Server: "10.0.0.53:53", Err: "no such host",
			IsNotFound: true}), "has an unknown host name"},
		"dns failed": {op(&net.DNSError{Name: "secret-host", Server: "10.0.0.53:53", Err: "server misbehaving",
			IsTemporary: true}), "has a host name that cannot be looked up"},
		"dns timed out": {op(&net.DNSError{Name: "secret-host", Err: "i/o timeout", IsTimeout: true}),
			"gave no answer in 1s"},
		"bad address": {op(&net.AddrError{Err: "missing port", Addr: "secret-host"}), "cannot be reached"},
		"other name": {wrap(x509.HostnameError{Certificate: cert, Host: "secret-host"}),
			"has a certificate for another name"},
		"untrusted": {wrap(x509.UnknownAuthorityError{Cert: cert}), "has a certificate of an unknown authority"},
		"expired": {wrap(x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired, Detail: "secret-host"}),
			"has a certificate that is expired or not valid yet"},
		"not valid": {wrap(x509.CertificateInvalidError{Cert: cert, Reason: x509.NameMismatch, Detail: "secret-host"}),
			"has a certificate that is not valid"},
		"no TLS": {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
			"does not speak TLS"},
		"alert": {&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")},
			"refused TLS: certificate required"},
		"anything": {errors.New("something about secret-host"), "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Reason(c.err, time.Second).Error()
			if got != c.want || strings.Contains(got, "secret") || strings.Contains(got, "10.0.0") {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		})
	}
}
