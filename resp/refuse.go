package resp

import (
	"bytes"
	"io"
	"lockproxy/resp/internal/scan"
	"slices"

	"github.com/tidwall/redcon"
)

// refusedAtOnce is how many requests are answered with one write.
const refusedAtOnce = 500

// refuse answers n requests that cannot be forwarded.
func (s *Session) refuse(n int64) {
	line := redcon.AppendError(nil, "ERR upstream "+s.srv.o.UpstreamName+": "+s.srv.o.DialReason(s.failed))
	for ; n > 0; n -= refusedAtOnce { // in pieces: it may be much more than the client has sent
		s.out.reply(bytes.Repeat(line, int(min(n, refusedAtOnce))))
	}
}

// malform is called where the client's bytes are no requests any more. The upstream gets them all
// and says so itself, then it closes; if it must not see them, or cannot be reached, we do. It
// returns what own is from here on.
func (s *Session) malform(own int) int {
	if s.req.Strict || s.failed != nil {
		s.step = stepRefuse
		return own
	}
	if own < 0 && s.req.Kind == scan.KindLock && len(s.req.Argv) > 0 { // it broke off inside one whose beginning was kept back
		s.unsent = slices.Concat(s.unsent, appendCommand(nil, s.req.Argv, int(s.req.Args)))
	}
	s.proto.Expect(1)
	s.opaque, s.malformed = true, true
	return -1
}

// refuseRest ends the connection with Redis' words for what is wrong with the client's bytes,
// after the replies that are still due.
func (s *Session) refuseRest() error {
	if s.up != nil && s.failed == nil && !s.proto.Garbled() {
		if _, err := s.ask(); err != nil {
			return err
		}
	}
	if s.req.Why != "" {
		s.out.reply(redcon.AppendError(nil, "ERR Protocol error: "+s.req.Why))
	}
	return io.EOF
}
