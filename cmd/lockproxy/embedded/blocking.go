package embedded

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// blocks are the blocking commands.
var blocks = map[string]bool{
	"BLPOP": true, "BRPOP": true, "BRPOPLPUSH": true, "BLMOVE": true, "BZMPOP": true, "BZPOPMIN": true,
	"BZPOPMAX": true, "XREAD": true, "XREADGROUP": true,
}

// halfCloseGrace is how long a command may block after its client has closed its writing half.
const halfCloseGrace = 20 * time.Millisecond

// runBlocking executes a blocking command. It ends the command when the client disconnects, so
// that no element is popped for a disconnected client. It returns false if the connection must
// end.
//
// A client that has closed only its writing half gets the reply to a command that need not block.
// miniredis does not report whether an interrupted command had looked at its keys. So the command
// runs once more with a timeout: before a timeout ends it, it looks at least once.
func (s *session) runBlocking(name string, args []string) (again bool) {
	reply := s.dispatchUntilLeft(args)
	if reply == "" && !s.conn.left() {
		reply = s.dispatchAside(s.newAside(), withTimeout(name, args))
		if slices.Contains([]string{"*-1\r\n", "$-1\r\n", "_\r\n"}, reply) {
			return false
		}
	}
	s.peer.WriteRaw(reply)
	return reply != ""
}

// withTimeout returns the blocking command with a short timeout.
func withTimeout(name string, args []string) []string {
	args = slices.Clone(args)
	switch seconds := "0.02"; name { // halfCloseGrace
	case "BZMPOP":
		args[1] = seconds
	case "XREAD", "XREADGROUP":
		options := args[1:]
		if name == "XREADGROUP" {
			options = args[4:] // after GROUP group consumer
		}
		if i := slices.IndexFunc(options, func(arg string) bool { return strings.EqualFold(arg, "BLOCK") }); i >= 0 {
			options[i+1] = "20"
		}
	default:
		args[len(args)-1] = seconds
	}
	return args
}

// aside is a second view that miniredis has of a connection. It can be closed alone, and keeps the
// reply.
type aside struct {
	*server.Peer
	reply bytes.Buffer
}

func (s *session) newAside() *aside {
	a := &aside{}
	a.Peer = server.NewPeer(bufio.NewWriter(&a.reply))
	a.Ctx, a.Resp3 = s.peer.Ctx, s.peer.Resp3
	return a
}

// dispatchAside executes a command on a and returns the reply, or "" if a was closed before.
func (s *session) dispatchAside(a *aside, args []string) string {
	s.server.peers.Store(a.Peer, true)
	defer s.server.peers.Delete(a.Peer)
	s.server.srv.Dispatch(a.Peer, args)
	a.Flush()
	s.peer.Ctx = a.Ctx
	return a.reply.String()
}

// dispatchUntilLeft executes a command and returns the reply. It returns "" if the command was
// ended because its client disconnected, or halfCloseGrace after the client closed its writing
// half.
func (s *session) dispatchUntilLeft(args []string) string {
	a := s.newAside()
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-over:
			return
		case <-s.conn.leaving():
		}
		if !s.conn.left() {
			grace := time.NewTimer(halfCloseGrace)
			defer grace.Stop()
			select {
			case <-over:
				return
			case <-grace.C:
			}
		}
		a.Close()
		s.server.wakeBlocked()
	})
	defer wg.Wait()
	defer close(over)
	return s.dispatchAside(a, args)
}
