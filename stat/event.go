package stat

import (
	"net"
	"time"
)

// Done is a command of ours that was answered, or what became of a lock without one. It holds no token.
type Event struct {
	Command string        // "lock", "unlock", "extend", "lockinfo", "lockproxy"; "session" for a session lock that ended without UNLOCK
	Sub     string        // of lockproxy: "release", ...; empty where it is not known
	Outcome Outcome       // how it ended
	Key     string        // without Options.KeyPrefix; of LOCKPROXY ADMIT the master. Empty where the arguments were not understood
	Owner   string        // the label of LOCK
	Fence   uint64        // of the token, as granted or as the client gave it; it proves nothing
	TTL     time.Duration // of LOCK and EXTEND
	Wait    bool          // LOCK with WAIT
	Session bool          // LOCK with SESSION
	Took    time.Duration // until the reply was ready
	Held    time.Duration // a lock that was released: since it was granted; 0 if that was not here, or is forgotten
	User    string        // who is logged in on the connection, as far as is known
	Client  net.Addr
}

// Outcome says how a command ended. There are no others than these.
type Outcome string

// Commands, AnyOutcomes and SessionOutcomes say what has which.
const (
	OutcomeGranted     Outcome = "granted"
	OutcomeTaken       Outcome = "taken"       // another holds it
	OutcomeTimeout     Outcome = "timeout"     // WAIT was over
	OutcomeGone        Outcome = "gone"        // the client left while it waited
	OutcomeQueueFull   Outcome = "queue_full"  // max-waiters
	OutcomeUndelivered Outcome = "undelivered" // granted, but the reply could not be delivered: released. It was reported as granted before
	OutcomeReleased    Outcome = "released"
	OutcomeNotHeld     Outcome = "not_held"
	OutcomeExtended    Outcome = "extended"
	OutcomeLost        Outcome = "lost"
	OutcomeLeft        Outcome = "left" // the proxy ended the connection: the lock runs out by itself
	OutcomeOK          Outcome = "ok"
	OutcomeNoQuorum    Outcome = "noquorum"
	OutcomeTryAgain    Outcome = "tryagain"
	OutcomeInvalid     Outcome = "invalid" // the arguments, or the place: a transaction, a subscribed connection
	OutcomeDenied      Outcome = "denied"  // authentication or permission
	OutcomeInternal    Outcome = "internal"
)

// Command is a lock command.
type Command struct {
	Name     string    // in lower case
	Outcomes []Outcome // beside AnyOutcomes
}

// Commands are all lock commands.
var Commands = []Command{
	{"lock", []Outcome{OutcomeGranted, OutcomeTaken, OutcomeTimeout, OutcomeGone, OutcomeQueueFull, OutcomeUndelivered}},
	{"unlock", []Outcome{OutcomeReleased, OutcomeNotHeld}},
	{"extend", []Outcome{OutcomeExtended, OutcomeLost}},
	{"lockinfo", []Outcome{OutcomeOK}},
	{"lockproxy", []Outcome{OutcomeOK, OutcomeReleased, OutcomeNotHeld}},
}

// AnyOutcomes are the outcomes that every command may have.
var AnyOutcomes = []Outcome{OutcomeNoQuorum, OutcomeTryAgain, OutcomeInvalid, OutcomeDenied, OutcomeInternal}

// SessionOutcomes are how session locks end without UNLOCK.
var SessionOutcomes = []Outcome{OutcomeReleased, OutcomeLeft, OutcomeLost}
