package quorum

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/dice"
	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// ReservedPrefix begins the names of everything kept on a master beside the locks. A full key
// (Options.KeyPrefix and key) that begins with it must not be locked.
const ReservedPrefix = wire.ReservedPrefix

// MasterOptions configure the connection to one master.
type MasterOptions = master.Options

// PolledConn is a connection that an event loop reads.
type PolledConn = master.PolledConn

// maxMaxTTL is a year, so that a sum of a few of them cannot overflow.
const maxMaxTTL = 8760 * time.Hour

// defaultQueueTimeout is used if Options.QueueTimeout is zero.
const defaultQueueTimeout = 5 * time.Second

// maxMasters leaves room for a bit of each master beside a cursor of SCAN.
const maxMasters = 31

// Options are the settings of a Quorum. All proxies in front of the same masters must agree on
// Masters (as a set), KeyPrefix, MaxTTL and Fencing.
type Options struct {
	// Masters are 1 to 31 masters. An even number tolerates no more failures than one less.
	Masters []MasterOptions

	// KeyPrefix is put before every key. It must not begin with ReservedPrefix.
	KeyPrefix string

	// MasterTimeout is the time without progress after which a master no longer counts in a round.
	// It must be positive; less than 2ms counts as 2ms.
	MasterTimeout time.Duration

	// QueueTimeout is the longest time that a LOCK waits until it can be sent. 0: 5s.
	QueueTimeout time.Duration

	// MaxTTL is the longest ttl, 1ms to a year. For Life(MaxTTL), the release of an unknown token
	// stays pending on a master that cannot be reached, and a master that lost its memory stays out
	// of the vote.
	MaxTTL time.Duration

	// Fencing puts a number into each token that rises from holder to holder. Without it the
	// number is 0.
	Fencing bool

	// Guard is the treatment of a master that may have lost its memory.
	Guard GuardMode

	// AllowEviction lets masters vote that may evict keys to save memory.
	AllowEviction bool

	// Log gets messages about masters and this process. nil: none.
	Log *zap.Logger

	// Adopt makes an event loop read the connection of a lane; ok is false if it cannot. Code that
	// runs on a loop writes with Quorum.Flush at the end of each iteration. nil: each lane has
	// goroutines that read and write.
	Adopt func(conn net.Conn) (polled PolledConn, ok bool)

	// Dice draws secrets, nonces and jitter. It is for tests, whose runs follow from a seed. nil:
	// secrets and nonces come from crypto/rand.
	Dice *dice.Dice
}

// GuardMode is the treatment of a master that may have lost its memory: one that restarted, was
// flushed, stepped its clock or went back to an older state. Either all proxies of a deployment
// use GuardOff, or none.
type GuardMode = admission.GuardMode

// The modes of the restart guard.
const (
	// GuardOn keeps such a master out of the vote for Life(Options.MaxTTL) and a margin. If all
	// masters are new, they vote at once.
	GuardOn = admission.On
	// GuardStrict is GuardOn, but if a majority may have lost its memory, an operator has to admit
	// masters.
	GuardStrict = admission.Strict
	// GuardOff lets such a master vote at once. It may grant a lock twice.
	GuardOff = admission.Off
)

// Mode is the kind of a lock: it decides which clients may hold it at the same time. A key has one
// mode at a time, and refuses the others.
type Mode = wire.Mode

// The modes.
const (
	Exclusive = wire.Exclusive // one holder
	Shared    = wire.Shared    // any number of holders that are all Shared
	Limited   = wire.Limited   // at most Request.Limit holders, each with a slot of its own
	Kept      = wire.Kept      // of Info only: released and closed for a while, see Release
	Foreign   = wire.Foreign   // of Info only: a key that is no lock, in the way of every lock
)

const (
	// MaxKeys is how many keys are locked together at most.
	MaxKeys = wire.MaxKeys
	// MaxLimit is the greatest Request.Limit.
	MaxLimit = wire.MaxLimit
	// MaxValue is how many bytes Request.Value has at most.
	MaxValue = 512
)

// Request describes the lock that Acquire obtains.
type Request struct {
	// Key is the key without Options.KeyPrefix.
	Key string

	// Keys are further keys, at most MaxKeys-1. All are locked or none. Each key is named once.
	// Only with Exclusive.
	Keys []string

	// TTL is the life of the lock on the masters, 1ms to Options.MaxTTL, except with Value. It
	// counts in whole milliseconds, rounded down.
	TTL time.Duration

	// Owner is a label that Inspect shows: up to 64 printable ASCII bytes, may be empty. It is no
	// proof.
	Owner string

	// Value makes an adopted lock, which Values finds by these 1 to MaxValue bytes. Then Owner is
	// empty, Mode Exclusive, and there are no Keys. TTL is promised: masters keep the lock for
	// Life(TTL), so that the lease has a validity of at least TTL. A round of an attempt still
	// takes at most a quarter of TTL.
	Value string

	// Mode is Exclusive, Shared or Limited.
	Mode Mode

	// Limit is the number of holders of a Limited lock, 1 to MaxLimit. They get the slots from 0
	// to Limit-1.
	Limit int

	// Patience is the longest time that Acquire waits until it can be sent. 0:
	// Options.QueueTimeout; negative: no limit.
	Patience time.Duration

	// Waits is how long the first client in line still waits for the lock; 0 for none. If holders
	// of another mode refuse it, no others may join them for so long, or for 1.5 s. It is a hint
	// and never decides who holds the lock.
	Waits time.Duration
}

// validate returns the fault of the keys or the mode.
func (r *Request) validate() error {
	switch {
	case r.Mode > Limited:
		return fmt.Errorf("%w: mode %v", ErrInvalidRequest, r.Mode)
	case len(r.Value) > MaxValue:
		return fmt.Errorf("%w: a value of %d bytes, want 1 to %d", ErrInvalidRequest, len(r.Value), MaxValue)
	case r.Value != "" && (r.Owner != "" || r.Mode != Exclusive || r.Keys != nil):
		return fmt.Errorf("%w: a value with an owner, several keys or mode %v", ErrInvalidRequest, r.Mode)
	case r.Mode == Limited && (r.Limit < 1 || r.Limit > MaxLimit):
		return fmt.Errorf("%w: limit %d, want 1 to %d", ErrInvalidRequest, r.Limit, MaxLimit)
	case r.Keys == nil:
		return nil
	case r.Mode != Exclusive || len(r.Keys) >= MaxKeys:
		return fmt.Errorf("%w: %d keys with mode %v", ErrInvalidRequest, 1+len(r.Keys), r.Mode)
	}
	keys := append([]string{r.Key}, r.Keys...)
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 1+len(r.Keys) {
		return fmt.Errorf("%w: a key is named twice", ErrInvalidRequest)
	}
	return nil
}

// Lease is a lock that Acquire obtained.
type Lease struct {
	Token Token
	// Validity is how long the holder may count on the lock, from the moment Acquire returned. It
	// is positive, and with Request.Value at least Request.TTL.
	Validity time.Duration
	// Slot is the slot of a Limited lock, from 0.
	Slot int
}

// validate lists all faults of o.
func (o *Options) validate() error {
	var faults []error
	if len(o.Masters) == 0 {
		faults = append(faults, errors.New("no masters"))
	}
	if n := len(o.Masters); n > maxMasters {
		faults = append(faults, fmt.Errorf("%d masters, at most %d", n, maxMasters))
	}
	for i := range o.Masters {
		faults = append(faults, o.Masters[i].Validate(i)...)
	}
	if strings.HasPrefix(o.KeyPrefix, ReservedPrefix) {
		faults = append(faults, fmt.Errorf("key prefix %q begins with %q", o.KeyPrefix, ReservedPrefix))
	}
	if o.MasterTimeout <= 0 {
		faults = append(faults, fmt.Errorf("master timeout %v is not positive", o.MasterTimeout))
	}
	if o.QueueTimeout < 0 {
		faults = append(faults, fmt.Errorf("queue timeout %v is negative", o.QueueTimeout))
	}
	if o.MaxTTL < time.Millisecond || o.MaxTTL > maxMaxTTL {
		faults = append(faults, fmt.Errorf("max ttl %v is not from 1ms to %v", o.MaxTTL, maxMaxTTL))
	}
	return errors.Join(faults...)
}

// longestLife returns how long a key lives on a master at most.
func (o *Options) longestLife() time.Duration { return Life(o.MaxTTL) }

// mayForget reports whether masters may vote that have lost locks before their ttl.
func (o *Options) mayForget() bool { return o.Guard == GuardOff || o.AllowEviction }
