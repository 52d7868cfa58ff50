package commands

import (
	"cmp"
	"strings"
	"time"

	"lockproxy/stat"
)

// refusedAs returns the outcome of a command that did not run, by its reply.
func refusedAs(err error) stat.Outcome {
	if text := err.Error(); strings.HasPrefix(text, "NOAUTH ") || strings.HasPrefix(text, "NOPERM ") {
		return stat.OutcomeDenied
	}
	return stat.OutcomeInvalid
}

// report reports c, which has been answered.
func (s *Service) report(c *call) {
	if s.o.Report == nil {
		return
	}
	d := stat.Event{Command: c.name, Sub: c.sub, Outcome: cmp.Or(c.outcome, stat.OutcomeInternal), Key: c.key, Owner: c.owner, Fence: c.token.Fence, TTL: c.ttl, Wait: c.wait,
		Session: c.args.session, Took: time.Since(c.start), Held: c.held, User: c.user, Client: c.session.RemoteAddr()}
	s.o.Report(d)
}

// reportUndelivered reports that a granted lock was released, as its reply could not be delivered.
func (s *Service) reportUndelivered(c *call) {
	if s.o.Report == nil {
		return
	}
	s.o.Report(stat.Event{Command: "lock", Outcome: stat.OutcomeUndelivered, Key: c.key, Owner: c.owner, Fence: c.token.Fence, TTL: c.ttl, Wait: c.wait,
		Session: c.args.session, User: "", Client: c.session.RemoteAddr()})
}
