package quorum

import (
	"strings"
	"time"
)

// talk is the one-by-one conversation of the handshake.
type talk struct {
	c *laneConn
	r reply // the last answer
}

// renew gives the master another handshakeTimeout to answer.
func (t *talk) renew() error {
	if err := t.c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return connReason(err, handshakeTimeout)
	}
	return nil
}

func (t *talk) write(b []byte) error {
	if _, err := t.c.Write(b); err != nil {
		return connReason(err, handshakeTimeout)
	}
	return nil
}

func (t *talk) read() error {
	if err := readReply(t.c.in, &t.r); err != nil {
		return connReason(err, handshakeTimeout)
	}
	return nil
}

// ask sends a command and reads its reply into t.r.
func (t *talk) ask(args ...string) error {
	if err := t.write(appendCommand(nil, args...)); err != nil {
		return err
	}
	return t.read()
}

// must is ask for a command without which the master cannot vote: an error reply is the reason.
func (t *talk) must(args ...string) error {
	if err := t.ask(args...); err != nil {
		return err
	}
	if t.r.isError() {
		return refusal(&t.r)
	}
	return nil
}

// may is ask for a command that the master may lack or forbid; allowed says whether it did what was asked.
func (t *talk) may(args ...string) (allowed bool, err error) {
	if err := t.ask(args...); err != nil {
		return false, err
	}
	if !t.r.isError() {
		return true, nil
	}
	if t.r.forbidden() {
		return false, nil
	}
	return false, refusal(&t.r)
}

// forbidden reports whether the master lacks the command, or does not let this user have it.
func (r *reply) forbidden() bool {
	code := r.code()
	return code == "NOPERM" || code == "ERR" && strings.Contains(strings.ToLower(r.text), "unknown")
}

// refusal is the reason for an error reply in the handshake. Those that pass by themselves are tried again soon.
func refusal(r *reply) error {
	switch r.code() {
	case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "MISCONF", "OOM":
		return answered(r)
	case "WRONGPASS":
		return refusedError{errPassword}
	case "NOAUTH":
		return refusedError{errWantPassword}
	}
	if strings.HasPrefix(r.text, "ERR max number of clients") {
		return answered(r)
	}
	return refusedError{answered(r)}
}
