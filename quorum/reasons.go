package quorum

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Reasons why a master gives no answer that counts: plain words that follow its name.
var (
	errConnecting   = errors.New("has not been reached yet")
	errClosing      = errors.New("is no longer asked, lockproxy is stopping")
	errRefusedConn  = errors.New("refused the connection")
	errClosedConn   = errors.New("closed the connection")
	errReplica      = errors.New("is a replica")
	errClusterMode  = errors.New("runs in cluster mode")
	errNotRedis     = errors.New("runs in sentinel mode")
	errNoRunID      = errors.New("has no run_id")
	errNoRole       = errors.New("does not say whether it is a replica")
	errPassword     = errors.New("says wrong password")
	errWantPassword = errors.New("wants a password")
	errUnknownHost  = errors.New("has an unknown host name")
	errNoLookup     = errors.New("has a host name that cannot be looked up")
	errNoTLS        = errors.New("does not speak TLS")
	errUntrusted    = errors.New("has a certificate of an unknown authority")
	errOtherName    = errors.New("has a certificate for another name")
	errExpired      = errors.New("has a certificate that is expired or not valid yet")
	errBadCert      = errors.New("has a certificate that is not valid")
	errOtherServer  = errors.New("is another server now")
	errLooking      = errors.New("has just been reached")
	errNotAdmitted  = errors.New("has lost its record")
	errStepped      = errors.New("has stepped its clock")
	errFull         = fmt.Errorf("has %d commands unanswered", maxUnanswered)
)

// silentError: no answer in that time.
type silentError time.Duration

func (e silentError) Error() string { return "gave no answer in " + time.Duration(e).String() }

// answerError: an error reply of a master, already made plain.
type answerError struct{ text string }

func (e *answerError) Error() string { return `answered "` + e.text + `"` }

// sameServerError: another lane reaches the same server already.
type sameServerError struct {
	index int
	name  string
}

func (e *sameServerError) Error() string { return "is the same server as " + e.name }

// refusedError marks a reason that only the operator can change: the lane is tried again slowly.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// maxReason bounds what is quoted of a server's words.
const maxReason = 160

// plain makes text fit for one line of an error reply or log: what does not print becomes a blank, length is bounded.
func plain(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
}

// answered turns an error reply into a reason.
func answered(r *reply) error {
	if r.failed != nil {
		return r.failed
	}
	if r.code() == notAdmitted {
		return errNotAdmitted
	}
	if r.isError() {
		return &answerError{plain(r.text)}
	}
	return &answerError{"an unexpected reply"}
}

// connReason turns an error of a connection into a reason; waited is how long its deadline was. It
// leaves out addresses, which a client may not be meant to see.
func connReason(err error, waited time.Duration) error {
	if errors.Is(err, errUnparsable) {
		return err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		if dns.IsNotFound {
			return errUnknownHost
		}
		return errNoLookup
	}
	if reason := tlsReason(err); reason != nil {
		return reason
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return silentError(waited)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return errRefusedConn
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errClosedConn
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return silentError(waited)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errors.New("cannot be reached: " + errno.Error())
	}
	return errors.New("cannot be reached") // any other text may name hosts
}

// tlsReason is what is wrong with TLS, without the names in certificates; nil if it is something else.
func tlsReason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert, whose type is not exported
		return errors.New("refused TLS: " + plain(strings.TrimPrefix(op.Err.Error(), "tls: ")))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errNoTLS
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return errOtherName
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errUntrusted
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return errExpired
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errBadCert
	}
	return nil
}
