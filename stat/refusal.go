package stat

import (
	"net"
	"time"
)

// RefusedKind is a kind of command that the lock listener refuses.
type RefusedKind struct {
	Reason  string // one of Refusals
	SHA1    string // of a script
	Text    string // the latest error, without the dash
	Key     string // of the latest, printable
	Library string // of the latest: what its client calls itself; empty: not known
	Client  net.Addr
	Count   uint64
	Last    time.Time
}
