package master

import (
	"strings"

	"lockproxy/quorum/internal/wire"
)

// handshakeCommand is a command of a handshake or a probe.
type handshakeCommand struct {
	need need
	args []string
	take func(r *wire.Reply) error // processes the reply on the reading goroutine; may be nil
}

// need says what an error reply to a command means.
type need uint8

const (
	must need = iota // it is the reason why the master cannot vote
	may              // so it is, unless the master lacks the command or forbids it
	try              // ignored
)

func (c *handshakeCommand) answered(o *Options, r *wire.Reply) error {
	switch {
	case r.IsError() && (c.need == must || c.need == may && !forbidden(r)):
		return refusal(o, r)
	case c.take == nil:
		return nil
	}
	return c.take(r)
}

// forbidden reports whether the master lacks the command, or does not let this user have it.
func forbidden(r *wire.Reply) bool {
	code := r.Code()
	return code == codeNoPerm || code == "ERR" && strings.Contains(strings.ToLower(r.Text), "unknown")
}
