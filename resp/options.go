package resp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/resp/internal/protocol"
	"lockproxy/resp/internal/scan"
)

// Options configure a Server.
type Options struct {
	// Handler runs the lock commands: LOCK, UNLOCK, EXTEND, LOCKINFO, LOCKPROXY. It is called with
	// whole requests, one at a time for each connection, and must write one reply. Of a very long
	// one a part is cut off: see Session.Cut.
	Handler redcon.Handler
	// Begin may run a lock command without a goroutine: on the loop that has found it complete,
	// when everything before it is answered and the connection's standing is known. It must not
	// block.
	//
	// If it returns false, Handler runs the command. If it returns true, the caller's code that
	// completes the command writes one reply to conn and then calls done: once, on any goroutine
	// or loop, perhaps before Begin returns. Until then it owns conn. done does not block.
	// SessionOf(conn) works like in a handler, but Push may block.
	//
	// Nil, or a connection that no loop watches: Handler runs all commands.
	Begin func(conn redcon.Conn, cmd redcon.Command, done func()) (begun bool)
	// Judge decides about each request, lock commands aside: it passes to the upstream unchanged, or
	// Begin and Handler get it like a lock command. It gets the arguments that have come so far, each
	// whole, of total; the name is the first, and one of them at least has come. full: no more can
	// be held back. Then, and with all arguments, More counts as Take. It is called with each
	// request once at least, on loops, so it must be quick and must not block, and it must not keep
	// argv.
	//
	// A server with Judge forwards no byte of a request before it is judged; 64 KB of it are held
	// back at most. Without asking Judge a request is taken if its name has a zero byte (Redis may
	// end it there) or is longer than that, and so is SCRIPT DEBUG. So the handler must refuse a
	// command that it does not know. A command longer than 64 KB, or of more than 1,024 arguments,
	// may have lost some: see Session.Cut.
	//
	// Bytes that Redis refuses are not forwarded. The connection gets Redis' error and ends. It also
	// ends at a request that is not Pass if the replies of the upstream cannot be distinguished any
	// more, as after PSYNC. With CLIENT REPLY OFF such a request has no effect and no reply.
	//
	// Nil: all requests pass but the lock commands, and malformed bytes, too.
	Judge func(argv [][]byte, total int, full bool) Verdict
	// Alone may answer a request in place of the upstream, if that cannot be dialled, and Facts do
	// not say AuthRequired or Dial logs in. It gets the requests that pass, whole and one by one. It
	// writes one reply to conn and returns true; or it returns false, and the client gets an error.
	// It must return false as long as the upstream has never said whether it wants a password. It is
	// called like Handler, and may block.
	//
	// After the first reply of Alone the connection is never relayed. When the upstream can be
	// dialled again, the next request that Alone does not answer gets the error, and the connection
	// ends. A HELLO that it answers without an error changes Session.RESP3.
	//
	// Nil: such requests get the error. It needs Judge.
	Alone func(conn redcon.Conn, cmd redcon.Command) (answered bool)
	// Loops watch the connections. They must outlive the server. Nil: it has its own.
	Loops *Loops

	// Dial opens a connection to the upstream, logged in if the upstream's address says so.
	// Required.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialReason puts an error of Dial into a few words for the client. Default: its text.
	DialReason func(error) string
	// UpstreamName is the upstream's address in messages.
	UpstreamName string
	// UpstreamLogin says that Dial logs in, so that a connection counts as authenticated from its
	// start (until RESET).
	UpstreamLogin bool
	// UpstreamUser is whom Dial logs in. Default: "default", who every connection is before
	// authentication.
	UpstreamUser string
	// Facts describes the upstream. It is called often and must not block. Default:
	// a Redis without a password.
	Facts func() Facts
	// AskUser makes the upstream be asked who is logged in (ACL WHOAMI), wherever something was
	// sent that may have changed it. Otherwise User is empty from there on.
	AskUser bool

	// Hints are added to the upstream's replies to COMMAND, COMMAND COUNT, LIST, INFO and DOCS.
	Hints []Hint

	// MaxClients is how many connections are served at a time; more get an error and are closed.
	// Zero: no limit.
	MaxClients int
	// Others returns how many clients are connected elsewhere that count for MaxClients, too. May be
	// nil.
	Others func() int
	// SlowClientTimeout disconnects a client that takes no bytes for so long although some wait for
	// it, or that leaves a command unfinished for so long. Zero: never.
	SlowClientTimeout time.Duration
	// Timed is called with how long the upstream took to answer a command of a group (Groups),
	// from forwarding it until its reply was there. It is called for some commands only, one in a
	// while on each connection, never for blocking ones, and must not block. May be nil.
	Timed func(group string, took time.Duration)
	// Log may be nil.
	Log *zap.Logger
}

// Facts describe how the upstream treats a connection that has not authenticated.
type Facts = protocol.Facts

// Hint is what replies to COMMAND say about a command of the proxy.
type Hint = protocol.Hint

// Verdict is the fate of a request: see Options.Judge.
type Verdict = scan.Verdict

// The verdicts.
const (
	More = scan.Undecided // more arguments are needed
	Pass = scan.Pass      // the upstream gets the request
	Take = scan.Take      // Begin and Handler get it
)

// CommandReader reads requests as Redis reads them, for servers that take the place of one.
type CommandReader = scan.CommandReader

// ProtocolError is the error of a CommandReader at bytes that Redis refuses.
type ProtocolError = scan.ProtocolError

// NewCommandReader returns a CommandReader of r.
func NewCommandReader(r io.Reader) *CommandReader { return scan.NewCommandReader(r) }

// DefaultUser is the user of a connection before any AUTH.
const DefaultUser = protocol.DefaultUser

// protocol returns the options of a connection to the upstream.
func (o *Options) protocol() protocol.Options {
	user := cmp.Or(o.UpstreamUser, DefaultUser)
	return protocol.Options{Facts: o.Facts, AskUser: o.AskUser, LoggedIn: o.UpstreamLogin, User: user, Hints: o.Hints}
}

// shared is the part of a Server that its sessions use.
type shared struct {
	o      Options
	wg     sync.WaitGroup // acceptors, sessions and copiers
	loops  *Loops
	down   dialFailure
	era    atomic.Uint64 // how often Retire was called, and one
	warned atomic.Int64  // when warnUnreachable has last written to the log, in ns

	markers atomic.Uint64 // sent to the upstream
}

// judges reports whether no byte of a request is forwarded before the request is judged.
func (sh *shared) judges() bool { return sh.o.Judge != nil }

// spawn runs f on a goroutine, for which the loops make room.
func (sh *shared) spawn(f func()) {
	sh.wg.Go(f)
	sh.loops.poll.Yield()
}

// dial opens a connection to the upstream, after a pause if that has just failed.
func (sh *shared) dial(ctx context.Context) (net.Conn, error) { return sh.down.dial(ctx, sh.o.Dial) }

// warnUnreachable logs that the upstream cannot be reached, at most once a second.
func (sh *shared) warnUnreachable(err error) {
	now, last := time.Now().UnixNano(), sh.warned.Load()
	if now-last > int64(time.Second) && sh.warned.CompareAndSwap(last, now) {
		sh.o.Log.Warn("upstream cannot be reached", zap.String("upstream", sh.o.UpstreamName), zap.Error(err))
	}
}

// internalError is the reply of a command that panicked.
const internalError = "ERR internal"

// handle runs a lock command. A panic in the handler ends the connection, not the process.
func (sh *shared) handle(conn redcon.Conn, cmd redcon.Command) {
	defer func() {
		if r := recover(); r != nil {
			sh.o.Log.Error("panic in a command, connection closed", zap.ByteString("command", cmd.Args[0]),
				zap.String("panic", fmt.Sprint(r)), zap.Stack("stack"))
			writer := redcon.BaseWriter(conn)
			if own, ok := conn.(*lockConn); ok {
				writer = own.Writer
			}
			writer.SetBuffer(nil)
			conn.WriteError(internalError)
			conn.Close()
		}
	}()
	sh.o.Handler.ServeRESP(conn, cmd)
}
