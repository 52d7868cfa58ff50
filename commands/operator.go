package commands

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"lockproxy/stat"
)

// Release of a lock by the operators' page. It goes by the rules of LOCKPROXY RELEASE.

// notPermitted is an fs.ErrPermission in words for people.
type notPermitted string

func (r notPermitted) Error() string { return string(r) }

// Is makes errors.Is(err, fs.ErrPermission) true.
func (r notPermitted) Is(target error) bool { return target == fs.ErrPermission }

// Errors of ReleaseShown beside those of the masters. Explain returns their text.
var (
	// ErrNotAllowed means that the page may not release locks.
	ErrNotAllowed error = notPermitted("to release locks here needs admin-commands: on, " +
		"or admin-listen on a Unix socket")
	// ErrNeedsToken means that the upstream may want a password, which the page does not ask for.
	ErrNeedsToken error = notPermitted("the upstream wants a password, or does not say: " +
		"to release locks here needs an admin-token")
	// ErrChanged means that the lock has another holder than the one that was shown.
	ErrChanged = errors.New("another holds the lock now: look again")
)

// MayRelease returns ErrNotAllowed, ErrNeedsToken or nil, by the last known answer of the
// upstream. It never blocks. ReleaseShown decides.
func (o *operators) MayRelease(by stat.Operator) error {
	wantsLogin, _ := o.opts.Gate.Last()
	switch {
	case by.Unix:
		return nil
	case !o.now().AdminCommands:
		return ErrNotAllowed
	case !by.Token && wantsLogin:
		return ErrNeedsToken
	}
	return nil
}

// checkRelease is MayRelease with the present answer of the upstream. A client without the token
// counts as one that has not logged in.
func (o *operators) checkRelease(ctx context.Context, by stat.Operator) error {
	if err := o.MayRelease(by); err != nil || by.Unix || by.Token {
		return err
	}
	if required, err := o.opts.Gate.AuthRequired(ctx); required || err != nil {
		return ErrNeedsToken
	}
	return nil
}

// ReleaseShown frees the lock of key if its fence still is the one that the operator saw. With
// fence 0 it frees any lock of key. It reports whether there was such a lock. Between the check
// and the release another client may get the lock, and then loses it: the masters compare no
// fences.
func (o *operators) ReleaseShown(ctx context.Context, by stat.Operator, key string,
	fence uint64) (freed bool, err error) {
	start := time.Now()
	outcome := stat.OutcomeDenied
	if err = o.checkRelease(ctx, by); err == nil {
		freed, outcome, err = o.releaseShown(ctx, key, fence)
	}
	if err == nil {
		o.opts.Log.Info("lock released by an operator", zap.String("key", key), zap.String("via", "page"),
			zap.Stringer("client", by.Client), zap.Bool("freed", freed))
	}
	if o.opts.Report != nil {
		o.opts.Report(stat.Event{Command: "lockproxy", Sub: "release", Outcome: outcome, Key: key,
			Fence: fence, Took: time.Since(start), Client: by.Client, Via: "page"})
	}
	return freed, err
}

func (o *operators) releaseShown(ctx context.Context, key string,
	fence uint64) (bool, stat.Outcome, error) {
	if fence != 0 {
		info, err := o.opts.Inspector.Inspect(ctx, key)
		switch {
		case err != nil:
			return false, failureOutcome(err), err
		case info.Held == 0:
			return false, stat.OutcomeNotHeld, nil
		case info.Fence != fence:
			return false, stat.OutcomeNotHeld, ErrChanged
		}
	}
	freed, err := o.opts.Inspector.ReleaseKey(ctx, key)
	switch {
	case err != nil:
		return false, failureOutcome(err), err
	case !freed:
		return false, stat.OutcomeNotHeld, nil
	}
	o.queues.Wake(key)
	return true, stat.OutcomeReleased, nil
}

// failureOutcome returns the outcome of a command that ended with err.
func failureOutcome(err error) stat.Outcome {
	for _, r := range replies {
		if errors.Is(err, r.err) {
			return cmp.Or(r.outcome, stat.OutcomeInternal)
		}
	}
	return stat.OutcomeInternal
}
