package commands

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/zap"

	"lockproxy/quorum"
)

// replies maps the errors of the quorum to error replies. Those with an empty text say themselves what happened.
var replies = []struct {
	err  error
	code string
	text string
}{
	{quorum.ErrNoQuorum, "NOQUORUM", ""},
	{quorum.ErrLate, "TRYAGAIN", "a majority answered, but too late: no validity was left"},
	{quorum.ErrFence, "TRYAGAIN", "the second fencing round found no majority"},
	{context.Canceled, "TRYAGAIN", "the connection is closing"},
}

// writeFailure writes the reply to a command that ended with err. Anything it does not know is an internal error, and logged.
func (h *handlers) writeFailure(c *call, err error) {
	if errors.Is(err, quorum.ErrHeld) {
		c.writeNull()
		return
	}
	for _, r := range replies {
		if !errors.Is(err, r.err) {
			continue
		}
		text := r.text
		if nq, ok := errors.AsType[*quorum.NoQuorumError](err); ok {
			text = nq.Text(h.ShowMasters)
		}
		c.WriteError(oneLine(r.code + " " + text))
		return
	}
	h.Log.Error("internal error", zap.String("command", c.name), zap.Error(err))
	c.WriteError("ERR internal")
}

// oneLine keeps text that came from elsewhere from ending the line of an error reply.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
