package commands

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"go.uber.org/zap"

	"lockproxy/commands/internal/queue"
	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// infoCounters are the counters of LOCKPROXY INFO: a name, and the outcomes that count there.
var infoCounters = []struct {
	name string
	of   []stat.Outcome
}{
	{"granted", []stat.Outcome{stat.OutcomeGranted}},
	{"taken", []stat.Outcome{stat.OutcomeTaken, stat.OutcomeTimeout, stat.OutcomeGone}},
	{"noquorum", []stat.Outcome{stat.OutcomeNoQuorum}},
	{"tryagain", []stat.Outcome{stat.OutcomeTryAgain, stat.OutcomeQueueFull}},
	{"released", []stat.Outcome{stat.OutcomeReleased}},
	{"not_held", []stat.Outcome{stat.OutcomeNotHeld}},
	{"extended", []stat.Outcome{stat.OutcomeExtended}},
	{"lost", []stat.Outcome{stat.OutcomeLost}},
}

// outcomes counts and reports how commands end, and writes the replies of failed ones.
type outcomes struct {
	*sharedOptions
	counters map[stat.Outcome]*atomic.Uint64 // see infoCounters
}

// newOutcomes returns outcomes with a counter for each that LOCKPROXY INFO counts.
func newOutcomes(s *sharedOptions) *outcomes {
	counters := map[stat.Outcome]*atomic.Uint64{}
	for _, c := range infoCounters {
		n := new(atomic.Uint64)
		for _, outcome := range c.of {
			counters[outcome] = n
		}
	}
	return &outcomes{s, counters}
}

// count sets the outcome of c and counts it, if LOCKPROXY INFO counts such.
func (o *outcomes) count(c *call, outcome stat.Outcome) {
	if n := o.counters[outcome]; n != nil {
		n.Add(1)
	}
	c.outcome = outcome
}

// replies maps errors to replies. An entry without a code means null; one without a text has
// that of the error. ErrNoQuorum has its own.
var replies = []struct {
	err     error
	code    string
	text    string
	outcome stat.Outcome
}{
	{quorum.ErrHeld, "", "", stat.OutcomeTaken},
	{queue.ErrTimeout, "", "", stat.OutcomeTimeout},
	{queue.ErrDisconnected, "", "", stat.OutcomeGone},
	{quorum.ErrNoQuorum, "NOQUORUM", "", stat.OutcomeNoQuorum},
	{quorum.ErrBusy, "TRYAGAIN", "", stat.OutcomeTryAgain},
	{quorum.ErrEnding, "TRYAGAIN", "", stat.OutcomeTryAgain},
	{quorum.ErrLate, "TRYAGAIN", "a majority answered, but too late: no validity was left", stat.OutcomeTryAgain},
	{quorum.ErrFence, "TRYAGAIN", "the second fencing round found no majority", stat.OutcomeTryAgain},
	{quorum.ErrInvalidCursor, "ERR", "invalid cursor", stat.OutcomeTryAgain},
	{quorum.ErrWrongMode, "ERR", "a lock with LIMIT cannot become SHARED", stat.OutcomeInvalid},
	{queue.ErrDraining, "TRYAGAIN", "the proxy is ending", stat.OutcomeTryAgain},
	{queue.ErrFull, "LOCKQUEUEFULL", "max-waiters clients are waiting already", stat.OutcomeQueueFull},
	{context.Canceled, "TRYAGAIN", "the connection is closing", stat.OutcomeTryAgain},
}

// failureText returns the error reply for err, without the leading dash.
func failureText(err error, showMasters bool) string {
	if nq, ok := errors.AsType[*quorum.NoQuorumError](err); ok {
		return plain.Line("NOQUORUM " + nq.Text(showMasters))
	}
	for _, r := range replies {
		if errors.Is(err, r.err) {
			return r.code + " " + cmp.Or(r.text, err.Error())
		}
	}
	return "ERR internal"
}

// writeFailure writes the reply to a command that ended with err. It logs an error that replies
// does not list, and replies an internal error.
func (o *outcomes) writeFailure(c *call, err error) {
	for _, r := range replies {
		if !errors.Is(err, r.err) {
			continue
		}
		o.count(c, r.outcome)
		if r.code == "" {
			c.writeNull()
		} else {
			c.writeError(failureText(err, o.now().ShowMasters))
		}
		return
	}
	c.outcome = stat.OutcomeInternal
	o.opts.Log.Error("internal error", zap.String("command", c.name), zap.Error(err))
	c.writeError("ERR internal")
}
