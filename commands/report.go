package commands

import (
	"cmp"
	"strings"
	"time"

	"lockproxy/stat"
)

// refusedAs is the outcome of a command that was not run, by its reply.
func refusedAs(err error) stat.Outcome {
	if text := err.Error(); strings.HasPrefix(text, "NOAUTH ") || strings.HasPrefix(text, "NOPERM ") {
		return stat.OutcomeDenied
	}
	return stat.OutcomeInvalid
}

// report tells of c, which is over.
func (s *Service) report(c *call) {
	if s.o.Report == nil {
		return
	}
	d := stat.Event{Command: c.name, Sub: c.sub, Outcome: cmp.Or(c.outcome, stat.OutcomeInternal), Key: c.key, Owner: c.owner, Fence: c.token.Fence, TTL: c.ttl, Wait: c.wait,
		Session: c.args.session, Took: time.Since(c.start), Held: c.held, User: c.user, Client: c.session.RemoteAddr()}
	s.o.Report(d)
}

// reportUndelivered tells that a lock just granted was released again.
func (s *Service) reportUndelivered(c *call) {
	if s.o.Report == nil {
		return
	}
	s.o.Report(stat.Event{Command: "lock", Outcome: stat.OutcomeUndelivered, Key: c.key, Owner: c.owner, Fence: c.token.Fence, TTL: c.ttl, Wait: c.wait,
		Session: c.args.session, User: "", Client: c.session.RemoteAddr()})
}
