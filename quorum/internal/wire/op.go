// Package wire turns lock operations into the bytes that a master gets, and a master's bytes into
// replies. It keeps the scripts, the encoding, the format of a lock's value, the choice of its
// counter and the ttl that masters get for a promise. It knows no sockets and no clocks.
package wire

import "time"

// OpKind is what an operation does.
type OpKind uint8

const (
	Acquire OpKind = iota // sets the lock if its key does not exist
	Raise                 // raises the counter and the fence of the lock
	Release               // deletes the lock
	Fade                  // shortens the lock's life
	TopUp                 // sets the lock on a master that missed it, or raises its expiry
	Extend                // raises the lock's expiry
	Check                 // asks whether the master holds the lock
	Share                 // makes an exclusive lock a shared one, and extends it
	Inspect               // asks for the holders of the key
	Free                  // deletes any lock of the key
	Refresh               // changes the expiry of an exclusive lock
)

// Votes reports whether a master carries the operation out only under the record of the packet.
// Operations that undo something are carried out on any master that can be reached.
func (k OpKind) Votes() bool { return k != Release && k != Fade && k != Free }

// TokenAt is a token at a key. A token is good for the keys of its lock, but a client may name it
// with another.
type TokenAt struct {
	Key    string // with its prefix
	Secret string // SecretLen lower-case hex digits
}

// Op is one lock operation. A TTL is rounded down to whole milliseconds, but not to less than one.
type Op struct {
	Kind OpKind
	TokenAt
	Counter uint16 // the fencing counter of Key: see CounterOf
	Fence   uint64 // of Raise and TopUp

	// TTL is the life of the lock; of a Fade, the longest life of its remains; of a Release, how
	// long the lock stays closed, 0 for not at all.
	TTL time.Duration

	// Begun of an Acquire and a TopUp is when it was asked for, by the master's clock, since 1970.
	// It may be earlier than the truth, and never later. 0: the master does not look at its age.
	Begun time.Duration

	// Within of a TopUp is how long after Begun the master may carry it out. An Acquire has 99 % of
	// its TTL.
	Within time.Duration

	// End is the end that a Refresh may replace by an earlier one, as Refreshed returns it. 0: the
	// Refresh shortens no lock.
	End int64

	Owner   string // of Acquire and TopUp: the label after the fence, or see ValueOf
	Publish bool   // of Release: notify clients that wait for the key
	Terms   *Terms // nil for an exclusive lock of one key for which no client waits
}

// Mode returns the kind of lock of the operation.
func (o *Op) Mode() Mode {
	if o.Terms == nil {
		return Exclusive
	}
	return o.Terms.Mode
}

// more returns the keys of the operation beside Key. Only an Acquire and a Raise have several.
func (o *Op) more() []string {
	if o.Terms == nil || o.Kind != Acquire && o.Kind != Raise {
		return nil
	}
	return o.Terms.More
}

// tooLate returns when the master no longer carries the operation out, by its clock; 0 for never.
func (o *Op) tooLate() time.Duration {
	switch {
	case o.Begun == 0:
		return 0
	case o.Kind == Acquire:
		return o.Begun + o.TTL.Truncate(time.Millisecond)/100*99
	case o.Kind == TopUp:
		return o.Begun + o.Within.Truncate(time.Millisecond)
	}
	return 0
}

// MaxOps is how many operations a packet holds at most.
const MaxOps = 64

const (
	// ReservedPrefix begins the names of everything that lockproxy keeps on a master beside the
	// locks.
	ReservedPrefix = "lockproxy:"
	// ReleasedPrefix begins the name of the channel for a key's releases. By itself it is the
	// channel to which every connection subscribes first: see Changed.
	ReleasedPrefix = ReservedPrefix + "released:"
)
