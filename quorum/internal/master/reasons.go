package master

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/wire"
)

// Reasons why a master gives no answer that counts: plain words that follow its name.
var (
	ErrClosing = errors.New("is no longer asked, lockproxy is stopping")
	// ErrFull: the lane takes no more acquires for now, or no more operations at all.
	ErrFull = errors.New("has too many commands unanswered")

	errConnecting   = errors.New("has not been reached yet")
	errProbing      = errors.New("has just been reached")
	errNoRecord     = errors.New("does not tell its record")
	errPassword     = errors.New("says wrong password")
	errWantPassword = errors.New("wants a password")
	errOtherServer  = errors.New("is another server now")
	errNotAdmitted  = errors.New("has lost its record")
	errTooLate      = errors.New("got the command too late")
	errStepped      = errors.New("has stepped its clock")
	errStale        = fmt.Errorf("has an admission that was not confirmed for %v", admission.MaxAge)
)

// SilentError is the reason of a master that gave no answer in that time.
type SilentError time.Duration

// Error is the reason in words.
func (e SilentError) Error() string { return "gave no answer in " + time.Duration(e).String() }

// AnswerError is an error reply of a master.
type AnswerError struct {
	Text string // made plain
}

// Error is the reason in words.
func (e *AnswerError) Error() string { return `answered "` + e.Text + `"` }

// refusedError marks a reason that only the operator can end. The lane tries again slowly.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// Answered turns an error reply, or one of an unexpected form, into a reason.
func Answered(r *wire.Reply) error {
	switch {
	case r.Code() == wire.CodeNotAdmitted:
		return errNotAdmitted
	case r.Code() == wire.CodeTooLate:
		return errTooLate
	case r.IsError():
		return &AnswerError{plain.Short(r.Text)}
	}
	return &AnswerError{"an unexpected reply"}
}

// Reason turns an error of a connection to a master into a reason. waited is the time that it
// names if that timed out. The reason names no address because clients may not be meant to see
// one.
func Reason(err error, waited time.Duration) error {
	if errors.Is(err, wire.ErrUnparsable) {
		return err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		if dns.IsNotFound {
			return errors.New("has an unknown host name")
		}
		return errors.New("has a host name that cannot be looked up")
	}
	if reason := tlsReason(err); reason != "" {
		return errors.New(reason)
	}
	netErr, ok := errors.AsType[net.Error](err)
	switch {
	case isAny(err, os.ErrDeadlineExceeded, context.DeadlineExceeded, syscall.ETIMEDOUT), ok && netErr.Timeout():
		return SilentError(waited)
	case plain.Refused(err):
		return errors.New("refused the connection")
	case plain.Reset(err), isAny(err, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, io.ErrClosedPipe):
		return errors.New("closed the connection")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errors.New("cannot be reached: " + errno.Error())
	}
	return errors.New("cannot be reached") // any other text may name hosts
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// tlsReason describes a TLS error without the names in certificates; empty for other errors.
func tlsReason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert, whose type is not exported
		return "refused TLS: " + plain.Short(strings.TrimPrefix(op.Err.Error(), "tls: "))
	}
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case isA[tls.RecordHeaderError](err):
		return "does not speak TLS"
	case isA[x509.HostnameError](err):
		return "has a certificate for another name"
	case isA[x509.UnknownAuthorityError](err):
		return "has a certificate of an unknown authority"
	case invalid.Reason == x509.Expired:
		return "has a certificate that is expired or not valid yet"
	case isA[*tls.CertificateVerificationError](err):
		return "has a certificate that is not valid"
	}
	return ""
}

func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
