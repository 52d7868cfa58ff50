package embedded

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// queued is a command in a transaction that miniredis cannot queue. miniredis queues an ECHO in
// its place.
type queued struct {
	name  string
	args  []string
	reply string // of the ECHO, which no other reply contains
}

// queue answers +QUEUED and makes EXEC run the command.
func (s *session) queue(name string, args []string) {
	word := rand.Text()
	s.queued = append(s.queued, queued{name, args, fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)})
	s.server.srv.Dispatch(s.peer, []string{"ECHO", word})
}

// exec runs EXEC and replaces the replies of the ECHOs by those of the commands in waiting.
func (s *session) exec(args []string, waiting []queued) {
	reply := s.captured(func() { s.server.srv.Dispatch(s.peer, args) })
	for _, q := range waiting {
		if !strings.Contains(reply, q.reply) {
			continue
		}
		reply = strings.Replace(reply, q.reply, s.captured(func() {
			if !extra[q.name](s, q.args) {
				s.server.srv.Dispatch(s.peer, append([]string{q.name}, q.args...))
			}
		}), 1)
	}
	s.peer.WriteRaw(reply)
}

// captured returns what f replies.
func (s *session) captured(f func()) string {
	var replies bytes.Buffer
	divert := func(to *bytes.Buffer) {
		s.peer.Block(func(*server.Writer) {
			s.writer.Flush()
			s.out.into = to
		})
	}
	divert(&replies)
	defer divert(nil) // after a panic, too
	f()
	s.peer.Flush()
	return replies.String()
}

// subscribed reports whether the connection speaks RESP2 and has subscriptions. Only miniredis
// knows: then it refuses an ECHO. This one goes to a connection that leads nowhere.
func (s *session) subscribed() bool {
	if s.multi || s.peer.Resp3 {
		return false
	}
	var reply bytes.Buffer
	twin := server.NewPeer(bufio.NewWriter(&reply))
	twin.Ctx = s.peer.Ctx
	s.server.srv.Dispatch(twin, []string{"ECHO", ""})
	twin.Flush()
	return strings.HasPrefix(reply.String(), "-")
}
