package commands

import (
	"cmp"
	"net"
	"strings"
	"time"
)

// Done is a command of ours that was answered, or what became of a lock without one. It holds no token.
type Done struct {
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

// Of LOCK: OutGranted to OutUndelivered. Of UNLOCK: OutReleased, OutNotHeld. Of EXTEND: OutExtended, OutLost. Of session locks: OutReleased, OutLost,
// OutLeft. Of LOCKINFO and LOCKPROXY: OutOK. Of all: OutNoQuorum, OutTryAgain, OutInvalid, OutDenied, OutInternal.
const (
	OutGranted     Outcome = "granted"
	OutTaken       Outcome = "taken"       // another holds it
	OutTimeout     Outcome = "timeout"     // WAIT was over
	OutGone        Outcome = "gone"        // the client left while it waited
	OutQueueFull   Outcome = "queue_full"  // max-waiters
	OutUndelivered Outcome = "undelivered" // granted, but the reply could not be delivered: released. It was reported as granted before
	OutReleased    Outcome = "released"
	OutNotHeld     Outcome = "not_held"
	OutExtended    Outcome = "extended"
	OutLost        Outcome = "lost"
	OutLeft        Outcome = "left" // the proxy ended the connection: the lock runs out by itself
	OutOK          Outcome = "ok"
	OutNoQuorum    Outcome = "noquorum"
	OutTryAgain    Outcome = "tryagain"
	OutInvalid     Outcome = "invalid" // the arguments, or the place: a transaction, a subscribed connection
	OutDenied      Outcome = "denied"  // authentication or permission
	OutInternal    Outcome = "internal"
)

// refusedAs is the outcome of a command that was not run, by its reply.
func refusedAs(err error) Outcome {
	if text := err.Error(); strings.HasPrefix(text, "NOAUTH ") || strings.HasPrefix(text, "NOPERM ") {
		return OutDenied
	}
	return OutInvalid
}

// report tells of c, which is over.
func (s *Service) report(c *call) {
	if s.o.Done == nil {
		return
	}
	d := Done{Command: c.name, Sub: c.sub, Outcome: cmp.Or(c.outcome, OutInternal), Key: c.key, Owner: c.owner, Fence: c.token.Fence, TTL: c.ttl, Wait: c.wait,
		Session: c.args.session, Took: time.Since(c.start), Held: c.held, User: c.user, Client: c.session.RemoteAddr()}
	s.o.Done(d)
}

// reportEnd tells what became of a session lock.
func (s *Service) reportEnd(h *hold, how Outcome) {
	if s.o.Done == nil {
		return
	}
	held := time.Duration(0)
	if how == OutReleased {
		held = s.holds.now().Sub(h.granted)
	}
	s.o.Done(Done{Command: "session", Outcome: how, Key: h.key, Fence: h.token.Fence, TTL: h.ttl, Session: true, Held: held, Client: h.session.RemoteAddr()})
}

// reportUndelivered tells that a lock just granted was released again.
func (s *Service) reportUndelivered(c *call) {
	if s.o.Done == nil {
		return
	}
	s.o.Done(Done{Command: "lock", Outcome: OutUndelivered, Key: c.key, Owner: c.owner, Fence: c.token.Fence, TTL: c.ttl, Wait: c.wait,
		Session: c.args.session, User: "", Client: c.session.RemoteAddr()})
}
