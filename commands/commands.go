// Package commands says what each lock command means: arguments in, reply out. Its handlers run on redcon's mux, on connections
// served by package resp. It also keeps the waiting lines of this proxy and the locks that belong to connections.
package commands

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/commands/internal/queue"
	"lockproxy/commands/internal/session"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// Locker grants, extends and releases locks; *quorum.Quorum is one. Its methods say what they do there.
type Locker interface {
	Acquire(ctx context.Context, want quorum.Request) (quorum.Lease, error)
	Extend(ctx context.Context, key string, token quorum.Token, ttl time.Duration) (time.Duration, error)
	Release(ctx context.Context, key string, token quorum.Token) (bool, error)
	Abandon(key string, token quorum.Token)
	Watch(ctx context.Context, key string, released func(id string)) (stop func())
	Inspect(ctx context.Context, key string) (quorum.Info, error)
	Scan(ctx context.Context, cursor uint64, match string, count int) (uint64, []quorum.Info, error)
	ReleaseKey(ctx context.Context, key string) (bool, error)
	Masters() []quorum.MasterStatus
	Admit(ctx context.Context, name string) error

	// These never block. They call done once, from any goroutine or event loop, maybe before they
	// return.
	AcquireAsync(want quorum.Request, done func(quorum.Lease, error))
	ExtendAsync(key string, token quorum.Token, ttl time.Duration, done func(time.Duration, error))
	ReleaseAsync(key string, token quorum.Token, done func(held bool, err error))
}

var _ Locker = (*quorum.Quorum)(nil)

// Gate knows whether the upstream refuses commands of a connection that has not authenticated.
type Gate interface {
	// AuthRequired returns an error that says why if nobody knows; then nobody may lock who has not authenticated.
	AuthRequired(ctx context.Context) (bool, error)
	// Known returns what AuthRequired returns without asking. known is false where that would have
	// to ask.
	Known() (required, known bool)
}

// Options say what the commands work with. Locker and Gate are required.
type Options struct {
	Locker Locker
	Gate   Gate
	// Permission is asked before every command about a lock. Nil: whoever is authenticated may.
	Permission Permission
	Reason     func(error) string // an error of Permission in a few words; nil: its text
	KeyPrefix  string             // in front of every key on the masters
	MaxTTL     time.Duration
	Tunable    // at the start

	Version     string     // for LOCKPROXY INFO
	Connections func() int // clients connected, for LOCKPROXY INFO; nil: 0
	// Done is told of every command that was answered, and of session locks that end. It is called on the command's way, so it must be fast,
	// never block and call nothing here. Nil: nobody is told.
	Report func(stat.Event)
	Log    *zap.Logger
}

// Service is the commands together with what they keep between calls. Safe for concurrent use.
type Service struct {
	o            Options // now returns the tunable ones
	tunable      atomic.Pointer[Tunable]
	queues       *queue.Queues
	sessionLocks *session.Locks
	grants       *grants
	started      time.Time
	counters     map[stat.Outcome]*atomic.Uint64 // see infoCounters
	commands     map[string]command              // by name
}

// New returns a service without waiters and session locks. Close ends it.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Reason == nil {
		o.Reason = error.Error
	}
	if o.Connections == nil {
		o.Connections = func() int { return 0 }
	}
	s := &Service{o: o, started: time.Now(), grants: newGrants(), counters: newCounters(), queues: queue.New(o.Locker, len(o.Locker.Masters()), o.MaxWaiters, o.MaxTTL)}
	s.tunable.Store(&o.Tunable)
	s.sessionLocks = session.New(o.Locker, s.queues.Released, o.Report, o.SessionMaxHold, o.SessionLockDelay, o.Log)
	s.commands = make(map[string]command)
	for _, how := range []command{
		{"lock", parseLock, s.lock, s.beginLock},
		{"unlock", parseUnlock, s.unlock, s.beginUnlock},
		{"extend", parseExtend, s.extend, s.beginExtend},
		{"lockinfo", parseInfo, s.lockinfo, nil},
		{"lockproxy", parseProxy, s.proxy, nil},
	} {
		s.commands[how.name] = how
	}
	return s
}

// Register adds the handlers to mux, one for each of stat.Commands.
func (s *Service) Register(mux *redcon.ServeMux) {
	for name, how := range s.commands {
		mux.Handle(name, s.serve(how))
	}
}

// Drain answers all who wait, and all who come to wait, with null. Session locks are not renewed any more: they are left to run out, and
// holders that speak RESP3 are told. It returns when they have been, or take too long to read. It may be called once.
func (s *Service) Drain() {
	s.queues.Drain()
	s.sessionLocks.Drain()
}

// Close ends the renewal of session locks, which then run out by themselves, and waits for renewals that are under way. Connections must
// be gone.
func (s *Service) Close() { s.sessionLocks.Close() }

// call is one command on its way: the connection, the arguments once they are parsed, and the
// reply.
type call struct {
	session *resp.Session
	name    string // in lower case
	onLoop  bool   // nothing may block
	args
	reply

	// For Options.Done.
	start   time.Time
	user    string
	outcome stat.Outcome
	held    time.Duration
}

func newCall(how command, conn redcon.Conn) call {
	session := resp.SessionOf(conn)
	return call{session: session, name: how.name, start: time.Now(), user: session.User()}
}
