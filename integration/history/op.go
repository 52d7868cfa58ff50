// Package history records what the clients of a lock service asked and were told, and judges it:
// whether two of them could count on one lock at the same time, whether fencing numbers rise,
// whether a lock was lost that should have stood. It knows the contract of LOCK, UNLOCK and
// EXTEND, and nothing of how it is kept.
package history

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Kind is what was asked.
type Kind uint8

// The commands that are recorded.
const (
	Lock Kind = iota
	Unlock
	Extend
)

// String is the name of the command.
func (k Kind) String() string { return [...]string{"LOCK", "UNLOCK", "EXTEND"}[k] }

// Outcome is what came back.
type Outcome uint8

// The outcomes. The zero value claims nothing.
const (
	Unknown Outcome = iota // no reply in time, or the connection ended: it may have been done or not
	OK                     // a token; 1
	No                     // null; 0
	Failed                 // an error reply
)

// String is the outcome in a word.
func (o Outcome) String() string { return [...]string{"unknown", "ok", "no", "error"}[o] }

// Op is one command of one client.
type Op struct {
	Client  int
	Via     int // the proxy, from 0
	Kind    Kind
	Outcome Outcome
	Key     string // a command for several keys is one Op for each
	Mode    Mode   // LOCK; EXTEND that is to make it Shared
	Limit   int    // LOCK: what LIMIT named
	Slot    int    // LOCK, Limited, OK
	// Token is what was granted, or what UNLOCK and EXTEND named. A LOCK with the outcome Unknown
	// has one if its reply was seen after the client had given up.
	Token    string
	Fence    uint64        // LOCK, OK
	TTL      time.Duration // LOCK, EXTEND: asked for; UNLOCK: of KEEP, 0 without it
	Validity time.Duration // OK: what the reply promised; of UNLOCK KEEP, that nobody is granted it
	Label    string        // LOCK, UNLOCK KEEP: the owner label, by which a key on a master is known
	Error    string        // Failed: the reply

	// Call is when the first byte was about to be sent, Return when the reply had been read or was
	// given up. Both are of one monotonic clock, since the Log began.
	Call, Return time.Duration
}

// Until is when the client must stop to count on a LOCK or EXTEND that succeeded. It counts from
// the sending of the command: when the reply was sent cannot be known. For a LOCK that waited this
// may be before Return, and only an EXTEND tells more.
func (o *Op) Until() time.Duration { return o.Call + o.Validity }

// Secret is the part of the token that decides.
func (o *Op) Secret() string { return secretOf(o.Token) }

func secretOf(token string) string {
	_, secret, _ := strings.Cut(token, ":")
	return secret
}

// String is the operation on one line.
func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d via %d %s %s", o.Client, o.Via, o.Kind, o.Key)
	if o.Mode != Exclusive {
		fmt.Fprintf(&b, " %v", o.Mode)
	}
	if o.Mode == Limited {
		fmt.Fprintf(&b, " %d slot %d", o.Limit, o.Slot)
	}
	if o.Token != "" {
		fmt.Fprintf(&b, " %.24s", o.Token)
	}
	fmt.Fprintf(&b, " %s, %v to %v", o.Outcome, o.Call.Round(time.Microsecond), o.Return.Round(time.Microsecond))
	if o.Outcome == OK && (o.Kind != Unlock || o.keeps()) {
		fmt.Fprintf(&b, ", good until %v", o.Until().Round(time.Microsecond))
	}
	if o.Error != "" {
		fmt.Fprintf(&b, " (%.60s)", o.Error)
	}
	return b.String()
}

// Log collects operations. Safe for concurrent use.
type Log struct {
	start time.Time

	mu  sync.Mutex
	ops []Op
}

// NewLog begins a history now.
func NewLog() *Log { return &Log{start: time.Now()} }

// Now is the time since the history began.
func (l *Log) Now() time.Duration { return time.Since(l.start) }

// Add records an operation that is over.
func (l *Log) Add(o Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

// Ops returns what was recorded so far, in the order of Add. The caller must not change it.
func (l *Log) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ops[:len(l.ops):len(l.ops)]
}
