package stat

import (
	"net"
	"time"
)

// Lock is this proxy's view of a lock that holds a majority, or of a key that is in its way: the
// reply to LOCKINFO, and an entry of LOCKPROXY LOCKS and, as JSON, of lockproxy status.
type Lock struct {
	Key     string `json:"key"`
	Held    int64  `json:"held"` // masters on which it is
	Masters int64  `json:"-"`    // all masters
	TTL     int64  `json:"ttl"`  // milliseconds until the last holder's lock expires; negative: never
	Fence   int64  `json:"fence"`
	Owner   string `json:"owner"`
	Waiting int64  `json:"waiting"`         // clients of this proxy
	Mode    string `json:"mode"`            // "exclusive", "shared", "limit", "kept" or "foreign"
	Holders int64  `json:"holders"`         // fence and owner are of the latest one; 0: "foreign"
	Slots   []Slot `json:"slots,omitempty"` // of "limit"

	Type    string        `json:"-"` // of "foreign", a key that is no lock: its type in Redis' words
	Age     time.Duration `json:"-"` // since it was granted; 0: not known
	Adopted bool          `json:"-"` // taken by a library at adopt-listen
}

// Fields returns the fields in the order of the reply, without Slots and Type. The key is the
// first; LOCKINFO leaves it out.
func (l *Lock) Fields() []Field {
	return []Field{
		{Name: "key", Text: &l.Key}, {Name: "held", Number: &l.Held}, {Name: "masters", Number: &l.Masters},
		{Name: "ttl", Number: &l.TTL}, {Name: "fence", Number: &l.Fence}, {Name: "owner", Text: &l.Owner},
		{Name: "waiting", Number: &l.Waiting}, {Name: "mode", Text: &l.Mode}, {Name: "holders", Number: &l.Holders},
	}
}

// Slot is a taken slot of a lock with LIMIT.
type Slot struct {
	Slot  int64  `json:"slot"` // from 0
	Fence int64  `json:"fence"`
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl"` // as Lock.TTL
}

// Fields returns the fields in the order of the reply.
func (s *Slot) Fields() []Field {
	return []Field{{Name: "slot", Number: &s.Slot}, {Name: "fence", Number: &s.Fence},
		{Name: "owner", Text: &s.Owner}, {Name: "ttl", Number: &s.TTL}}
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
