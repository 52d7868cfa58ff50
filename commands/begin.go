package commands

import (
	"fmt"
	"sync/atomic"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/stat"
)

// quick is a command that no goroutine waits for: the answer that decides writes the reply.
type loopCall struct {
	call
	service *Service
	conn    redcon.Conn
	done    func()
	over    atomic.Bool // somebody writes the reply, or has
	space   [80]byte    // of the reply, while it fits

	panicked bool // the connection is to end
}

// Begin runs LOCK, UNLOCK or EXTEND without a goroutine: it checks the command, asks the masters
// and returns. It never blocks. Whoever learns the answer that decides writes the reply to conn
// and calls done, once, maybe before Begin returns.
//
// The result is false for other commands, for LOCK with WAIT, and where only a question to the
// upstream can tell whether the client may lock. Then nothing has happened: the command is for the
// handlers of Register.
//
// conn and cmd are as handlers get them; cmd is not used after Begin has returned.
func (s *Service) Begin(conn redcon.Conn, cmd redcon.Command, done func()) (begun bool) {
	how := s.commands[string(cmd.Args[0])]
	if how.begin == nil {
		return false
	}
	q := &loopCall{call: newCall(how, conn), service: s, conn: conn, done: done}
	q.onLoop, q.reply = true, q.space[:0]
	defer func() {
		if r := recover(); r != nil {
			q.logPanic(r)
			q.finish(q.fail)
			begun = true
		}
	}()
	err := s.prepare(&q.call, how.parse, cmd.Args[1:])
	switch {
	case err == errMustAsk, err == nil && q.wait:
		return false
	case err != nil:
		q.finish(func() { q.refuse(err) })
	default:
		how.begin(q)
	}
	return true
}

// finish makes write write the reply, reports the command and sends the reply. Only the first call
// does so: what asks the masters may have panicked before their answer came.
func (q *loopCall) finish(write func()) {
	if q.over.Swap(true) {
		return
	}
	q.guard(write)
	q.guard(func() { q.service.report(&q.call) })
	q.conn.WriteRaw(q.reply)
	if q.panicked {
		q.conn.Close()
	}
	q.done()
}

// guard keeps a panic in f from ending the process.
func (q *loopCall) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			q.logPanic(r)
			q.fail()
		}
	}()
	f()
}

// fail makes an internal error the reply, behind which the connection ends.
func (q *loopCall) fail() {
	q.panicked, q.outcome, q.reply = true, stat.OutcomeInternal, q.reply[:0]
	q.writeError("ERR internal")
}

func (q *loopCall) logPanic(r any) {
	q.service.o.Log.Error("panic in a command, connection closed", zap.String("command", q.name),
		zap.String("panic", fmt.Sprint(r)), zap.Stack("stack"))
}
