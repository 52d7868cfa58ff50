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

// MasterOptions says how one master is reached.
type MasterOptions = master.Options

// Polled is a connection that an event loop reads.
type Polled = master.Polled

// maxMaxTTL is a year. So no sum of a few of them overflows.
const maxMaxTTL = 8760 * time.Hour

// defaultQueueTimeout is used if Options.QueueTimeout is zero.
const defaultQueueTimeout = 5 * time.Second

// maxMasters leaves room for a bit of each master beside a cursor of SCAN.
const maxMasters = 31

// Options are the settings of a Quorum. All proxies in front of the same masters must agree on
// Masters (as a set), KeyPrefix, MaxTTL and Fencing.
type Options struct {
	Masters       []MasterOptions // 1 to 31; an even number tolerates no more failures than one less
	KeyPrefix     string          // put before every key; must not begin with ReservedPrefix
	MasterTimeout time.Duration   // a master that makes no progress for so long no longer counts in a round; at least 2ms
	QueueTimeout  time.Duration   // how long a LOCK waits at most until it can be sent; 0: 5s
	MaxTTL        time.Duration   // longest ttl, at most a year; also how long a release of an unknown token is owed, and a master that lost its memory stays out of the vote
	Fencing       bool            // without it the number in a token is 0
	Guard         Guard           // how a master is treated that may have lost its memory
	AllowEviction bool            // let masters vote that may evict keys to save memory
	Log           *zap.Logger     // nil: none

	// Adopt makes an event loop read the connection of a lane; ok is false if it cannot. Code that
	// runs on a loop writes with Quorum.Flush at the end of its turn. nil: each lane has
	// goroutines that read and write.
	Adopt func(conn net.Conn) (polled Polled, ok bool)

	// Dice draws secrets, nonces and jitter. It is for tests, whose runs follow from a seed. nil: secrets
	// and nonces come from crypto/rand.
	Dice *dice.Dice
}

// Guard says how a master is treated that may have lost its memory: one that restarted, was
// flushed, stepped its clock or went back to an older state. GuardOff must be chosen by all
// proxies of a deployment or by none.
type Guard = admission.Mode

// The modes of the restart guard.
const (
	GuardOn     = admission.On     // it stays out of the vote for Options.MaxTTL and a margin; masters that are all new vote at once
	GuardStrict = admission.Strict // as GuardOn, but an operator admits masters if a majority may have lost its memory
	GuardOff    = admission.Off    // it votes at once, and may grant a lock twice
)

// Mode is the kind of a lock: who may hold it beside others. A key has one mode at a time: each
// refuses the others.
type Mode = wire.Mode

// The modes.
const (
	Exclusive = wire.Exclusive // one holder
	Shared    = wire.Shared    // any number of holders that are all Shared
	Limited   = wire.Limited   // at most Request.Limit holders, each with a slot of its own
	Kept      = wire.Kept      // of Info only: released and closed for a while, see Release
)

const (
	// MaxKeys is how many keys are locked together at most.
	MaxKeys = wire.MaxKeys
	// MaxLimit is the greatest Request.Limit.
	MaxLimit = wire.MaxLimit
)

// Request is what Acquire is asked for.
type Request struct {
	Key   string        // without Options.KeyPrefix
	Keys  []string      // further keys, at most MaxKeys-1: all or none. Each key once; only with Exclusive
	TTL   time.Duration // 1ms to Options.MaxTTL; counted in whole milliseconds, rounded down
	Owner string        // label that Inspect shows; up to 64 printable ASCII bytes, may be empty. It is no proof
	Mode  Mode          // Exclusive, Shared or Limited
	Limit int           // of Limited: how many may hold the key, 1 to MaxLimit. Slots from 0 to Limit-1 are taken

	// Patience is how long Acquire waits until it can be sent. 0: Options.QueueTimeout; negative: as
	// long as it takes.
	Patience time.Duration

	// Waits is how long the first client in line still waits for the lock; 0 for none. If holders
	// of another mode refuse it, no others may join them for so long, or for 1.5 s. It is a hint:
	// it makes no difference to who may hold the lock.
	Waits time.Duration
}

// validate returns the fault of the keys or the mode.
func (r *Request) validate() error {
	switch {
	case r.Mode > Limited:
		return fmt.Errorf("%w: mode %v", ErrInvalidRequest, r.Mode)
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

// Lease is what Acquire granted.
type Lease struct {
	Token    Token
	Validity time.Duration // how long the holder may count on it from the moment Acquire returned; positive
	Slot     int           // of Limited: the slot, from 0
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
