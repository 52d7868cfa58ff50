package quorum

import (
	"time"

	"lockproxy/quorum/internal/wire"
)

// candidate is a secret that masters have with a value.
type candidate struct {
	secret, value string
	masters       int           // that have it
	rest          time.Duration // of the promise
}

// find looks for the secret that a majority of the masters has with a value. ttl bounds how long
// it takes. Without a candidate, err is nil if provably no majority has one.
//
// A secret that fewer have is left alone. It may be of an attempt under way, of another client
// with the same value. Masters that grant later would not know of the release.
func (v *Values) find(r ValueRequest, ttl time.Duration, done func(*candidate, error)) {
	rule := func(values []wire.Inspected, t tally) verdict {
		switch most, maj := mostFound(values, r.Value).masters, majority(t.n()); {
		case most >= maj, most+t.none+t.pending < maj:
			return won
		case t.pending > 0:
			return open
		}
		return noQuorum
	}
	v.inspect(r.Key, ttl, rule, func(values []wire.Inspected, err error) {
		if c := mostFound(values, r.Value); err == nil && c.masters >= majority(len(values)) {
			done(&c, nil)
			return
		}
		done(nil, err)
	})
}

// mostFound returns the secret that most masters have with the value, any value if it is empty.
func mostFound(values []wire.Inspected, value string) (c candidate) {
	for _, t := range tallyHolders(values) {
		has, adopted := wire.ValueOf(t.Owner)
		if !adopted || t.Closed || has != value && value != "" || t.masters <= c.masters {
			continue
		}
		rest := min(t.ttl(min(majority(len(values)), t.masters)), maxMaxTTL) // no overflow
		c = candidate{secret: t.ID, value: has, masters: t.masters, rest: wire.Promised(rest)}
	}
	return c
}

// readRule decides as soon as a majority has one holder, or provably none does.
func readRule(values []wire.Inspected, t tally) verdict {
	info, most := winner(values)
	switch unknown := t.pending + t.none; {
	case info.Held > 0, most+unknown < majority(t.n()):
		return won
	case t.pending > 0:
		return open
	}
	return noQuorum
}

// inspect asks the masters for the holders of a key until rule decides, at most as long as an
// attempt with that ttl. A master without an answer counts in the tally, and has no holders.
func (v *Values) inspect(key string, ttl time.Duration, rule func([]wire.Inspected, tally) verdict,
	done func([]wire.Inspected, error)) {
	f := v.q.fleet
	v.q.calls.enter()
	op := wire.Op{Kind: wire.Inspect, TokenAt: f.tokenAt(key, Token{})}
	x := f.newBroadcast(op, nil, f.patienceFor(ttl))
	x.round.rule = func(t tally) verdict { return rule(inspected(x.round.answers), t) }
	x.decided = func(x *broadcast) {
		x.mu.Lock()
		values, verdict, err := inspected(x.round.answers), x.round.verdict, error(nil)
		if verdict != won {
			err = f.noQuorum(x.round.answers, time.Since(x.waits.begun))
		}
		x.mu.Unlock()
		done(values, err)
		v.q.calls.leave()
	}
	x.askOp(allMasters)
}

// inspected returns the holders on each master.
func inspected(answers []answer) []wire.Inspected {
	values := make([]wire.Inspected, len(answers))
	for i, a := range answers {
		if a.found != nil {
			values[i] = *a.found
		}
	}
	return values
}
