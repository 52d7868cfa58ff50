// Package wire turns lock operations into the bytes that a master gets, and a master's bytes into
// replies. It keeps the scripts, the encoding, the format of a lock's value and the choice of its
// counter. It knows no sockets and no clocks.
package wire

import "time"

// Kind is what an operation does.
type Kind uint8

const (
	Acquire Kind = iota // sets the lock if nothing stands at its key
	Raise               // raises the counter and the fence of the lock
	Release             // deletes the lock
	Fade                // shortens the lock's life
	TopUp               // sets the lock on a master that missed it, or raises its expiry
	Extend              // raises the lock's expiry
	Check               // asks whether the lock stands
	Share               // makes an exclusive lock a shared one, and extends it
	Inspect             // asks what stands at the key
	Free                // deletes whatever lock stands at the key
)

// Votes reports whether a master carries the operation out only under the record of the packet.
// Operations that undo something are carried out on any master that can be reached.
func (k Kind) Votes() bool { return k != Release && k != Fade && k != Free }

// TokenAt is a token at a key. A token is good for one key, but a client may name it with another.
type TokenAt struct {
	Key    string // with its prefix
	Secret string // SecretLen lower-case hex digits
}

// Op is one lock operation. A TTL is rounded down to whole milliseconds, but not to less than one.
type Op struct {
	Kind Kind
	TokenAt
	Slot    uint16        // the counter of Key, as Slot tells it
	Fence   uint64        // of Raise and TopUp
	TTL     time.Duration // of Acquire, Extend, Share and TopUp; of Fade the longest that the lock lives on; of Release how long it stays closed, 0 for none
	Owner   string        // of Acquire and TopUp: the label behind the fence
	Publish bool          // of Release: tell those who wait for the key
	Terms   *Terms        // nil for an exclusive lock of one key for which nobody waits
}

// Mode is the kind of lock that the operation is about.
func (o *Op) Mode() Mode {
	if o.Terms == nil {
		return Exclusive
	}
	return o.Terms.Mode
}

// more are the keys of the operation beside Key. Only an Acquire and a Raise are of several.
func (o *Op) more() []string {
	if o.Terms == nil || o.Kind != Acquire && o.Kind != Raise {
		return nil
	}
	return o.Terms.More
}

// MaxOps is how many operations a packet holds at most.
const MaxOps = 64

const (
	// ReservedPrefix begins the names of everything that lockproxy keeps on a master beside the
	// locks.
	ReservedPrefix = "lockproxy:"
	// ReleasedPrefix begins the name of the channel that tells of a key's releases. By itself it is
	// the channel to which everybody subscribes before that: see Changed.
	ReleasedPrefix = ReservedPrefix + "released:"
)
