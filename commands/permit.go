package commands

import (
	"context"
	"slices"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
)

// Permission knows the rights of the upstream's users.
type Permission interface {
	// MayWrite asks whether user may SET key. refusal is empty, or says in the upstream's words
	// why not. After an error, which means that the upstream cannot be asked and no earlier answer
	// is known, the user may not.
	MayWrite(ctx context.Context, user, key string) (refusal string, err error)
	// Known returns what MayWrite returns, if it is known without asking.
	Known(user, key string) (refusal string, known bool)
	// Writable returns those of keys that user may SET, in order. It returns an error if the
	// answer about any of them is missing.
	Writable(ctx context.Context, user string, keys []string) ([]string, error)
	// MayConfigure asks whether user may CONFIG SET, and otherwise is as MayWrite.
	MayConfigure(ctx context.Context, user string) (refusal string, err error)
}

// asksPermission reports whether the user of the connection needs permission for the command.
// Subcommands of LOCKPROXY need it, except those that show no locks.
func (s *Service) asksPermission(c *call) bool {
	switch {
	case s.o.Permission == nil, c.sub == help:
		return false
	case c.name == "lockproxy":
		return c.sub != "info" && c.sub != "masters" && !c.onUnixSocket()
	}
	return true
}

// checkAdmin returns an error if the command needs admin-commands and does not have them.
func (s *Service) checkAdmin(c *call) error {
	switch c.sub {
	case "locks", "release", "admit":
		if !s.now().AdminCommands && !c.onUnixSocket() {
			return denialf("NOPERM LOCKPROXY %s needs admin-commands: on, or a connection to a Unix socket of the proxy",
				strings.ToUpper(c.sub))
		}
	}
	return nil
}

// permit returns an error if the user of the connection may not use the lock: each of its keys.
// LOCKPROXY LOCKS names no key: permitted filters its locks later.
func (s *Service) permit(c *call) error {
	if err := s.checkAdmin(c); err != nil {
		return err
	}
	if !s.asksPermission(c) {
		return nil
	}
	user := c.session.User()
	if user == "" {
		return s.errNoUser(c)
	}
	switch c.sub {
	case "admit":
		return s.refusalOf(s.o.Permission.MayConfigure(c.session.Context(), user))
	case "locks":
		return nil
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
	if !known && c.onLoop {
		return errMustAsk
	}
	return s.refusalOf(refusal, err)
}

// refusalOf returns the reply to an answer of Permission, or nil if it permits.
func (s *Service) refusalOf(refusal string, err error) error {
	switch {
	case err != nil:
		return denialf("NOPERM lock-acl: %s", plain.Line(s.o.Reason(err)))
	case refusal != "":
		return denial("NOPERM " + plain.Line(refusal))
	}
	return nil
}

// permitted returns the locks in found whose keys the user of the connection may SET.
func (s *Service) permitted(c *call, found []quorum.Info) ([]quorum.Info, error) {
	if !s.asksPermission(c) {
		return found, nil
	}
	keys := make([]string, len(found))
	for i, info := range found {
		keys[i] = s.o.KeyPrefix + info.Key
	}
	may, err := s.o.Permission.Writable(c.session.Context(), c.session.User(), keys)
	if err != nil {
		return nil, s.refusalOf("", err)
	}
	return slices.DeleteFunc(found, func(info quorum.Info) bool { // both are in the same order
		if len(may) == 0 || may[0] != s.o.KeyPrefix+info.Key {
			return true
		}
		may = may[1:]
		return false
	}), nil
}

// errNoUser is the reply where permission depends on the user, whom the upstream does not name. It
// may do so later: when the right was given, or a script that kept it busy has ended.
func (s *Service) errNoUser(c *call) error {
	c.session.AskAgain()
	return denialf("NOPERM the upstream does not say who is logged in, for which a user needs the right +acl|whoami: %s",
		plain.Line(c.session.WhyNoUser()))
}

// permitAgain asks again after a wait: the user may have lost the right meanwhile. It takes the
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
