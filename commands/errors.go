package commands

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"go.uber.org/zap"

	"lockproxy/quorum"
)

// outcome counts how commands ended, for LOCKPROXY INFO.
type outcome int

const (
	outGranted outcome = iota
	outTaken
	outNoQuorum
	outTryAgain
	outReleased
	outNotHeld
	outExtended
	outLost
)

var outcomeNames = [...]string{"granted", "taken", "noquorum", "tryagain", "released", "not_held", "extended", "lost"}

// count notes how c ended.
func (s *Service) count(c *call, o outcome) {
	s.outcomes[o].Add(1)
	c.outcome = Outcome(outcomeNames[o])
}

// replies maps errors to error replies. ErrNoQuorum says itself what happened.
var replies = []struct {
	err  error
	code string
	text string
	how  outcome
}{
	{quorum.ErrNoQuorum, "NOQUORUM", "", outNoQuorum},
	{quorum.ErrLate, "TRYAGAIN", "a majority answered, but too late: no validity was left", outTryAgain},
	{quorum.ErrFence, "TRYAGAIN", "the second fencing round found no majority", outTryAgain},
	{quorum.ErrInvalidCursor, "ERR", "invalid cursor", outTryAgain},
	{errQueueFull, "LOCKQUEUEFULL", "max-waiters clients are waiting already", outTryAgain},
	{context.Canceled, "TRYAGAIN", "the connection is closing", outTryAgain},
}

// failureText is the error reply for err, without the leading dash.
func failureText(err error, showMasters bool) string {
	if nq, ok := errors.AsType[*quorum.NoQuorumError](err); ok {
		return oneLine("NOQUORUM " + nq.Text(showMasters))
	}
	for _, r := range replies {
		if errors.Is(err, r.err) {
			return r.code + " " + r.text
		}
	}
	return "ERR internal"
}

// writeFailure writes the reply to a command that ended with err. Anything it does not know is an internal error, and logged.
func (s *Service) writeFailure(c *call, err error) {
	if errors.Is(err, quorum.ErrHeld) || errors.Is(err, errTimeout) || errors.Is(err, errLeft) {
		s.count(c, outTaken)
		switch {
		case errors.Is(err, errTimeout):
			c.outcome = OutTimeout
		case errors.Is(err, errLeft):
			c.outcome = OutGone
		}
		c.writeNull()
		return
	}
	for _, r := range replies {
		if !errors.Is(err, r.err) {
			continue
		}
		s.count(c, r.how)
		if r.err == errQueueFull {
			c.outcome = OutQueueFull
		}
		c.writeError(failureText(err, s.now().ShowMasters))
		return
	}
	c.outcome = OutInternal
	s.o.Log.Error("internal error", zap.String("command", c.name), zap.Error(err))
	c.writeError("ERR internal")
}

// oneLine keeps text that came from elsewhere from ending the line of an error reply, and from changing how it looks.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
