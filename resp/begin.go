package resp

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"

	"go.uber.org/zap"

	"lockproxy/resp/internal/scan"
)

// begunAtOnce is how many lock commands of one client a loop begins, and answers, before it serves
// other clients.
const begunAtOnce = 16

// runner runs the lock commands that the pump finds. If Options.Begin takes a command, it runs
// without a goroutine: the loop goes on watching the client, bytes that come meanwhile stay in the
// buffer, and the end of the input is processed when the reply is written. Otherwise a handler
// runs the command on the pump's goroutine.
type runner struct {
	s       *Session
	conn    *lockConn // the handler's; made when it is needed
	begun   begun
	library string // see Session.Library
}

// phase is a stage of a command that Options.Begin runs.
type phase uint8

const (
	phaseNone      phase = iota // no command runs
	phaseBegins                 // Begin runs
	phaseCompleted              // Begin runs, and done was called
	phaseRuns                   // Begin has returned, and done was not called
	phaseReplies                // Begin has returned, and done was called; the reply is not written
	phaseReplied                // the reply was written before Begin has returned
	phaseBroken                 // Begin panicked, and done was not called
)

// begun is the command that was begun last. Safe for concurrent use.
type begun struct {
	mu      sync.Mutex // taken before any other of this package
	number  uint64     // of the command; done is ignored for other numbers
	phase   phase
	arrived bool   // bytes came, which the pump must process
	resume  func() // goes on with the pump on a goroutine; nil: the loop watches the client
}

// beginCommands begins the lock command at which the pump has stopped, and those after it, until
// one is not answered at once.
func (r *runner) beginCommands() (stop bool) {
	s := r.s
	for n := 1; r.mayBegin(); n++ {
		taken, running := r.begin()
		switch {
		case !taken:
			return true
		case running:
			return s.in.hold()
		case s.in.empty():
			return s.life.draining() && s.pump.atRest() // a client that asks on at once would never be met at rest later
		case n == begunAtOnce:
			s.polled.Requeue()
			return false
		case !s.pump.processRead(true):
			return false
		}
	}
	return true
}

// mayBegin reports whether a lock command is complete, and may run at once.
func (r *runner) mayBegin() bool {
	s := r.s
	return s.pump.step == stepLock && s.srv.o.Begin != nil && len(s.up.unsent) == 0 && r.ready()
}

// ready reports whether a lock command may run without a query to the upstream.
func (r *runner) ready() bool { return r.s.up.conn == nil || r.s.proto.Ready() }

// lockAlone reports whether the bytes that are there begin with a lock command that needs no
// connection to the upstream.
func (r *runner) lockAlone() bool {
	s := r.s
	return s.srv.o.Begin != nil && s.up.conn == nil && s.pump.req.Between() && s.pump.req.WholeOwn(s.in.bytes()) &&
		!s.proto.Limited()
}

// begin begins the lock command that is complete. taken: Begin has taken it; running: it has not
// ended yet.
func (r *runner) begin() (taken, running bool) {
	s := r.s
	s.pump.step = stepPump
	s.running.Store(true)
	number := r.begun.start()
	if !s.srv.o.Begin(r.lockConn(), ownCommand(s.pump.req.Argv), func() { r.done(number) }) {
		s.pump.step = stepLock
		r.begun.refused()
		s.running.Store(false)
		return false, false
	}
	if r.begun.returned(!s.in.empty()) {
		return true, true
	}
	s.running.Store(false)
	return true, false
}

// start prepares for a command and returns its number.
func (b *begun) start() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	b.phase, b.arrived, b.resume = phaseBegins, false, nil
	return b.number
}

// refused ends a command that Begin does not take.
func (b *begun) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = phaseNone
}

// returned is called when Begin has returned. It reports whether the command still runs. arrived:
// the buffer has bytes after the command.
func (b *begun) returned(arrived bool) (running bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.phase {
	case phaseReplied:
		b.phase = phaseNone
		return false
	case phaseCompleted:
		b.phase = phaseReplies
	default:
		b.phase = phaseRuns
	}
	b.arrived = arrived
	return true
}

// noteArrival is called when bytes have come. It reports whether a command runs.
func (b *begun) noteArrival() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived = true
	return b.phase == phaseRuns || b.phase == phaseReplies
}

// watchEnded is called when the loop watches the client no more. If a command runs, its end is
// awaited first; meanwhile the client is read ahead, if more may come. Otherwise a goroutine goes
// on.
func (r *runner) watchEnded(reason error) {
	s, b := r.s, &r.begun
	resume := func() { s.pump.run(reason) }
	b.mu.Lock()
	running := b.stopLocked(resume)
	switch {
	case !running:
	case reason == nil, errors.Is(reason, os.ErrDeadlineExceeded):
		s.in.ahead.startNow(s.in.bytes()) // with mu held, so that the pump does not go on before
	default:
		s.life.leave()
	}
	b.mu.Unlock()
	if !running {
		s.srv.wg.Go(resume)
	}
}

// stopLocked notes that the loop watches no more. It reports whether a command runs; then resume
// is called after it.
func (b *begun) stopLocked(resume func()) (running bool) {
	switch b.phase {
	case phaseBegins:
		b.phase = phaseBroken
		return false
	case phaseNone, phaseReplied:
		b.phase = phaseNone
		return false
	case phaseCompleted: // Begin panicked after it had called done
		b.phase = phaseReplies
	}
	b.resume = resume
	return true
}

// done is called when the reply of the command of that number is in r.conn.
func (r *runner) done(number uint64) {
	s := r.s
	if !r.begun.complete(number) {
		return
	}
	wait := s.out.tryReply(r.conn.take())
	if wait != nil || r.conn.closed {
		s.srv.spawn(func() { r.waitReply(wait) })
		return
	}
	s.pump.delivery.finish(nil)
	r.resumePump()
}

// complete notes that the reply is there. It returns true for the first call for the running
// command.
func (b *begun) complete(number uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case number != b.number:
		return false
	case b.phase == phaseBegins:
		b.phase = phaseCompleted
	case b.phase == phaseRuns:
		b.phase = phaseReplies
	default:
		return false
	}
	return true
}

// waitReply finishes done if that has to wait, or if the connection ends.
func (r *runner) waitReply(wait func() error) {
	s := r.s
	defer r.resumePump()
	defer s.contain("command")
	var err error
	if wait != nil {
		err = wait()
	}
	s.pump.delivery.finish(err)
	if err != nil {
		s.life.end(causeFinish, endOf(err))
	}
	if err != nil || r.conn.closed {
		s.cut()
	}
}

// resumePump lets the pump go on after a command whose reply was written, or cannot be.
func (r *runner) resumePump() {
	s, b := r.s, &r.begun
	b.mu.Lock()
	if !b.repliedLocked() {
		b.mu.Unlock()
		return
	}
	s.running.Store(false)
	arrived, resume := b.arrived, b.resume
	b.resume = nil
	b.mu.Unlock()
	switch {
	case resume != nil:
		s.srv.spawn(resume)
	case arrived || s.life.now() != stateOpen:
		s.polled.Requeue()
	}
}

// repliedLocked notes that the reply was written, or cannot be. It returns false while Begin runs,
// whose caller then goes on.
func (b *begun) repliedLocked() bool {
	if b.phase == phaseCompleted {
		b.phase = phaseReplied
		return false
	}
	b.phase = phaseNone
	return true
}

// serve lets the handler run the lock command that is complete, and writes its reply.
func (r *runner) serve() error {
	s, conn := r.s, r.lockConn()
	s.running.Store(true)
	s.in.ahead.start(s.in.bytes())
	s.srv.handle(conn, ownCommand(s.pump.req.Argv))
	err := r.writeReply(conn.take())
	if conn.closed && err == nil {
		return net.ErrClosed
	}
	return err
}

// silence takes the place of a command that the upstream must not get, if no reply can be
// inserted. With replies off the upstream gets the name of a lock command, which it does not know:
// so a transaction fails.
func (r *runner) silence() error {
	s := r.s
	if s.proto.Garbled() {
		s.srv.o.Log.Info("client disconnected", zap.Stringer("client", s.client.RemoteAddr()),
			zap.String("reason", "a command cannot be answered where replies cannot be distinguished"))
		s.cut()
		return net.ErrClosed
	}
	s.proto.Expect(1)
	s.pump.forward(appendCommand(nil, [][]byte{[]byte("LOCK")}, 1), false)
	return nil
}

// quit answers QUIT without an upstream.
func (r *runner) quit() {
	r.s.life.end(causeFinish, EndQuit)
	r.s.out.reply([]byte("+OK\r\n"))
	r.s.pump.step = stepQuit
}

// longestLibrary is how many bytes of a library's name are kept.
const longestLibrary = 64

// judge is Options.Judge. It keeps the name of the client's library.
//
//	> *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$8\r\nredis-py\r\n
func (r *runner) judge(argv [][]byte, total int, full bool) Verdict {
	if len(argv) == 4 && total == 4 && bytes.EqualFold(argv[0], []byte("client")) &&
		bytes.EqualFold(argv[1], []byte("setinfo")) && bytes.EqualFold(argv[2], []byte("lib-name")) {
		r.library = string(argv[3][:min(len(argv[3]), longestLibrary)])
	}
	return r.s.srv.o.Judge(argv, total, full)
}

// absent dials the upstream if there is no connection yet. It reports whether Options.Alone may
// answer in its place.
func (r *runner) absent() bool {
	s := r.s
	if s.srv.o.Alone == nil {
		return false
	}
	s.pump.connect()
	failure := s.up.alone()
	return failure != nil && (failure.ever || s.srv.o.UpstreamLogin || !s.srv.o.Facts().AuthRequired)
}

// standIn answers the request in pump.req, which passes, for an upstream that cannot be dialled.
func (r *runner) standIn() {
	s, req := r.s, &r.s.pump.req
	if req.Kind == scan.KindQuit {
		r.quit()
		return
	}
	conn := r.lockConn()
	answered := !req.Cut && s.srv.o.Alone(conn, ownCommand(req.Argv))
	reply := conn.take()
	switch {
	case answered:
		s.up.alone().ever = true
		if req.Kind == scan.KindHello && len(req.Argv) > 1 && !bytes.HasPrefix(reply, []byte("-")) {
			s.proto.SetRESP3(string(req.Argv[1]) == "3")
		}
		s.out.reply(reply)
	case s.up.alone().ever && s.srv.down.back(s.ctx, s.up.alone().at, s.srv.o.Dial):
		s.pump.refuse(1)
		s.pump.step = stepQuit
	default:
		s.pump.refuse(1)
	}
	if conn.closed {
		s.pump.step = stepQuit
	}
}

// lockConn returns the connection that a handler gets.
func (r *runner) lockConn() *lockConn {
	if r.conn == nil {
		r.conn = newLockConn(r.s)
	}
	return r.conn
}

// writeReply inserts the reply of a lock command between the upstream's replies.
func (r *runner) writeReply(b []byte) error {
	err := r.s.out.reply(b)
	r.finish(err)
	if err != nil {
		r.s.life.end(causeFinish, endOf(err)) // no reader will learn how the client ended it
	}
	return err
}

// finish ends the running command; err is not nil if its reply was not written.
func (r *runner) finish(err error) {
	r.s.running.Store(false)
	r.s.pump.delivery.finish(err)
}
