package wire

import "time"

// Mode is the kind of a lock: who may hold it beside others. A key has one mode at a time.
type Mode uint8

const (
	Exclusive Mode = iota // one holder
	Shared                // any number of holders that are all shared
	Limited               // at most so many holders, each with a slot of its own
	Kept                  // no holder: it was released and stays closed for a while
	Foreign               // no lock at all: a key of a type that no lock has
)

// String returns the mode in the form of LOCKINFO.
func (m Mode) String() string {
	return [...]string{"exclusive", "shared", "limit", "kept", "foreign"}[m]
}

const (
	// MaxKeys is how many keys are locked together at most.
	MaxKeys = 16
	// MaxLimit is how many may hold a key with Limited at most.
	MaxLimit = 128
)

// Terms are the extra arguments of an operation, unless the lock is exclusive, of one key, and no
// client waits for it. They never change once the operation is queued. Of a Release that publishes
// they are a hint: it releases a lock of any kind.
type Terms struct {
	Mode     Mode
	Limit    int           // of Limited: the slots from 0 to Limit-1 may be taken
	Try      [2]int        // of Limited: the slots that are tried first
	Slot     int           // of Limited, top-up: the slot
	More     []string      // full keys that are locked together with Op.Key
	Counters []uint16      // the fencing counters of More
	Waits    time.Duration // the lifetime of the intent, 0 for none: see IntentPrefix
}

// IntentPrefix begins the name of an intent: a key that says that a client waits for a lock that
// holders of another mode have. While it exists no others may join them. It is a hint, and never a
// vote.
const IntentPrefix = ReservedPrefix + "intent:"

// Changed is the channel to which every connection subscribes before its first one of
// ChangedPrefix. It carries no messages: a master without subscribers to it looks for none of the
// keys.
const Changed = ReservedPrefix + "changed"

// ChangedPrefix begins the name of the channel for a key's grants, and for readers and slots that
// end while others hold it.
const ChangedPrefix = ReservedPrefix + "changed:"
