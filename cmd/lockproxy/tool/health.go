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
	more: `Without --ready every proxy that answers works, also one that wants a password. With --ready a
proxy relays commands as well: its upstream answers. With --ready=locks it can also grant locks: a
majority of the masters can vote. A load balancer should use --ready: a proxy that cannot grant
locks still serves all other commands.

exit codes: 0 works, 1 not ready, 64 wrong flags, 69 no answer, 77 it refuses the user
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		target := targetFlags(flags)
		ready := readyFlag(flags)
		timeout := periodFlag(flags, "timeout", 5*time.Second, "how long the answer may take")
		return func(ctx context.Context, t *invocation) int {
			ctx, cancel := within(ctx, timeout.Duration)
			defer cancel()
			return t.health(ctx, target, *ready)
		}
	},
}

// readiness is a flag without a value, or with one: --ready, --ready=locks.
type readiness string

const (
	notAsked   readiness = ""
	readyRelay readiness = "true" // as package flag sets a flag without a value
	readyLocks readiness = "locks"
)

func readyFlag(flags *flag.FlagSet) *readiness {
	r := new(readiness)
	flags.Var(r, "ready", "also check that the upstream answers; --ready=locks: and that a majority of the masters can "+
		"vote")
	return r
}

// Set implements flag.Value.
func (r *readiness) Set(s string) error {
	switch *r = readiness(s); *r {
	case readyRelay, readyLocks:
		return nil
	case "false":
		*r = notAsked
		return nil
	}
	return errors.New("want --ready or --ready=locks")
}

// String implements flag.Value.
func (r *readiness) String() string { return "" }

// IsBoolFlag lets the flag come without a value.
func (r *readiness) IsBoolFlag() bool { return true }

func (t *invocation) health(ctx context.Context, target *target, ready readiness) int {
	// the upstream answers AUTH, and a healthy proxy may have lost it
	target.nobody, target.operator = ready == notAsked, true
	c, err := t.connect(ctx, target, false)
	if err != nil {
		return t.unhealthy(err)
	}
	defer c.Close()
	if ready == notAsked {
		if _, err := c.ask(ctx, "LOCKPROXY", "HELP"); err != nil {
			return t.fail(exitUnavailable, "%v", err)
		}
		return 0
	}
	_, votes, err := askMasters(ctx, c)
	switch {
	case err != nil:
		return t.unhealthy(err)
	case ready == readyLocks && !votes.Majority():
		return t.fail(exitFailed, "less than a majority of the %d masters can vote", votes.Masters)
	}
	up, err := askUpstream(ctx, c)
	switch {
	case err != nil:
		return t.fail(exitUnavailable, "%v", err)
	case !up.OK:
		return t.fail(exitFailed, "the upstream: %s", up.Error)
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
