package commands

import (
	"errors"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands/internal/adopt"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/stat"
)

// The lock listener: locks of programs whose libraries lock by SET and scripts. Package adopt
// makes a command of a request, and adopter runs it on the masters.

// ValueLocks releases, refreshes and reads locks by their value. *quorum.Values is one and
// documents the methods. They are as those of Locker.
type ValueLocks interface {
	ReleaseAsync(want quorum.ValueRequest, done func(held bool, err error))
	RefreshAsync(want quorum.ValueRequest, done func(held bool, err error))
	ReadAsync(key string, done func(quorum.Held, error))
}

var _ ValueLocks = (*quorum.Values)(nil)

// AdoptKeys are patterns of the keys that are locks at the lock listener.
type AdoptKeys = adopt.Patterns

// ParseAdoptKeys parses the setting adopt-keys.
func ParseAdoptKeys(text string) (AdoptKeys, error) { return adopt.ParsePatterns(text) }

// AdoptOptions configure the lock listener. Values is required.
type AdoptOptions struct {
	Values ValueLocks
	Keys   AdoptKeys
	TTL    time.Duration // of a lock without an expiry; 0: such are refused
	// Left calls each with the keys of the upstream that match a pattern of Keys, at least once
	// each. Nil: LOCKPROXY INFO ADOPT is refused.
	Left LeftUpstream
}

// adopter runs the commands on lock keys.
type adopter struct {
	*lockCommands
	parser   *argParser
	service  *Service
	values   ValueLocks
	keys     AdoptKeys
	table    *adopt.Table
	refusals *listenerRefusals
}

func newAdopter(s *Service, locks *lockCommands, p *argParser) *adopter {
	o := s.opts.Adopt
	if o == nil {
		return nil
	}
	table := adopt.NewTable(adopt.Options{Keys: o.Keys, TTL: o.TTL, MaxTTL: s.opts.MaxTTL, ParseTTL: p.parseTTL,
		ParseKey: p.parseKey})
	return &adopter{lockCommands: locks, parser: p, service: s, values: o.Values, keys: o.Keys, table: table,
		refusals: newRefusals(s.opts.Log)}
}

// Judge is for resp.Options.Judge of the lock listener. It also learns the scripts that clients
// load at the upstream.
func (s *Service) Judge(argv [][]byte, total int, full bool) resp.Verdict {
	a := s.adopter
	switch a.keys.Judge(argv, total, full) {
	case adopt.More:
		return resp.More
	case adopt.Own:
		return resp.Take
	}
	if len(argv) == 3 && total == 3 && isWord(argv[0], "script") && isWord(argv[1], "load") {
		a.table.Learn(argv[2])
	}
	return resp.Pass
}

// BeginAdopted is Begin for the lock listener: it also runs the commands on lock keys.
func (s *Service) BeginAdopted(conn redcon.Conn, cmd redcon.Command, done func()) (begun bool) {
	if _, named := s.commands[string(cmd.Args[0])]; named {
		return s.Begin(conn, cmd, done)
	}
	k := s.adopter.newCall(conn, cmd)
	k.onLoop, k.done = true, done
	return s.adopter.start(k, cmd)
}

// ServeAdopted is a handler for every command of the lock listener that resp.Options.Judge takes.
func (s *Service) ServeAdopted(conn redcon.Conn, cmd redcon.Command) {
	if how, named := s.commands[string(cmd.Args[0])]; named {
		s.serve(how)(conn, cmd)
		return
	}
	k := s.adopter.newCall(conn, cmd)
	k.done, k.decided = func() {}, make(chan func(), 1)
	s.adopter.start(k, cmd)
	s.opts.Locker.Flush()
	k.finish(<-k.decided)
}

// adoptedCall is a command on a lock key. The answer that decides writes the reply.
type adoptedCall struct {
	loopCall
	how adopt.LockCommand
	// decided gets the function that writes the reply, for the goroutine that waits for it. Nil:
	// the callback of the masters writes the reply.
	decided chan func()
}

// adoptedFacts is what events say about a command on a lock key.
type adoptedFacts struct {
	how     *adopt.LockCommand // nil: not understood
	refusal *adopt.Refusal     // nil: not refused
	renewed bool               // RefreshOrTake found the lock held with the value
	// a refresh left the lock less time than it had, as far as this proxy knows
	shortened bool
}

func (a *adopter) newCall(conn redcon.Conn, cmd redcon.Command) *adoptedCall {
	k := &adoptedCall{loopCall: loopCall{call: newCall(command{name: string(cmd.Args[0])}, conn), service: a.service,
		conn: conn}}
	k.reply, k.adopted = k.space[:0], &adoptedFacts{}
	return k
}

// end ends the command: write writes its reply.
func (k *adoptedCall) end(write func()) {
	if k.decided == nil {
		k.finish(write)
		return
	}
	select {
	case k.decided <- write:
	default: // after a panic
	}
}

// start checks the command, in the order of Service.serve, and asks the masters. It returns false,
// without an effect, if only the upstream knows whether the client may lock, and k is on a loop.
func (a *adopter) start(k *adoptedCall, cmd redcon.Command) (begun bool) {
	defer func() {
		if r := recover(); r != nil {
			k.logPanic(r)
			k.end(k.fail)
			begun = true
		}
	}()
	err := a.service.prepare(&k.call, a.checks(k), cmd.Args)
	switch {
	case errors.Is(err, errMustAsk):
		return false
	case err != nil:
		k.end(func() { a.refuse(k, err) })
	default:
		a.run(k)
	}
	return true
}

// checks returns how the request of k is parsed.
func (a *adopter) checks(k *adoptedCall) preconditions {
	return preconditions{
		inTransaction: func(argv [][]byte) error { return a.table.InTransaction(argv) },
		parse: func(argv [][]byte) (args, error) {
			how, err := a.parse(k.session, argv)
			if err != nil {
				return args{}, err
			}
			k.how, k.adopted.how = how, &k.how
			return args{key: how.Key, ttl: how.TTL}, nil
		},
	}
}

// parse parses a request on a lock key. It refuses one that has lost bytes: its arguments may be
// incomplete.
func (a *adopter) parse(session *resp.Session, argv [][]byte) (adopt.LockCommand, error) {
	if cut, _ := session.Cut(); cut {
		return adopt.LockCommand{}, a.table.TooLong(argv)
	}
	return a.table.Parse(argv)
}

// refuse writes the reply to a command that does not run.
func (a *adopter) refuse(k *adoptedCall, err error) {
	k.refuse(err)
	if refusal, ok := errors.AsType[*adopt.Refusal](err); ok {
		k.adopted.refusal = refusal
		if refusal.Reason != "" && !k.noLogin { // every client could fill the log and the table
			a.refusals.note(refusal, k.session)
		}
	}
}

// adoptedEvents are the lock commands that commands on lock keys count as.
var adoptedEvents = map[adopt.Do]struct{ command, do string }{
	adopt.Take: {"lock", stat.DoTake}, adopt.RefreshOrTake: {"lock", stat.DoTake},
	adopt.Refresh: {"extend", stat.DoRefresh}, adopt.Release: {"unlock", stat.DoRelease},
	adopt.Read: {"lockinfo", stat.DoRead},
}

// complete makes e the event of a command on a lock key. It returns false if there is none to
// report.
func (f *adoptedFacts) complete(e *stat.Event) bool {
	e.Command, e.Via = "", stat.ViaAdopt
	if f.refusal != nil {
		e.Refused = string(f.refusal.Reason)
		return e.Refused != ""
	}
	if f.how == nil {
		return false
	}
	as := adoptedEvents[f.how.Do]
	if f.renewed {
		as = adoptedEvents[adopt.Refresh]
	}
	switch e.Command, e.Do = as.command, as.do; {
	case f.how.Add:
		e.Do = stat.DoExtend
	case f.shortened:
		e.Do = stat.DoShorten
	}
	if e.Command == "lock" {
		e.Kind = stat.KindExclusive
	}
	if f.how.Value != "" && f.how.Do != adopt.Read {
		e.Owner = quorum.OwnerOfValue(f.how.Value)
	}
	return true
}
