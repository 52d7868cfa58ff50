package wire

import "time"

// Mode is the kind of a lock: who may hold it beside others. A key has one mode at a time.
type Mode uint8

const (
	Exclusive Mode = iota // one holder
	Shared                // any number of holders that are all shared
	Limited               // at most so many holders, each with a slot of its own
	Kept                  // nobody: it was released and stays closed for a while
)

// String is the mode as LOCKINFO tells it.
func (m Mode) String() string { return [...]string{"exclusive", "shared", "limit", "kept"}[m] }

const (
	// MaxKeys is how many keys are locked together at most.
	MaxKeys = 16
	// MaxLimit is how many may hold a key with Limited at most.
	MaxLimit = 128
)

// Terms are what an operation on a lock has that is not exclusive, of one key and without waiting.
// They never change once the operation is queued. Of a Release that publishes they are a hint: it
// releases what the token holds, whatever that is.
type Terms struct {
	Mode  Mode
	Limit int           // of Limited: the slots from 0 to Limit-1 may be taken
	Try   [2]int        // of Limited: the slots that are tried first
	Slot  int           // of Limited, top-up: the slot
	More  []string      // full keys that are locked together with Op.Key
	Slots []uint16      // the counters of More
	Waits time.Duration // somebody waits for the lock: how long an intent may stand; 0 for none. See IntentPrefix
}

// IntentPrefix begins the name of the key that says that somebody waits for a lock that holders of
// another mode have. While it stands they are joined by nobody. It is a hint, and never a vote.
const IntentPrefix = ReservedPrefix + "intent:"

// Changed is the channel to which everybody subscribes before an own one of ChangedPrefix. Nothing
// is published there: a master without subscribers to it looks for none of the keys.
const Changed = ReservedPrefix + "changed"

// ChangedPrefix begins the name of the channel that tells of a key's grants, and of readers and
// slots that end while others hold it.
const ChangedPrefix = ReservedPrefix + "changed:"
