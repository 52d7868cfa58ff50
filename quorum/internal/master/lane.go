// Package master keeps the one connection to a master, the lane, and knows how the master stands.
// A lane carries lock operations of many callers, those of one token in order, in packets. It repairs
// what a master missed while it could not be reached.
package master

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/wire"
	"lockproxy/stat"
)

const (
	// maxUnanswered is how many requests may wait on a lane before it takes no more top-ups and
	// repairs.
	maxUnanswered = 4096
	// maxHolders is how many requests may wait before the lane takes none of holders either.
	maxHolders = 65536
	// silence is how long dialling, a handshake and a PING may take, and bytes go unacknowledged,
	// before the lane is dead.
	silence = 2 * time.Second
	// tickEvery is the time between two PINGs, two probes and two tries of failed repairs. A vote
	// counts for admission.MaxAge after a probe.
	tickEvery = admission.MaxAge / 2
)

// Receiver learns how an operation ended: Answered is called once for each, by a goroutine or an
// event loop that holds no lock of the lane. It must not block.
type Receiver interface {
	Answered(lane int, op *wire.Op, a *Answer)
}

// Answer is how an operation ended. It is good until Answered returns.
type Answer struct {
	Reply    wire.Reply // what the master answered to this operation; Kind 0 without an answer
	Err      error      // the reason why there is no answer that counts; nil otherwise
	NotRun   bool       // the master has not carried it out, and never will
	AskAgain bool       // another try may do better at once: see entry.repeats and errStale
	MayLand  bool       // the connection broke: it may be carried out until the next one's barrier
}

// Host is what a lane needs of the Quorum that it belongs to. The methods are safe for concurrent
// use and do not block. The lane holds no lock when it calls them.
type Host interface {
	// Claim makes runID the lane's own. If a connected lane has it already, it returns that one.
	Claim(runID string, lane int) (other int, ok bool)
	Unclaim(lane int)
	// Observed takes what the lane found on its master. Lost is called when the connection has
	// ended, with the number of packets that the master last reported.
	Observed(lane int, o admission.Observation)
	Lost(lane int, writes uint64)
	// Ponged is called with the round trip of each PING.
	Ponged(lane int, rtt time.Duration)
	// Landed is told that a top-up stands on the lane's master, or may: the lock may have been
	// released through another proxy meanwhile.
	//
	// voters are the masters whose grants made the lease. If one of them lacks the token before
	// the time voted, the lock was released.
	Landed(lane int, t wire.TokenAt, voters uint64, voted time.Time)
	// ReleasedLate is told that a lock stood on the master until long after its UNLOCK, or may
	// have. but are the masters that had answered that UNLOCK with "not ours".
	ReleasedLate(t wire.TokenAt, but uint64)
	// EndTurn is told that a goroutine has handled all answers that came together: what they made
	// the host queue can be flushed. An event loop does not call it.
	EndTurn()
	// Settled is told when a closing lane may have nothing left to wait for.
	Settled()
}

// Polled is a connection whose reading an event loop does.
type Polled interface {
	net.Conn
	// TryWrite writes what the socket takes at once.
	TryWrite(b []byte) (n int, err error)
	// Unread reports whether the socket holds bytes that have not been read. It does not block.
	Unread() bool
	// Watch makes the loop call received with the bytes that arrive; received must not keep them.
	// The loop stops when received says so, and after ended, which is told why nothing more comes.
	// Both run on the loop and must not block.
	Watch(received func(b []byte) (stop bool), ended func(err error))
}

// Config is what a lane is made of.
type Config struct {
	Index     int
	Options   *Options
	Names     []string // of all masters
	Encoder   *wire.Encoder
	MaxTTL    time.Duration
	KeyPrefix string // of the locks
	Unguarded bool   // masters vote whatever record they have
	Host      Host
	Log       *zap.Logger
	Dice      *dice.Dice
	Start     time.Time // the lane's clock is the time since
	// Adopt hands a new connection over to an event loop. nil, or false: a goroutine reads it.
	Adopt func(net.Conn) (Polled, bool)
}

// Lane is the one connection to a master and what is known about the master. Ask and Release queue
// operations, Flush writes them; a supervisor (Run) connects. Its methods are safe for concurrent
// use.
type Lane struct {
	cfg    Config
	ready  chan struct{} // closed by once
	once   sync.Once
	wanted chan struct{} // holds a value when somebody wants a probe

	mu      sync.Mutex
	conn    *conn // nil without a connection
	up      bool  // after the handshake: the lane carries releases
	votes   bool  // never unless up
	record  string
	until   time.Duration // by the lane's clock: the evidence for its votes is good until then
	writes  uint64        // packets that the master, if durable, has counted under record
	reason  error         // why the master does not vote
	closing bool          // no new work but releases
	queue   queue
	batch   wire.Batch    // used by encodeLocked
	written time.Duration // when the last packet was, by the lane's clock
	pace    pace
	room    int           // see SetRoom
	loaded  bool          // the master has the script of packets
	alone   time.Duration // by the lane's clock; before it each operation has its own packet
	repairs repairs
	backlog bool // some repairs are idle as the queue was full
	status  stat.Master
	logged  time.Time // when dropped repairs were last logged
	warned  string    // the last logged reason why the master does not vote
	counted bool      // its quarantine has been counted

	facts   admission.Facts // of the server, as it said last
	probing bool            // a probe is wanted, or on its way
	offset  admission.Clock
	asleep  time.Duration // clock.Suspended as last read
	untried bool          // the next probe tries the rights of the user
	misses  string        // useful rights that the last trial found missing
	stepped bool          // the clock has stepped; until Forgive
	demoted string        // run_id of a server that has been a replica; until Forgive

	heard atomic.Int64 // when the last bytes came, by the lane's clock

	// Used by the supervisor only.
	conns   uint64 // number of the last connection
	lastID  int64  // CLIENT ID of the last connection that said it
	lastRun string // run_id of its server
}

// New returns a lane. Run connects it.
func New(c Config) *Lane {
	return &Lane{cfg: c, ready: make(chan struct{}), wanted: make(chan struct{}, 1), room: maxUnanswered,
		status: stat.Master{State: stat.StateDown, Since: time.Now()}, reason: errConnecting}
}

// Name is what messages call the master.
func (l *Lane) Name() string { return l.cfg.Names[l.cfg.Index] }

// Options says how the master is reached.
func (l *Lane) Options() *Options { return l.cfg.Options }

// Ready is closed as soon as it is known whether the master votes, or that it cannot be reached.
func (l *Lane) Ready() <-chan struct{} { return l.ready }

func (l *Lane) markReady() { l.once.Do(func() { close(l.ready) }) }

// clock is the lane's clock.
func (l *Lane) clock() time.Duration { return time.Since(l.cfg.Start) }

// master names the master in the log.
func (l *Lane) master() zap.Field { return zap.String("master", l.Name()) }

// Ask queues op; Flush writes it. The error is the reason why the lane does not take it: then to
// is not told.
func (l *Lane) Ask(op wire.Op, to Receiver) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.roomLocked(op.Kind); err != nil {
		return err
	}
	l.queue.push(op, to)
	return nil
}

// AskFull is Ask for an acquire that SetRoom leaves no room for.
func (l *Lane) AskFull(op wire.Op, to Receiver) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.roomLocked(op.Kind); err != nil && (err != ErrFull || l.queue.n >= maxHolders) {
		return err
	}
	l.queue.push(op, to)
	return nil
}

// roomLocked says why the lane does not take an operation of this kind.
func (l *Lane) roomLocked(k wire.Kind) error {
	switch {
	case !l.up, !l.votes && k.Votes():
		return l.reason
	case l.closing && k != wire.Release && k != wire.Fade:
		return ErrClosing
	case l.queue.n >= maxHolders, l.queue.n >= l.room && k == wire.Acquire, l.queue.n >= maxUnanswered && k == wire.TopUp:
		return ErrFull
	}
	return nil
}

// SetRoom sets how many requests may wait on the lane before it takes no more acquires: its master
// is slower than the majority, or busy with what holders want. What it misses it is told later, if
// the lock then still lives.
func (l *Lane) SetRoom(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room = n
}

// Unanswered returns how many requests wait on the lane, and whether its master votes.
func (l *Lane) Unanswered() (n int, votes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.n, l.votes
}

// MayServe returns nil if the master votes, or the reason why not. A master that must not vote is
// not asked anything else either.
func (l *Lane) MayServe() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.votes {
		return l.reason
	}
	return nil
}

// BeginClose makes the lane refuse new work, releases excepted.
func (l *Lane) BeginClose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

// Unsettled counts the releases that the master, which is connected, has not answered yet.
func (l *Lane) Unsettled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return 0
	}
	return l.repairs.active()
}
