package stat

import (
	"net"
	"time"
)

// Lock is a lock that holds a majority, as this proxy knows it.
type Lock struct {
	Key     string
	Mode    string // "exclusive", "shared", "limit" or "kept"
	Holders int    // the following are of the latest one
	Owner   string
	Fence   uint64
	Held    int           // masters
	TTL     time.Duration // until nobody holds it; negative: it never ends
	Waiting int           // clients of this proxy
	Age     time.Duration // since it was granted; 0: not known
	Slots   []Slot        // of "limit"
}

// Slot is a slot of a lock that is held.
type Slot struct {
	Slot  int // from 0
	Fence uint64
	Owner string
	TTL   time.Duration
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
	Mode  string   // what it asks for: "exclusive", "shared" or "limit"
	Since time.Duration
}
