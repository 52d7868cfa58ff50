package stat

import (
	"net"
	"time"
)

// Lock is this proxy's view of a lock that holds a majority, or of a key that is in its way.
type Lock struct {
	Key     string
	Mode    string // "exclusive", "shared", "limit", "kept", or "foreign" for a key that is no lock
	Type    string // of "foreign": the type of the key, as Redis names it
	Holders int    // the following are of the latest one; 0: "foreign"
	Owner   string
	Fence   uint64
	Held    int           // masters on which it is
	Masters int           // all masters
	TTL     time.Duration // until the last holder's lock expires; negative: never
	Waiting int           // clients of this proxy
	Age     time.Duration // since it was granted; 0: not known
	Slots   []Slot        // of "limit"
	Adopted bool          // taken by a library at adopt-listen
}

// Slot is a taken slot of a lock with LIMIT.
type Slot struct {
	Slot  int // from 0
	Fence uint64
	Owner string
	TTL   time.Duration // as Lock.TTL
}

// Operator is a user of the operators' page.
type Operator struct {
	Client net.Addr
	Unix   bool // on a Unix socket
	Token  bool // has shown the admin-token
}

// Waiting is a key that clients of this proxy wait for.
type Waiting struct {
	Key     string
	Clients int
	Longest time.Duration // how long the head of its wait queue has waited
	First   []Waiter      // the first few, in order
}

// Waiter is a client that waits for a key.
type Waiter struct {
	From  net.Addr // nil: not known
	Owner string   // the label of LOCK
	Mode  string   // the requested kind: "exclusive", "shared" or "limit"
	Since time.Duration
}
