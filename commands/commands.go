// Package commands runs the lock commands: arguments in, reply out. [New] makes a [Service], whose
// handlers run on redcon's mux, on connections that package resp serves; [Service.Begin] runs a
// command on an event loop. The internal packages keep the wait queues of this proxy and its
// session locks.
package commands

import (
	"context"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/commands/internal/queue"
	"lockproxy/commands/internal/session"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// Locker acquires, extends and releases locks. *quorum.Quorum is one and documents the methods.
//
// No method blocks. The Async ones call done once, from any goroutine or event loop, maybe before
// they return. Their requests go out with Flush, which an event loop calls after each batch of
// events. A goroutine waits with quorum.Await, which flushes.
type Locker interface {
	AcquireAsync(want quorum.Request, done func(quorum.Lease, error)) (leave func() bool)
	ExtendAsync(ctx context.Context, want quorum.ExtendRequest, done func(time.Duration, error))
	ReleaseAsync(want quorum.ReleaseRequest, done func(held bool, err error))
	Abandon(key string, token quorum.Token)
	Flush()
	// Drain ends the acquires that wait until they can be sent, now and later.
	Drain()
}

// Watcher subscribes to changes of keys. *quorum.Quorum is one and documents the methods.
type Watcher interface {
	Watch(ctx context.Context, key string, released func(id string)) (stop func())
	Follow(ctx context.Context, key string, changed func()) (stop func())
}

// Inspector shows locks and masters, and changes them for operators. *quorum.Quorum is one and
// documents the methods.
type Inspector interface {
	Inspect(ctx context.Context, key string) (quorum.Info, error)
	View(ctx context.Context, key string) (quorum.View, error)
	Scan(ctx context.Context, cursor uint64, match string, count int) (uint64, []quorum.Info, error)
	ScanSeen(ctx context.Context, cursor uint64, match string, count int) (quorum.Page, error)
	ReleaseKey(ctx context.Context, key string) (bool, error)
	Masters() []stat.Master
	Admit(ctx context.Context, name string, force bool) error
	Load() stat.Load
}

var (
	_ Locker    = (*quorum.Quorum)(nil)
	_ Watcher   = (*quorum.Quorum)(nil)
	_ Inspector = (*quorum.Quorum)(nil)
)

// AuthGate knows whether the upstream refuses commands of a connection that has not authenticated.
type AuthGate interface {
	// AuthRequired asks if it must. After an error, clients must authenticate before they lock.
	AuthRequired(ctx context.Context) (bool, error)
	// Known returns what AuthRequired returns, if it is known without asking.
	Known() (required, known bool)
	// Last returns the last known answer, however old it is.
	Last() (required, known bool)
}

// Options configure a Service. Locker, Watcher, Inspector and Gate are required.
type Options struct {
	Locker    Locker
	Watcher   Watcher
	Inspector Inspector
	Gate      AuthGate
	// Rights is asked before every command about a lock. Nil: every authenticated client may
	// lock.
	Permission Rights
	// Reason puts an error of Gate or Permission in a few words. Nil: the text of the error.
	Reason func(error) string
	// Adopt configures the lock listener. Nil: there is none, and its methods must not be called.
	Adopt     *AdoptOptions
	KeyPrefix string // in front of every key on the masters
	MaxTTL    time.Duration
	Tunable   // at the start

	Name        string     // of this proxy, for Why
	Version     string     // for LOCKPROXY INFO
	Connections func() int // clients connected, for LOCKPROXY INFO; nil: 0
	MaxClients  func() int // how many may be, for LOCKPROXY INFO; nil: 0
	// Report receives an event for every command that was answered, and for each session lock that
	// ends. It delays the command, so it must be fast. It must not block or call the Service. May
	// be nil.
	Report func(stat.Event)
	// Holders returns the latest clients that were granted the lock of a key through this proxy, the
	// latest first. Nil: they are not recorded.
	Holders func(key string) []stat.Holder
	Log     *zap.Logger
}

// Service runs the commands and keeps their state between calls. Safe for concurrent use.
type Service struct {
	*sharedOptions
	*operators   // what operators see and do
	permissions  *permissions
	outcomes     *outcomes
	queues       *queue.Queues
	followers    *followers
	sessionLocks *session.Locks
	commands     map[string]command // by name
	adopter      *adopter           // nil without Options.Adopt
}

// New returns a service, which has no waiters and no session locks yet. The caller closes it.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Reason == nil {
		o.Reason = error.Error
	}
	none := func() int { return 0 }
	if o.Connections == nil {
		o.Connections = none
	}
	if o.MaxClients == nil {
		o.MaxClients = none
	}
	settings := &sharedOptions{opts: o}
	settings.tunable.Store(&o.Tunable)
	s := &Service{sharedOptions: settings, permissions: &permissions{settings}, outcomes: newOutcomes(settings)}
	s.queues = queue.New(o.Locker, o.Watcher, len(o.Inspector.Masters()), o.MaxWaiters, o.MaxTTL)
	s.followers = newFollowers(o.Inspector, o.Watcher, o.MaxTTL)
	s.sessionLocks = session.New(o.Locker, s.queues.Released, o.Report, o.SessionMaxHold, o.SessionLockDelay, o.Log)
	grants := newGrants()
	locks := &lockCommands{sharedOptions: settings, permissions: s.permissions, outcomes: s.outcomes,
		queues: s.queues, sessionLocks: s.sessionLocks, grants: grants}
	info := &infoCommand{sharedOptions: settings, permissions: s.permissions, outcomes: s.outcomes,
		queues: s.queues, followers: s.followers}
	s.operators = &operators{sharedOptions: settings, masterNames: masterNames{settings}, permissions: s.permissions,
		outcomes: s.outcomes, queues: s.queues, followers: s.followers, sessionLocks: s.sessionLocks,
		grants: grants, started: time.Now(), left: &leftCounter{sharedOptions: settings, outcomes: s.outcomes}}
	p := &argParser{settings}
	s.commands = make(map[string]command)
	for _, how := range []command{
		{"lock", p.parseLock, locks.lock, locks.beginLock},
		{"unlock", p.parseUnlock, locks.unlock, locks.beginUnlock},
		{"extend", p.parseExtend, locks.extend, locks.beginExtend},
		{"lockinfo", p.parseInfo, info.lockinfo, nil},
		{"lockproxy", p.parseProxy, s.proxy, nil},
	} {
		s.commands[how.name] = how
	}
	s.adopter = newAdopter(s, locks, p)
	return s
}

// Register adds a handler for each lock command to mux.
func (s *Service) Register(mux *redcon.ServeMux) {
	for name, how := range s.commands {
		mux.Handle(name, s.serve(how))
	}
}

// Drain ends the waiting of all clients, now and later: for a lock, or until their LOCK can be
// sent. They get TRYAGAIN. Session locks are no longer renewed and run out, and holders that speak
// RESP3 get a push message. Drain returns when these are written, or after half a second. It may
// be called once.
func (s *Service) Drain() {
	s.queues.Drain()
	s.opts.Locker.Drain()
	s.followers.drain()
	s.sessionLocks.Drain()
}

// Close ends the renewal of session locks and waits for all goroutines. No connection may be open
// any more.
func (s *Service) Close() {
	s.sessionLocks.Close()
	s.followers.close()
}

// call is one command: its connection, arguments and reply.
type call struct {
	session *resp.Session
	name    string // in lower case
	onLoop  bool   // no function may block
	args
	reply

	// For Options.Report.
	start   time.Time
	user    string
	noLogin bool
	outcome stat.Outcome
	held    time.Duration
	adopted *adoptedFacts // of the lock listener; nil: a lock command
}

func newCall(how command, conn redcon.Conn) call {
	session := resp.SessionOf(conn)
	return call{session: session, name: how.name, start: time.Now(), user: session.User()}
}
