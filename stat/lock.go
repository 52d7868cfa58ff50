package stat

import "time"

// Lock is a lock that holds a majority, as this proxy knows it.
type Lock struct {
	Key     string
	Owner   string
	Fence   uint64
	Held    int           // masters
	TTL     time.Duration // left; negative: it never ends
	Waiting int           // clients of this proxy
	Age     time.Duration // since it was granted; 0: not known
}

// Waiting is a key that clients of this proxy wait for.
type Waiting struct {
	Key     string
	Clients int
	Longest time.Duration // how long the head of its wait queue has waited
}
