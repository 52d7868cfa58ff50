package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2/server"
	"go.uber.org/zap"

	"lockproxy/plain"
	"lockproxy/resp"
)

// session is one connection to a Redis. Only the goroutine that runs serve uses its fields,
// except conn and done.
type session struct {
	server *Redis
	id     int64
	conn   *bufConn
	out    *replyWriter
	writer *bufio.Writer
	peer   *server.Peer // miniredis' view of the connection; RESET makes a new one
	multi  bool         // between MULTI and EXEC
	queued []queued     // commands for EXEC that miniredis cannot queue
	done   chan struct{}
}

func newSession(m *Redis, id int64, conn *bufConn) *session {
	out := &replyWriter{conn: conn}
	s := &session{server: m, id: id, conn: conn, out: out, writer: bufio.NewWriter(out), done: make(chan struct{})}
	s.newPeer()
	return s
}

// newPeer makes miniredis see a new connection.
func (s *session) newPeer() {
	s.peer = server.NewPeer(s.writer)
	s.server.peers.Store(s.peer, true)
}

// serve runs commands until the client disconnects, bytes that Redis refuses, QUIT, CLIENT KILL or
// a panic of miniredis.
func (s *session) serve() {
	defer close(s.done)
	defer s.server.remove(s)
	defer s.conn.Close()
	defer s.forget()
	reader := resp.NewCommandReader(s.conn)
	for {
		args, err := reader.Next()
		if refused, ok := errors.AsType[resp.ProtocolError](err); ok {
			s.peer.WriteError("ERR " + refused.Error())
			s.peer.Flush()
		}
		if err != nil {
			return
		}
		if !s.conn.waitUnread(replyPace) {
			return
		}
		again := s.run(args)
		s.peer.Flush()
		if !again || s.peer.Closed() {
			return
		}
	}
}

// run executes one command. It returns false if the connection must end.
func (s *session) run(args []string) (again bool) {
	written := s.out.written.Load()
	defer func() {
		if cause := recover(); cause != nil {
			s.contain(args[0], cause, written)
			again = false
		}
	}()
	name := strings.ToUpper(args[0])
	if name == "POST" || name == "HOST:" {
		return false // a browser, led here by a page that it shows: Redis runs no more of its lines
	}
	if refusal := overLimit(name, args[1:]); refusal != "" {
		s.refuse(refusal)
		return true
	}
	if reply, ok := extra[name]; ok {
		if name != "RESET" && s.subscribed() {
			s.peer.WriteError("ERR Can't execute '" + strings.ToLower(name) +
				"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
			return true
		}
		if handled := reply(s, args[1:]); handled {
			return true
		}
	}
	if !s.server.srv.IsRegisteredCommand(name) {
		s.abortMulti() // miniredis would let the next EXEC succeed
	}
	switch name {
	case "MULTI":
		s.multi = len(args) == 1
	case "EXEC", "DISCARD":
		waiting := s.queued
		s.multi, s.queued = false, nil
		if name == "EXEC" && waiting != nil {
			s.exec(args, waiting)
			return true
		}
	}
	if blocks[name] && !s.multi {
		return s.runBlocking(name, args)
	}
	s.server.srv.Dispatch(s.peer, args)
	return true
}

// refuse replies an error and makes EXEC fail if a MULTI is open.
func (s *session) refuse(text string) {
	s.abortMulti()
	s.peer.WriteError(text)
}

// abortMulti makes EXEC answer EXECABORT if a MULTI is open. Only miniredis can note that, and
// does so after a wrong number of arguments. The reply to that is dropped.
func (s *session) abortMulti() {
	if !s.multi {
		return
	}
	s.peer.Flush()
	s.out.mute.Store(true)
	s.server.srv.Dispatch(s.peer, []string{"ECHO"})
	s.peer.Flush()
	s.out.mute.Store(false)
}

// forget ends the subscriptions that miniredis keeps for the connection.
func (s *session) forget() {
	defer func() {
		if cause := recover(); cause != nil {
			s.contain("unsubscribe", cause, -1)
		}
	}()
	s.out.mute.Store(true)
	s.server.peers.Delete(s.peer)
	s.server.srv.Dispatch(s.peer, []string{"DISCARD"})
	s.server.srv.Dispatch(s.peer, []string{"UNSUBSCRIBE"})
	s.server.srv.Dispatch(s.peer, []string{"PUNSUBSCRIBE"})
	s.peer.Flush()
	s.out.mute.Store(false)
}

// contain handles a panic of miniredis. The client gets an error, unless its reply had begun, and
// the connection ends. It must run in the deferred call that recovered, because it looks at the
// stack of the panic.
func (s *session) contain(command string, cause any, written int64) {
	if panickedUnderLock() {
		s.server.mini.Unlock()
	}
	s.server.log.Error("embedded server panicked", zap.String("server", s.server.Name),
		zap.String("command", plain.Short(command)), zap.String("cause", fmt.Sprintf("%.200v", cause)),
		zap.ByteString("stack", debug.Stack()))
	s.peer.Block(func(*server.Writer) { s.writer.Reset(s.out) })
	if s.out.written.Load() == written {
		s.peer.WriteError("ERR internal error of the embedded server")
	}
}

// panickedUnderLock reports whether the panic left miniredis' lock locked. Of the functions that
// take it, only withTx does not unlock it by a defer.
func panickedUnderLock() bool {
	pcs := make([]uintptr, 1024)
	for n := runtime.Callers(2, pcs); n == len(pcs); n = runtime.Callers(2, pcs) {
		pcs = make([]uintptr, 2*len(pcs))
	}
	frames := runtime.CallersFrames(pcs)
	for {
		frame, more := frames.Next()
		if frame.Function == "github.com/alicebob/miniredis/v2.withTx" {
			return true
		}
		if !more {
			return false
		}
	}
}

// replyWriter writes replies and messages to the connection. It panics on a script's reply that
// contains itself. miniredis writes that by recursion, and a full stack would end the process,
// while a panic can be recovered from.
type replyWriter struct {
	conn    *bufConn
	written atomic.Int64
	mute    atomic.Bool   // drop replies
	into    *bytes.Buffer // takes the replies if not nil; guarded by the peer's lock
}

const maxDepth = 10_000

func (w *replyWriter) Write(b []byte) (int, error) {
	var deepest [1]uintptr
	if runtime.Callers(maxDepth, deepest[:]) > 0 {
		panic("reply nested too deeply")
	}
	if w.mute.Load() {
		return len(b), nil
	}
	if w.into != nil {
		return w.into.Write(b)
	}
	w.written.Add(int64(len(b)))
	if _, err := w.conn.Write(b); err != nil {
		// The client disconnected, or reads too slowly. This returns no error: after one, bufio
		// would not call again, and the depth would go unchecked.
		w.conn.Close()
	}
	return len(b), nil
}
