package adopt

import "time"

// Do is the effect of a command on a lock.
type Do uint8

const (
	// Take takes a free lock. Outcomes: Done, NotHeld (held by anyone, even with the same value).
	Take Do = iota + 1
	// Refresh sets the rest of a lock that has the value. Outcomes: Done, NotHeld, Free.
	Refresh
	// RefreshOrTake refreshes a lock that has the value, and else takes it if it is free.
	// Outcomes: Done (taken), Renewed, NotHeld (another holds it).
	RefreshOrTake
	// Release releases a lock that has the value. Outcomes: Done, NotHeld, Free.
	Release
	// Read reads a lock: see What. AppendRead writes its reply.
	Read
)

// What says which reply a Read wants.
type What uint8

const (
	ReadValue        What = iota + 1 // GET
	ReadExists                       // EXISTS
	ReadPTTL                         // PTTL
	ReadTTL                          // TTL: in seconds, rounded as Redis does
	ReadRestIfEqual                  // the rest in milliseconds if the lock has the value, else -3
	ReadValueAndRest                 // an array of the value and the rest in milliseconds
)

// Result is how a command that is not Read ended. The zero value is none.
type Result uint8

const (
	Done    Result = iota + 1 // taken, refreshed or released
	Renewed                   // of RefreshOrTake: the lock was held with this value
	NotHeld                   // another holds the lock, or (without TellsFree) the key is free
	Free                      // the key is free: only of use if TellsFree
	outcomes
)

// LockCommand is a command on a lock key in the proxy's terms.
type LockCommand struct {
	Name    string // in lower case: "set", "evalsha"
	Library string // of a script: where its form was seen
	Do      Do
	What    What   // of Read
	Key     string // without the proxy's prefix
	Value   string // 1 to 512 bytes; empty with Any and most Reads
	Any     bool   // of Release and Refresh: any adopted lock, of every value

	// Prefix is how many bytes at the front of the lock's value and of Value must be equal if
	// RefreshOrTake finds the lock held; 0: they must be equal as a whole. redislock compares its
	// token only and replaces the rest. It is safe to compare the whole: a renewal with another rest
	// then gets the reply of a lock that another holds.
	Prefix int

	// The reply promises TTL, of Take, RefreshOrTake and Refresh. That of a Refresh is at least 1 ms
	// and may be under min-ttl.
	TTL time.Duration
	// Add: Refresh adds TTL to the rest. Parse checks TTL alone: the sum may exceed max-ttl.
	Add bool

	reply replies
}

// replies are the replies to the outcomes of a command.
type replies [outcomes]fixedReply

// TellsFree reports whether the reply to a Release or Refresh that fails depends on whether
// another holds the lock (NotHeld) or the key is free (Free).
func (c *LockCommand) TellsFree() bool { return c.reply[Free] != c.reply[NotHeld] }

// Append appends the reply to a command that is not Read. resp3 says whether the client has chosen
// that protocol.
func (c *LockCommand) Append(b []byte, o Result, resp3 bool) []byte {
	return c.reply[o].append(b, resp3)
}

// Holding is who holds a key. It has the fields of quorum.Held, in the same order.
type Holding struct {
	Held    bool          // some lock, of any kind, or a key of another library
	Adopted bool          // by Value
	Value   string        // of an adopted lock
	Fence   uint64        // 0: of another library
	Rest    time.Duration // the rest of the ttl; negative: no expiry
}
