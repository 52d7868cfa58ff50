package commands

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"lockproxy/quorum"
	"lockproxy/stat"
)

// denial is the reply to a client that may not run the command: NOAUTH or NOPERM, and why.
type denial string

func (d denial) Error() string { return string(d) }

func denialf(format string, a ...any) error { return denial(fmt.Sprintf(format, a...)) }

// refusedAs returns the outcome of a command that did not run.
func refusedAs(err error) stat.Outcome {
	if _, denied := errors.AsType[denial](err); denied {
		return stat.OutcomeDenied
	}
	return stat.OutcomeInvalid
}

// report reports c, which has been answered.
func (o *outcomes) report(c *call) {
	if o.opts.Report == nil {
		return
	}
	e := c.event(cmp.Or(c.outcome, stat.OutcomeInternal))
	if c.adopted != nil && !c.adopted.complete(&e) {
		return
	}
	e.Sub, e.Took, e.Held, e.User, e.NoLogin = c.sub, time.Since(c.start), c.held, c.user, c.noLogin
	o.opts.Report(e)
}

// event returns the fields of an event of c that do not depend on when it is reported.
func (c *call) event(outcome stat.Outcome) stat.Event {
	e := stat.Event{Command: c.name, Outcome: outcome, Key: c.key, Keys: c.keys, Owner: c.owner,
		Fence: c.token.Fence, TTL: c.ttl, Keep: c.keep, Wait: c.wait, Session: c.args.session,
		Client: c.session.RemoteAddr()}
	if c.name == "lock" {
		e.Kind = c.kind()
	}
	return e
}

// kind is the kind of lock that LOCK asks for.
func (a *args) kind() stat.Kind {
	switch {
	case a.mode == quorum.Shared:
		return stat.KindShared
	case a.mode == quorum.Limited:
		return stat.KindLimit
	case len(a.keys) > 0:
		return stat.KindKeys
	}
	return stat.KindExclusive
}

// reportUndelivered reports that a granted lock was released because its reply could not be
// delivered.
func (o *outcomes) reportUndelivered(c *call) {
	if o.opts.Report == nil {
		return
	}
	e := c.event(stat.OutcomeUndelivered)
	if c.adopted == nil || c.adopted.complete(&e) {
		o.opts.Report(e)
	}
}
