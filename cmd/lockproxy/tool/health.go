package tool

import (
	"context"
	"errors"
	"flag"
	"time"
)

var healthCommand = Subcommand{
	Name: "health",
	help: "report by the exit code whether a proxy works, for probes",
	more: `Without --ready every proxy that answers works, also one that wants a password.

exit codes: 0 works, 1 not ready, 64 wrong flags, 69 no answer, 77 it refuses the user
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		target := targetFlags(flags)
		ready := flags.Bool("ready", false, "also check that a majority of the masters can vote and the upstream answers")
		timeout := periodFlag(flags, "timeout", 5*time.Second, "how long the answer may take")
		return func(ctx context.Context, t *invocation) int {
			ctx, cancel := context.WithTimeout(ctx, timeout.Duration)
			defer cancel()
			return t.health(ctx, target, *ready)
		}
	},
}

func (t *invocation) health(ctx context.Context, target *target, ready bool) int {
	// the upstream answers AUTH, and a healthy proxy may have lost it
	target.nobody, target.operator = !ready, true
	c, err := t.connect(ctx, target, false)
	if err != nil {
		return t.unhealthy(err)
	}
	defer c.Close()
	if !ready {
		if _, err := c.ask(ctx, "LOCKPROXY", "HELP"); err != nil {
			return t.fail(exitUnavailable, "%v", err)
		}
		return 0
	}
	_, votes, err := askMasters(ctx, c)
	switch {
	case err != nil:
		return t.unhealthy(err)
	case !votes.Majority():
		return t.fail(exitFailed, "less than a majority of the %d masters can vote", votes.Masters)
	}
	up, err := askUpstream(ctx, c)
	switch {
	case err != nil:
		return t.fail(exitUnavailable, "%v", err)
	case !up.OK:
		return t.fail(exitFailed, "%s", up.Error)
	}
	return 0
}

// unhealthy returns the exit code for an error. A proxy that takes no more clients is alive, but
// not ready.
func (t *invocation) unhealthy(err error) int {
	if errors.Is(err, errFull) {
		return t.fail(exitFailed, "%v", err)
	}
	return t.fail(connectCode(err), "%v", err)
}
