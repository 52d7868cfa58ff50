package commands

import (
	"context"
	"slices"
	"strings"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/resp"
)

// Rights knows the rights of the upstream's users.
type Rights interface {
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

// permissions decide whether a client may run a command. They alone ask Rights.
type permissions struct{ *sharedOptions }

const errNoAuth = denial("NOAUTH Authentication required.")

// authenticate returns an error if the upstream wants a login and the connection has none.
// LOCKPROXY on a Unix socket needs no login, so that operators can use it while the upstream is
// down.
func (p *permissions) authenticate(c *call) error {
	if c.session.Authenticated() || c.name == "lockproxy" && c.onUnixSocket() {
		return nil
	}
	if c.session.Refused() && c.session.User() == "" {
		return p.errNoUser(c)
	}
	if c.session.Refused() {
		return errNoAuth
	}
	required, known := p.opts.Gate.Known()
	var err error
	if !known && !c.onLoop {
		required, err = p.opts.Gate.AuthRequired(c.session.Context())
	}
	switch {
	case !known && c.onLoop:
		return errMustAsk
	case err != nil: // the upstream may want a login
		return denialf("NOAUTH the upstream has not said yet whether it wants a password: %s",
			plain.Line(p.opts.Reason(err)))
	case required:
		return errNoAuth
	}
	return nil
}

// anonymous reports whether no client has logged in on the connection although the upstream wants
// a login, or the rights that lock-acl asks for depend on one. Every client of the proxy can cause
// the refusals of such a connection: for want of a login, for wrong arguments, or by lock-acl. It
// goes by the last known answers and never asks. In doubt the connection is anonymous.
func (p *permissions) anonymous(c *call) bool {
	required, known := p.opts.Gate.Last()
	switch user := c.session.User(); {
	case !known || required:
		return !c.session.Authenticated() || c.session.MayBeGuest()
	case p.opts.Permission != nil:
		return user == "" || user == resp.DefaultUser
	}
	return false
}

// asksPermission reports whether the user of the connection needs permission for the command.
// Subcommands of LOCKPROXY need it, except HELP, INFO and MASTERS.
func (p *permissions) asksPermission(c *call) bool {
	switch {
	case p.opts.Permission == nil, c.sub == help:
		return false
	case c.name == "lockproxy":
		return c.sub != "info" && c.sub != "masters" && !c.onUnixSocket()
	}
	return true
}

// checkAdmin returns an error if the command needs admin-commands and does not have them.
func (p *permissions) checkAdmin(c *call) error {
	switch c.sub {
	case "locks", "waiters", "why", "release", "admit", infoAdopt:
		if !p.now().AdminCommands && !c.onUnixSocket() {
			return denialf("NOPERM LOCKPROXY %s needs admin-commands: on, or a connection to a Unix socket of the proxy",
				strings.ToUpper(c.sub))
		}
	}
	return nil
}

// permit returns an error if the user of the connection may not use the lock: each of its keys.
// LOCKPROXY LOCKS names no key: permitted filters its locks later.
func (p *permissions) permit(c *call) error {
	if err := p.checkAdmin(c); err != nil {
		return err
	}
	if !p.asksPermission(c) {
		return nil
	}
	user := c.session.User()
	if user == "" {
		return p.errNoUser(c)
	}
	switch c.sub {
	case "admit":
		return p.refusalOf(p.opts.Permission.MayConfigure(c.session.Context(), user))
	case "locks", infoAdopt:
		return nil
	}
	err := p.permitKey(c, user, c.key)
	for i := 0; err == nil && i < len(c.keys); i++ {
		err = p.permitKey(c, user, c.keys[i])
	}
	return err
}

// permitKey returns an error if user may not lock key.
func (p *permissions) permitKey(c *call, user, key string) error {
	key = p.opts.KeyPrefix + key
	refusal, known := p.opts.Permission.Known(user, key)
	var err error
	if !known && !c.onLoop {
		refusal, err = p.opts.Permission.MayWrite(c.session.Context(), user, key)
	}
	if !known && c.onLoop {
		return errMustAsk
	}
	return p.refusalOf(refusal, err)
}

// refusalOf returns the reply to an answer of Rights, or nil if it permits.
func (p *permissions) refusalOf(refusal string, err error) error {
	switch {
	case err != nil:
		return denialf("NOPERM lock-acl: %s", plain.Line(p.opts.Reason(err)))
	case refusal != "":
		return denial("NOPERM " + plain.Line(refusal))
	}
	return nil
}

// permitted returns the locks in found whose keys the user of the connection may SET.
func (p *permissions) permitted(c *call, found []quorum.Info) ([]quorum.Info, error) {
	if !p.asksPermission(c) {
		return found, nil
	}
	keys := make([]string, len(found))
	for i, info := range found {
		keys[i] = p.opts.KeyPrefix + info.Key
	}
	may, err := p.opts.Permission.Writable(c.session.Context(), c.session.User(), keys)
	if err != nil {
		return nil, p.refusalOf("", err)
	}
	return slices.DeleteFunc(found, func(info quorum.Info) bool { // both are in the same order
		if len(may) == 0 || may[0] != p.opts.KeyPrefix+info.Key {
			return true
		}
		may = may[1:]
		return false
	}), nil
}

// errNoUser is the reply where permission depends on the user, whom the upstream does not name. It
// may do so later: when the right was given, or a script that kept it busy has ended.
func (p *permissions) errNoUser(c *call) error {
	c.session.AskAgain()
	return denialf("NOPERM the upstream does not say who is logged in, for which a user needs the right +acl|whoami: %s",
		plain.Line(c.session.WhyNoUser()))
}

// permitAgain asks again after a wait: the user may have lost the right meanwhile. It takes the
// time for that off the validity. If the lock must not be granted, it releases the lock, writes
// the reply and returns false.
func (l *lockCommands) permitAgain(c *call, lease *quorum.Lease) bool {
	if !l.permissions.asksPermission(c) {
		return true
	}
	start := time.Now()
	err := l.permissions.permit(c)
	if lease.Validity -= time.Since(start); err == nil && lease.Validity > 0 {
		return true
	}
	l.giveBack(&c.args, lease.Token)
	if err == nil {
		l.outcomes.writeFailure(c, quorum.ErrLate)
		return false
	}
	c.refuse(err)
	return false
}
