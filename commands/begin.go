package commands

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/stat"
)

// loopCall is a command that no goroutine waits for. The answer that decides writes the reply.
type loopCall struct {
	call
	service  *Service
	conn     redcon.Conn
	done     func()
	finished atomic.Bool // the reply is written, or is being written
	waits    atomic.Bool // the session calls OnClientClosed for it
	space    [80]byte    // memory for the reply, while it fits

	panicked bool // finish closes the connection
}

// Begin runs LOCK, UNLOCK or EXTEND without a goroutine: it checks the command, asks the masters
// and returns. It never blocks. The answer that decides writes the reply to conn and calls done,
// once, maybe before Begin returns.
//
// Begin returns false, without an effect, for other commands, for LOCK with WAIT, for UNLOCK and
// EXTEND with KEYS, KEEP or SHARED, and if only the upstream knows whether the client may lock.
// Then the handlers of Register must run the command.
//
// conn and cmd are as handlers get them. Begin does not use cmd after it has returned.
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
	err := s.prepare(&q.call, how.checks(), cmd.Args[1:])
	switch {
	case errors.Is(err, errMustAsk), err == nil && q.blocks:
		return false
	case err != nil:
		q.finish(func() { q.refuse(err) })
	default:
		how.begin(q)
	}
	return true
}

// finish calls write, which writes the reply, then reports the command and sends the reply. Only
// the first call does so: the code that asks the masters may panic before their answer comes.
func (q *loopCall) finish(write func()) {
	if q.finished.Swap(true) {
		return
	}
	q.safely(write)
	q.safely(func() { q.service.outcomes.report(&q.call) })
	if q.waits.Load() {
		q.session.OnClientClosed(nil)
	}
	q.conn.WriteRaw(q.reply)
	if q.panicked {
		q.conn.Close()
	}
	q.done()
}

// safely calls f and recovers from a panic in it.
func (q *loopCall) safely(f func()) {
	defer func() {
		if r := recover(); r != nil {
			q.logPanic(r)
			q.fail()
		}
	}()
	f()
}

// fail replies an internal error and makes finish close the connection.
func (q *loopCall) fail() {
	q.panicked, q.outcome, q.reply = true, stat.OutcomeInternal, q.reply[:0]
	q.writeError("ERR internal")
}

func (q *loopCall) logPanic(r any) {
	q.service.opts.Log.Error("panic in a command, connection closed", zap.String("command", q.name),
		zap.String("panic", fmt.Sprint(r)), zap.Stack("stack"))
}
