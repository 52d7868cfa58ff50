package master

import (
	"net"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/wire"
)

// Receiver learns how an operation ended: Answered is called once for each, by a goroutine or an
// event loop that does not hold the lane's mu (a loop holds reading.mu). It must not block.
type Receiver interface {
	Answered(lane int, op *wire.Op, a *Answer)
}

// Answer is how an operation ended. It is good until Answered returns.
type Answer struct {
	Reply    wire.Reply // of the master to this operation; Kind 0 without an answer
	Err      error      // the reason why there is no answer that counts; nil otherwise
	NotRun   bool       // the master has not carried it out, and never will
	AskAgain bool       // another try may do better at once: see entry.repeats and errStale
	MayLand  bool       // the connection broke: it may be carried out until the next one's barrier
}

// Host connects a lane with its Quorum. The methods are safe for concurrent use and do not block.
// The lane does not hold its mu when it calls them.
type Host interface {
	// Claim makes runID the lane's own. If a connected lane has it already, it returns that one.
	Claim(runID string, lane int) (other int, ok bool)
	Unclaim(lane int)
	// Observed takes the findings of a probe. Lost is called when the connection has
	// ended, with the number of packets that the master last reported.
	Observed(lane int, o admission.Observation)
	Lost(lane int, writes uint64)
	// Ponged is called with the round trip of each PING.
	Ponged(lane int, rtt time.Duration)
	// Landed reports that a top-up has set its key on the master, or may have: the lock may have
	// been released through another proxy meanwhile.
	//
	// voters are the masters whose grants made the lease. If one of them lacks the token before
	// the time voted, the lock was released.
	Landed(lane int, t wire.TokenAt, voters uint64, voted time.Time)
	// ReleasedLate reports that a lock stayed on the master until long after its UNLOCK, or may
	// have. but are the other masters that had not confirmed the deletion when the last
	// of them had answered UNLOCK.
	ReleasedLate(t wire.TokenAt, but uint64)
	// Flush writes the operations that the host queued while a batch of answers was handled. The
	// goroutine that reads a lane calls it after each batch; an event loop flushes by itself.
	Flush()
	// Drained is called when a closing lane may have no pending release left.
	Drained()
}

// PolledConn is a connection whose reading an event loop does.
type PolledConn interface {
	net.Conn
	// TryWrite writes as many bytes as the socket takes at once.
	TryWrite(b []byte) (n int, err error)
	// Unread reports whether the socket holds bytes that have not been read. It does not block.
	Unread() bool
	// Watch makes the loop call received with the bytes that arrive; received must not keep them.
	// The loop stops when received returns true, and after ended, whose argument is the reason.
	// Both run on the loop and must not block.
	Watch(received func(b []byte) (stop bool), ended func(err error))
}

// LaneConfig configures a Lane.
type LaneConfig struct {
	Index     int
	Options   *Options
	Names     []string // of all masters
	Encoder   *wire.Encoder
	MaxTTL    time.Duration
	KeyPrefix string // of the locks
	Client    string // the name of the connection, for CLIENT SETNAME
	Unguarded bool   // masters vote under any record
	Host      Host
	Log       *zap.Logger
	Dice      *dice.Dice
	Start     time.Time // the lane's clock is the time since
	// Adopt hands a new connection over to an event loop. nil, or false: a goroutine reads it.
	Adopt func(net.Conn) (PolledConn, bool)
}

// name returns the operator's name for the master.
func (c *LaneConfig) name() string { return c.Names[c.Index] }

// field names the master in the log.
func (c *LaneConfig) field() zap.Field { return zap.String("master", c.name()) }

// clock returns the lane's clock.
func (c *LaneConfig) clock() time.Duration { return time.Since(c.Start) }
