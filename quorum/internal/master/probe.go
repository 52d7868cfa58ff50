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

// Probe makes the lane probe its master, unless it does so already.
func (l *Lane) Probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probeLocked()
}

func (l *Lane) probeLocked() {
	if l.up && !l.probing {
		l.probing = true
		select {
		case l.wanted <- struct{}{}:
		default:
		}
	}
}

// ping measures the way to the master. An error says that the connection is dead.
func (l *Lane) ping(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	began := time.Now()
	err := l.ask(ctx, c, question{try, []string{"PING"}, nil})
	if err == nil {
		rtt := time.Since(began)
		l.mu.Lock()
		l.status.RTT = rtt
		l.pace.pong(rtt, l.clock())
		l.mu.Unlock()
		l.cfg.Host.Ponged(l.cfg.Index, rtt)
	}
	return err
}

// infos ask for INFO by sections: the whole of it can be megabytes, and Redis 6 takes one at a
// time.
func infos(n need, f *admission.Facts) (all []question) {
	for _, section := range admission.InfoSections {
		all = append(all, question{n, []string{"INFO", section}, func(r *wire.Reply) error {
			if !r.IsError() {
				f.ReadInfo(r.Text)
			}
			return nil
		}})
	}
	return all
}

// settings asks what CONFIG says of the append-only file, where there is one.
func settings(f *admission.Facts) []question {
	if !f.AOF || f.NotAsked {
		return nil
	}
	return []question{{try, []string{"CONFIG", "GET", "*append*"}, func(r *wire.Reply) error {
		pairs := make([]string, len(r.Elems))
		for i := range r.Elems {
			pairs[i] = r.Elems[i].Text
		}
		f.ReadConfig(pairs, r.Kind == '*', forbidden(r))
		return nil
	}}}
}

// probe asks the master what it is and which record it has, and tells the host. The error ends the
// connection: it is dead, or leads to another server now, or to one that must not vote.
func (l *Lane) probe(ctx context.Context, c *conn, served bool) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	l.mu.Lock()
	l.probing = true
	f, untried := l.facts, l.untried
	l.mu.Unlock()
	began := time.Now()
	// A probe is rare, so it always brings the body of its script. The host is told by whoever
	// reads the connection: what it hears of changes to the record comes in the order of the
	// answers.
	var rights trial
	script := question{try, []string{"EVAL", wire.Probe.Body, "1", l.cfg.Encoder.StateKey}, func(r *wire.Reply) error {
		note(&rights.lacks, r, reserved)
		if len(rights.lacks) > 0 {
			return l.withoutRights(rights.lacks...)
		}
		if untried {
			l.tried(&rights)
		}
		found, ok, err := l.observe(c, &f, r, began)
		switch {
		case err != nil:
			l.fail(c, err)
			return err
		case ok:
			l.cfg.Host.Observed(l.cfg.Index, found)
		case served: // the next probe may do better
		case r.IsError():
			return l.refusal(r)
		default:
			return refusedError{errNoRecord}
		}
		return nil
	}}
	questions := append(infos(try, &f), settings(&f)...)
	if untried {
		questions = append(questions, rights.questions(l.cfg.KeyPrefix)...)
	}
	return l.ask(ctx, c, append(questions, script)...)
}

// observe makes an observation of what a probe has found; ok is false without a record. The error
// says that the connection leads to no master of ours any more.
func (l *Lane) observe(c *conn, f *admission.Facts, record *wire.Reply, began time.Time) (o admission.Observation, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probing = false
	if l.facts.RunID != f.RunID {
		return o, false, errOtherServer
	}
	l.facts = *f
	l.watchRoleLocked(f)
	if refused := f.Refusal(); refused != nil {
		return o, false, refusedError{refused}
	}
	if record.IsError() {
		l.countErrorLocked(record)
	}
	said, ok := wire.ParseProbe(record)
	if !ok {
		return o, false, nil
	}
	sent, now := began.Sub(l.cfg.Start), time.Now()
	l.watchClockLocked(sent, now.Sub(l.cfg.Start), said.Clock)
	l.asleep = clock.Suspended()
	return admission.Observation{Conn: c.number, Sent: began, At: now, Facts: *f, ProbeReply: said,
		Stepped: l.stepped, Demoted: l.demoted == f.RunID}, true, nil
}

// watchRoleLocked remembers that a server has been a replica: it may have thrown away what its
// master did not have, and come back with the same record.
func (l *Lane) watchRoleLocked(f *admission.Facts) {
	if f.RunID != "" && f.Role != "" && f.Role != "master" {
		l.demoted = f.RunID
	}
}

// oldestTested is the oldest Redis that the scripts and the lane are tried on.
var oldestTested = [2]int{6, 0}

// describe logs what kind of server a master is, and what that means for locks: once for each run
// of it.
func (l *Lane) describe(f *admission.Facts) {
	log, fields := l.cfg.Log, []zap.Field{l.master(), zap.String("version", f.Software())}
	if f.Version != "" && olderThan(f.Version, oldestTested) {
		log.Warn("master runs a Redis older than lockproxy is tested with", fields...)
	}
	if f.MayEvict() {
		log.Warn("master has a memory limit and may evict locks: set maxmemory-policy noeviction",
			l.master(), zap.String("maxmemory_policy", f.Policy))
	}
	text := "master reached"
	switch {
	case l.cfg.Unguarded:
	case f.Durable():
		text += ": every write is on disk before its reply, after a restart it votes at once"
	case f.AOF && f.NotAsked:
		text += ": its persistence cannot be asked for (CONFIG GET is refused), after a restart it does not vote for max-ttl"
	default:
		text += ": a restart may lose locks, after one it does not vote for max-ttl"
	}
	log.Info(text, append(fields, zap.Duration("max_ttl", l.cfg.MaxTTL))...)
}

// olderThan compares "7.0.15" with a major and a minor number.
func olderThan(version string, than [2]int) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err == nil && err2 == nil && (a < than[0] || a == than[0] && b < than[1])
}
