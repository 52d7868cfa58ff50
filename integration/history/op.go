// Package history records the commands of clients of a lock service and the replies ([Log], [Op]).
// [Check] judges them: whether two clients counted on one lock at the same time, whether fencing
// numbers rise, and whether a lock was lost before its validity ended. It knows only the contract
// of LOCK, UNLOCK and EXTEND, not the implementation.
package history

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Kind is the command of an Op.
type Kind uint8

// The commands of a history.
const (
	Lock Kind = iota
	Unlock
	Extend
)

// String returns the name of the command.
func (k Kind) String() string { return [...]string{"LOCK", "UNLOCK", "EXTEND"}[k] }

// Outcome is the result of a command.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota // no reply in time, or the connection ended: the command may have been executed
	OK                     // a token; 1
	No                     // null; 0
	Failed                 // an error reply
)

// String returns the outcome in a word.
func (o Outcome) String() string { return [...]string{"unknown", "ok", "no", "error"}[o] }

// Op is one command of one client.
type Op struct {
	Client  int
	Via     int // the proxy, from 0
	Kind    Kind
	Outcome Outcome
	Key     string // a command for several keys is one Op for each
	Mode    Mode   // of LOCK; Shared also for EXTEND SHARED
	Limit   int    // LOCK: the argument of LIMIT
	Slot    int    // LOCK, Limited, OK
	// Token is the token in the reply to LOCK, or the argument of UNLOCK and EXTEND. A LOCK with
	// the outcome Unknown has one if its reply came after the client had given up.
	Token    string
	Fence    uint64        // LOCK, OK
	TTL      time.Duration // the argument of LOCK and EXTEND; of KEEP for UNLOCK, 0 without KEEP
	Validity time.Duration // OK: from the reply; for UNLOCK KEEP, how long the key stays closed
	Label    string        // LOCK, UNLOCK KEEP: the owner label, which identifies a key on a master
	Error    string        // Failed: the reply

	// The client was about to send the first byte at Call. It had read the reply, or gave up, at
	// Return. Both count from the start of the Log, on one monotonic clock.
	Call, Return time.Duration
}

// Until returns the time until which the client may count on a LOCK or EXTEND that succeeded. It
// counts from the sending of the command, because the client cannot know when the reply was sent.
// For a LOCK that waited it may be before Return; then the client knows more only after an EXTEND.
func (o *Op) Until() time.Duration { return o.Call + o.Validity }

// Secret returns the part of the token that proves ownership.
func (o *Op) Secret() string { return secretOf(o.Token) }

func secretOf(token string) string {
	_, secret, _ := strings.Cut(token, ":")
	return secret
}

// String returns the operation on one line.
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

// Now returns the time since the history began.
func (l *Log) Now() time.Duration { return time.Since(l.start) }

// Add records an operation that has ended.
func (l *Log) Add(o Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

// Ops returns all operations so far, in the order of Add. The caller must not change them.
func (l *Log) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ops[:len(l.ops):len(l.ops)]
}
