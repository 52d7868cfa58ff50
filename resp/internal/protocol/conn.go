// Package protocol decides when a lock command may run on a connection to Redis.
//
// A [Conn] follows the requests that a client sends and the replies that the upstream gives, and
// says whether the next lock command runs, is forwarded or is dropped, or whether the upstream
// must be asked first. A [ReplyReader] counts the replies and removes the answers to our own
// queries. The package reads bytes and returns bytes; it knows no sockets, clocks or goroutines.
package protocol

import (
	"sync/atomic"

	"lockproxy/resp/internal/scan"
)

// Facts describe how the upstream treats a connection that has not authenticated.
type Facts struct {
	// AuthRequired: it refuses ordinary commands. Unless that is due to GuestsLimited, lock
	// commands are held to the limits that Redis has there.
	AuthRequired bool
	// GuestsLimited: it refuses them because each connection starts as a user with few rights.
	// A client that is logged in as that user does not count as authenticated.
	GuestsLimited bool
	// Resets: it knows RESET (Redis 6.2). Then the function set by OnEnd is called for each.
	Resets bool
}

// Decision is the fate of a lock command.
type Decision uint8

const (
	Run     Decision = iota // the proxy runs it
	Ask                     // the upstream must be asked before anything can be decided
	Forward                 // the upstream gets it: replies are off or garbled
	Drop                    // CLIENT REPLY SKIP was meant for it
)

// Effect is a task that a request gives to the pump.
type Effect uint8

const (
	EffectNone   Effect = iota
	EffectReset         // RESET goes to an upstream that knows it
	EffectAsk           // replies may be on again: ask before anything else is forwarded
	EffectOpaque        // later bytes are not recognised as requests and replies
	EffectQuit          // the client said QUIT
)

// Options configure a Conn.
type Options struct {
	Facts    func() Facts // may change at any time
	AskUser  bool         // ask the upstream for the user
	LoggedIn bool         // the connection is logged in from its start
	User     string       // the user it starts as
	Hints    []Hint       // commands that the replies to COMMAND get
}

// Conn is one connection to the upstream. The pump forwards requests and asks; the copier, through
// a ReplyReader, counts replies and finds answers. Methods are the pump's unless they say
// otherwise.
type Conn struct {
	options Options

	standing     Standing
	changes      changes // since the upstream was asked
	blocking     uint64  // the number of the last request that may block; 0: none
	silentSince  uint64  // replies received when the upstream was found silent; valid with repliesOff
	withoutHello bool    // the upstream does not know a bare HELLO

	ReplyCounts
	resp3   atomic.Bool // see RESP3
	queries queries
	edits   chan *edit // the pump sends, the ReplyReader receives; nil without hints
}

// Init prepares a Conn before the upstream is dialled.
func (c *Conn) Init(o Options) {
	c.options = o
	c.standing = Standing{LoggedIn: o.LoggedIn, User: o.User}
}

// Connected is called once, when the upstream was dialled, before anything else. Lines of MONITOR
// that show our own queries are found by address and removed; if it is empty, the lines of any
// connection match.
func (c *Conn) Connected(address string) {
	c.queries.from = []byte("] ")
	if address != "" {
		c.queries.from = []byte(" " + address + "] ")
	}
	c.queries.answered = make(chan uint64, 1)
	if len(c.options.Hints) > 0 {
		c.edits = make(chan *edit, mostEdits)
	}
}

// Standing returns the upstream's view of the connection.
func (c *Conn) Standing() Standing { return c.standing }

// AskAgain makes the next lock command ask the upstream.
func (c *Conn) AskAgain() { c.changes |= unsure }

// RESP3 reports whether the client speaks RESP3: the upstream said so, and no request since may
// have changed it. Safe for concurrent use.
func (c *Conn) RESP3() bool { return c.resp3.Load() }

// SetRESP3 notes that the client speaks RESP3, or RESP2, on a connection without an upstream.
func (c *Conn) SetRESP3(on bool) { c.resp3.Store(on) }

// AtRest reports whether no reply is missing and no transaction is open. It does not look at
// subscriptions.
func (c *Conn) AtRest() bool { return c.AllAnswered() && !c.changes.has(multi) }

// Ready reports whether a lock command may run without a query: everything before it is answered,
// the standing is known, and the upstream is not about to close.
func (c *Conn) Ready() bool {
	return c.Countable() && c.AllAnswered() && !c.mustAsk() && !c.changes.has(quit)
}

// Decide returns Run, Ask or Forward for a lock command that comes next.
func (c *Conn) Decide() Decision {
	switch {
	case c.Ready():
		return Run
	case c.garbled.Load() || c.silent():
		return Forward
	}
	return Ask
}

// mustAsk reports whether a lock command asks even if no request may have changed the standing:
// the connection is not known to be logged in as more than a guest.
func (c *Conn) mustAsk() bool { return !c.standing.LoggedIn || c.guest() }

// silent reports whether replies were found to be off, and no reply has come since.
func (c *Conn) silent() bool {
	if c.received.Load() != c.silentSince {
		c.changes &^= repliesOff
	}
	return c.changes.has(repliesOff)
}

// Limited reports whether lock commands are held to the limits that Redis has before
// authentication. Guests have none.
func (c *Conn) Limited() bool {
	facts := c.options.Facts()
	return !c.standing.LoggedIn && !c.changes.has(unsure) && facts.AuthRequired && !facts.GuestsLimited
}

// Authenticated reports whether the connection is logged in and is not a guest.
func (c *Conn) Authenticated() bool { return c.standing.LoggedIn && !c.guest() }

// MayBeGuest reports whether the connection belongs to a default user who needs no password and
// has few rights, or whether the upstream has such a user and named none for this connection.
func (c *Conn) MayBeGuest() bool {
	unnamed := c.standing.User == DefaultUser || c.standing.User == ""
	return c.standing.Asked && unnamed && c.options.Facts().GuestsLimited
}

// guest is MayBeGuest where lock commands are not refused anyway. An operator may take rights away
// at any time, so each command of a guest asks.
func (c *Conn) guest() bool { return c.MayBeGuest() && c.standing.Mode == ModeNormal }

// Ask returns the requests of the next query, and its number.
func (c *Conn) Ask() (request []byte, number uint64) {
	request = c.queries.ask(asks{
		standing:     c.changes.has(unsure) || c.mustAsk(),
		user:         c.options.AskUser || c.options.Facts().GuestsLimited,
		skip:         c.changes.has(skipNext),
		withoutHello: c.withoutHello,
	})
	return request, c.queries.last.number
}

// Markers returns how many markers the last query has. The upstream answers each with an error.
func (c *Conn) Markers() uint64 { return c.queries.last.markers }

// Answered returns the channel that gets the number of each query whose answers are complete, and
// 0 when the replies become garbled.
func (c *Conn) Answered() <-chan uint64 { return c.queries.answered }

// Deliver sends to the channel of Answered. It never waits: the pump may have stopped listening.
// The copier calls it.
func (c *Conn) Deliver(number uint64) {
	select {
	case <-c.queries.answered: // a number that the pump did not take
	default:
	}
	c.queries.answered <- number
}

// Conclude reads the answers to the last query. It returns Run, Drop, or Ask if another query is
// needed.
func (c *Conn) Conclude() Decision {
	q := c.queries.last.asks
	c.changes &= monitor | multi | quit | irregular
	hello, whoami := c.queries.head[0], c.queries.head[1]
	if !q.user {
		whoami = nil
	}
	if q.standing && !c.learn(hello, whoami) {
		c.changes |= unsure
		return Ask
	}
	if q.skip && !c.queries.passed {
		return Drop
	}
	return Run
}

// learn sets the standing from the answers of a full query. It returns false if the upstream does
// not know a bare HELLO.
func (c *Conn) learn(hello, whoami []byte) (known bool) {
	now, known := readStanding(hello, whoami, c.standing.RESP3, c.withoutHello)
	if !known {
		c.withoutHello = true
		return false
	}
	c.standing = now
	c.resp3.Store(now.RESP3)
	return true
}

// SilenceMeansOff reports whether the upstream may not answer because replies are off.
func (c *Conn) SilenceMeansOff() bool { return c.changes.has(mayBeOff) }

// GiveUp ends the waiting for an answer: replies are off.
func (c *Conn) GiveUp() {
	c.queries.giveUp()
	c.changes |= repliesOff
	c.silentSince = c.received.Load()
}

// Countable reports whether replies can be matched with requests by counting: every request since
// the upstream was asked has one reply, and only replies look like replies.
func (c *Conn) Countable() bool {
	return !c.changes.has(unsure) && !c.changes.has(monitor) && c.standing.Mode != ModeSubscribed && !c.garbled.Load()
}

// MayBlock reports whether the upstream may be waiting for another client before it answers: a
// blocking request was sent and is not known to be answered.
func (c *Conn) MayBlock() bool {
	return c.blocking > 0 && !(c.Countable() && c.received.Load() >= c.blocking)
}

// Note takes a notable request that is about to be forwarded, and counts its reply, unless it
// subscribes.
func (c *Conn) Note(req *scan.Requests) (effect Effect) {
	if !c.MayBlock() {
		c.blocking = 0 // later this may not be known
	}
	switch req.Kind {
	case scan.KindSubscribe: // answered by any number of frames, which may be pushes
		c.changes |= unsure | irregular
		return EffectNone
	case scan.KindCommand:
		c.hint(req)
	case scan.KindBlocking, scan.KindStream:
		if req.MayBlock() {
			c.blocking = c.sent.Load() + 1
		}
	case scan.KindHello, scan.KindReset:
		c.resp3.Store(false)
	}
	c.changes, effect = c.changes.after(req)
	c.sent.Add(1)
	if effect == EffectReset && !c.options.Facts().Resets {
		return EffectNone
	}
	return effect
}
