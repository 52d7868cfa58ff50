package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
)

// Permission knows what the upstream's users may do.
type Permission interface {
	// MayWrite asks whether user may SET key. refusal is empty, or says in the upstream's words
	// why not. After an error, which means that the upstream cannot be asked and no earlier answer
	// is known, the user may not.
	MayWrite(ctx context.Context, user, key string) (refusal string, err error)
	// Known returns what MayWrite returns, if it is known without asking.
	Known(user, key string) (refusal string, known bool)
}

// asksPermission reports whether the user of the connection needs permission for the command.
// LOCKPROXY needs none: admin-commands restricts it. LOCK HELP needs none.
func (s *Service) asksPermission(c *call) bool {
	return s.o.Permission != nil && c.name != "lockproxy" && c.sub != help
}

// permit returns an error if the user of the connection may not use the lock: each of its keys.
func (s *Service) permit(c *call) error {
	if !s.asksPermission(c) {
		return nil
	}
	user := c.session.User()
	if user == "" {
		return s.errNoUser(c)
	}
	err := s.permitKey(c, user, c.key)
	for i := 0; err == nil && i < len(c.keys); i++ {
		err = s.permitKey(c, user, c.keys[i])
	}
	return err
}

// permitKey returns an error if user may not lock key.
func (s *Service) permitKey(c *call, user, key string) error {
	key = s.o.KeyPrefix + key
	refusal, known := s.o.Permission.Known(user, key)
	var err error
	if !known && !c.onLoop {
		refusal, err = s.o.Permission.MayWrite(c.session.Context(), user, key)
	}
	switch {
	case !known && c.onLoop:
		return errMustAsk
	case err != nil:
		return fmt.Errorf("NOPERM lock-acl: %s", plain.Line(s.o.Reason(err)))
	case refusal != "":
		return errors.New("NOPERM " + plain.Line(refusal))
	}
	return nil
}

// errNoUser is the reply where permission depends on the user, whom the upstream does not name. It
// may do so later: when the right was given, or a script that kept it busy is over.
func (s *Service) errNoUser(c *call) error {
	c.session.AskAgain()
	return fmt.Errorf("NOPERM the upstream does not say who is logged in, for which a user needs the right +acl|whoami: %s", plain.Line(c.session.WhyNoUser()))
}

// permitAgain asks again after a wait, as the user may have lost the right meanwhile. It takes the
// time for that off the validity. If the lock must not be granted, it releases the lock, writes
// the reply and returns false.
func (s *Service) permitAgain(c *call, lease *quorum.Lease) bool {
	if !s.asksPermission(c) {
		return true
	}
	start := time.Now()
	err := s.permit(c)
	if lease.Validity -= time.Since(start); err == nil && lease.Validity > 0 {
		return true
	}
	s.giveBack(&c.args, lease.Token)
	if err == nil {
		s.writeFailure(c, quorum.ErrLate)
		return false
	}
	c.refuse(err)
	return false
}
