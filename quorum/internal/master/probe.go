package master

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/clock"
	"lockproxy/quorum/internal/wire"
)

// ping measures the way to the master. An error says that the connection is dead.
func (s *supervisor) ping(ctx context.Context, c *conn) error {
	l := s.lane
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	began := time.Now()
	err := s.ask(ctx, c, handshakeCommand{try, []string{"PING"}, nil})
	if err == nil {
		rtt := time.Since(began)
		l.mu.Lock()
		l.status.shown.RTT = rtt
		l.pace.pong(rtt, l.cfg.clock())
		l.mu.Unlock()
		l.cfg.Host.Ponged(l.cfg.Index, rtt)
	}
	return err
}

// infos ask for INFO by sections: the whole of it can be megabytes, and Redis 6 takes one at a
// time.
func infos(n need, f *admission.ServerInfo) (all []handshakeCommand) {
	for _, section := range admission.InfoSections {
		all = append(all, handshakeCommand{n, []string{"INFO", section}, func(r *wire.Reply) error {
			if !r.IsError() {
				f.ReadInfo(r.Text)
			}
			return nil
		}})
	}
	return all
}

// settings asks CONFIG for the settings of the append-only file, if there is one.
func settings(f *admission.ServerInfo) []handshakeCommand {
	if !f.AOF || f.ConfigRefused {
		return nil
	}
	return []handshakeCommand{{try, []string{"CONFIG", "GET", "*append*"}, func(r *wire.Reply) error {
		pairs := make([]string, len(r.Elems))
		for i := range r.Elems {
			pairs[i] = r.Elems[i].Text
		}
		f.ReadConfig(pairs, r.Kind == '*', forbidden(r))
		return nil
	}}}
}

// probe asks the master for its facts and its record, and passes them to the host. The error ends
// the connection: it is dead, or leads to another server now, or to one that must not vote.
func (s *supervisor) probe(ctx context.Context, c *conn, served bool) error {
	l := s.lane
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	l.mu.Lock()
	l.server.probing = true
	f, untried := l.server.facts, l.server.untried
	l.mu.Unlock()
	began := time.Now()
	// A probe is rare, so it always brings the body of its script. The goroutine that reads the
	// connection calls the host, so that the host learns of changes to the record in the order of
	// the answers.
	var rights trial
	script := handshakeCommand{need: try, args: []string{"EVAL", wire.Probe.Body, "1", l.cfg.Encoder.StateKey}}
	script.take = func(r *wire.Reply) error {
		note(&rights.lacks, r, reserved)
		if len(rights.lacks) > 0 {
			return withoutRights(l.cfg.Options, rights.lacks...)
		}
		if untried {
			s.tried(&rights)
		}
		found, ok, err := s.observe(c, &f, r, began)
		switch {
		case err != nil:
			c.fail(err)
			return err
		case ok:
			l.cfg.Host.Observed(l.cfg.Index, found)
		case served: // the next probe may do better
		case r.IsError():
			return refusal(l.cfg.Options, r)
		default:
			return refusedError{errNoRecord}
		}
		return nil
	}
	commands := append(infos(try, &f), settings(&f)...)
	if untried {
		commands = append(commands, rights.commands(l.cfg.KeyPrefix)...)
	}
	return s.ask(ctx, c, append(commands, script)...)
}

// observe turns the answers to a probe into an observation; ok is false without a record. The
// error says that the connection leads to no master of ours any more.
func (s *supervisor) observe(c *conn, f *admission.ServerInfo, record *wire.Reply,
	began time.Time) (o admission.Observation, ok bool, err error) {
	l := s.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server.probing = false
	if l.server.facts.RunID != f.RunID {
		return o, false, errOtherServer
	}
	l.server.facts = *f
	l.server.noteRole(f)
	if refused := f.Refusal(); refused != nil {
		return o, false, refusedError{refused}
	}
	if record.IsError() {
		c.countErrorLocked(record)
	}
	said, ok := wire.ParseProbe(record)
	if !ok {
		return o, false, nil
	}
	sent, now := began.Sub(l.cfg.Start), time.Now()
	c.noteClockLocked(sent, now.Sub(l.cfg.Start), said.Clock)
	l.server.asleep = clock.Suspended()
	return admission.Observation{Conn: c.number, Sent: began, At: now, ServerInfo: *f, ProbeReply: said,
		Stepped: l.server.stepped, Demoted: l.server.demoted == f.RunID}, true, nil
}

// tried ends a trial that found every needed right. It logs the useful ones that are missing,
// once.
func (s *supervisor) tried(t *trial) {
	l := s.lane
	misses := strings.Join(t.misses, " ")
	l.mu.Lock()
	l.server.untried = false
	known := l.server.misses == misses
	l.server.misses = misses
	l.mu.Unlock()
	if !known && misses != "" {
		l.cfg.Log.Warn("master lacks rights: clients wait longer, or cannot lock some keys",
			l.cfg.field(), zap.String("rights", misses))
	}
}

// oldestTested is the oldest Redis that the scripts and the lane are tried on.
var oldestTested = [2]int{6, 0}

// describe logs what kind of server a master is, and what that means for locks: once for each run
// of it.
func describe(c *LaneConfig, f *admission.ServerInfo) {
	log, fields := c.Log, []zap.Field{c.field(), zap.String("version", f.Software())}
	if f.Version != "" && olderThan(f.Version, oldestTested) {
		log.Warn("master runs a Redis older than lockproxy is tested with", fields...)
	}
	if f.MayEvict() {
		log.Warn("master has a memory limit and may evict locks: set maxmemory-policy noeviction",
			c.field(), zap.String("maxmemory_policy", f.Policy))
	}
	text := "master reached"
	switch {
	case c.Unguarded:
	case f.Durable():
		text += ": every write is on disk before its reply, after a restart it votes at once"
	case f.AOF && f.ConfigRefused:
		text += ": its persistence cannot be asked for (CONFIG GET is refused), after a restart it does not vote for max-ttl"
	default:
		text += ": a restart may lose locks, after one it does not vote for max-ttl"
	}
	log.Info(text, append(fields, zap.Duration("max_ttl", c.MaxTTL))...)
}

// olderThan compares "7.0.15" with a major and a minor number.
func olderThan(version string, than [2]int) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err == nil && err2 == nil && (a < than[0] || a == than[0] && b < than[1])
}
