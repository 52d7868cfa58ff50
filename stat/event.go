package stat

import (
	"net"
	"time"
)

// Event is a lock command that was answered, or the end of a lock without one. It holds no token.
type Event struct {
	// "lock", "unlock", "extend", "lockinfo", "lockproxy"; "session" for a session lock that ended
	// without UNLOCK
	Command string
	Sub     string // of lockproxy: "release", ...; "help" of LOCK HELP; empty if it is not known
	Outcome Outcome
	// without the prefix; of LOCKPROXY ADMIT the master. Empty if the arguments were not
	// understood
	Key     string
	Keys    []string      // of KEYS: the further keys
	Kind    Kind          // of LOCK
	Owner   string        // the label of LOCK
	Fence   uint64        // of the token: the granted one, or the client's
	TTL     time.Duration // of LOCK and EXTEND
	Keep    time.Duration // of UNLOCK with KEEP
	Wait    bool          // LOCK or LOCKINFO with WAIT
	Session bool          // LOCK or EXTEND with SESSION, or the end of a session lock
	Took    time.Duration // until the reply was ready
	Held    time.Duration // how long a released lock was held; 0: not known
	User    string        // who is logged in on the connection; empty: not known
	NoLogin bool          // refused on a connection on which no client has logged in
	Client  net.Addr
	Via     string // "page": by the operators' page; ViaAdopt: at the lock listener; empty: by a command

	// Of the lock listener. Refused is why a command on a lock key was refused: then Command is
	// empty.
	Do      string // one of Dos: the act of the library
	Refused string // one of Refusals
}

// ViaAdopt is the Via of commands at the lock listener.
const ViaAdopt = "adopt"

// What libraries do at the lock listener. DoShorten is a refresh that leaves the lock less time
// than it had.
const (
	DoTake    = "take"
	DoRefresh = "refresh"
	DoRelease = "release"
	DoExtend  = "extend" // adds to the rest
	DoShorten = "shorten"
	DoRead    = "read"
)

// DoOutcomes names an act of a library at the lock listener, and the ways in which it may end.
type DoOutcomes struct {
	Name     string
	Outcomes []Outcome // beside AnyOutcomes
}

// Dos are all that libraries do.
var Dos = []DoOutcomes{
	{DoTake, []Outcome{OutcomeGranted, OutcomeTaken, OutcomeGone, OutcomeUndelivered}},
	{DoRefresh, []Outcome{OutcomeExtended, OutcomeLost}},
	{DoRelease, []Outcome{OutcomeReleased, OutcomeNotHeld}},
	{DoExtend, []Outcome{OutcomeExtended, OutcomeLost}},
	{DoShorten, []Outcome{OutcomeExtended}},
	{DoRead, []Outcome{OutcomeOK}},
}

// Refusals are the reasons to refuse a command on a lock key.
var Refusals = []string{"no_expiry", "ttl", "script", "command", "keys", "transaction", "value"}

// Kind says who may hold a lock beside others.
type Kind string

const (
	KindExclusive Kind = "exclusive"
	KindKeys      Kind = "keys" // exclusive, of several keys
	KindShared    Kind = "shared"
	KindLimit     Kind = "limit"
)

// Kinds are all kinds.
var Kinds = []Kind{KindExclusive, KindKeys, KindShared, KindLimit}

// Outcome says how a command ended.
type Outcome string

const (
	OutcomeGranted   Outcome = "granted"
	OutcomeTaken     Outcome = "taken"      // by another
	OutcomeTimeout   Outcome = "timeout"    // WAIT ended
	OutcomeGone      Outcome = "gone"       // the client disconnected while it waited
	OutcomeQueueFull Outcome = "queue_full" // max-waiters
	// granted, then released because the reply could not be delivered
	OutcomeUndelivered Outcome = "undelivered"
	OutcomeReleased    Outcome = "released"
	OutcomeNotHeld     Outcome = "not_held"
	OutcomeExtended    Outcome = "extended"
	OutcomeLost        Outcome = "lost"
	OutcomeLeft        Outcome = "left" // to run out: the proxy closed the connection, or the lock was to move to another
	OutcomeOK          Outcome = "ok"
	OutcomeNoQuorum    Outcome = "noquorum"
	OutcomeTryAgain    Outcome = "tryagain"
	// wrong arguments, in a transaction, or on a subscribed connection
	OutcomeInvalid  Outcome = "invalid"
	OutcomeDenied   Outcome = "denied" // authentication or permission
	OutcomeInternal Outcome = "internal"
)

// Failed reports whether the command failed for a reason other than the client's own mistake.
func (o Outcome) Failed() bool {
	switch o {
	case OutcomeNoQuorum, OutcomeTryAgain, OutcomeQueueFull, OutcomeUndelivered, OutcomeInternal:
		return true
	}
	return false
}

// CommandOutcomes is a lock command and what may become of it.
type CommandOutcomes struct {
	Name     string    // in lower case
	Outcomes []Outcome // beside AnyOutcomes
}

// Commands are all lock commands.
var Commands = []CommandOutcomes{
	{"lock", []Outcome{OutcomeGranted, OutcomeTaken, OutcomeTimeout, OutcomeGone, OutcomeQueueFull, OutcomeUndelivered,
		OutcomeOK}},
	{"unlock", []Outcome{OutcomeReleased, OutcomeNotHeld}},
	{"extend", []Outcome{OutcomeExtended, OutcomeLost}},
	{"lockinfo", []Outcome{OutcomeOK, OutcomeGone, OutcomeQueueFull}},
	{"lockproxy", []Outcome{OutcomeOK, OutcomeReleased, OutcomeNotHeld}},
}

// AnyOutcomes are the outcomes that every command may have.
var AnyOutcomes = []Outcome{OutcomeNoQuorum, OutcomeTryAgain, OutcomeInvalid, OutcomeDenied, OutcomeInternal}

// SessionOutcomes are the ways in which session locks end without UNLOCK.
var SessionOutcomes = []Outcome{OutcomeReleased, OutcomeLeft, OutcomeLost}
