package commands

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// advisor collects sentences for people: what to expect of a lock, and what to do. A command ends
// its sentence without a mark, so that it can be pasted. Times count down elsewhere.
type advisor struct {
	*stat.Why
	name  string // the name of the key on the masters
	key   string // for a command
	lines []string
}

func (a *advisor) add(format string, args ...any) {
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

// advice returns what to expect of the lock, and what to do.
func (o *operators) advice(w *stat.Why, info *quorum.Info) []string {
	a := &advisor{Why: w, name: o.opts.KeyPrefix + info.Key, key: plain.Arg(info.Key)}
	a.uncertain()
	switch {
	case w.Mode == quorum.Foreign.String():
		a.add("%s is a key of type %s that another program wrote on %s. lockproxy refuses LOCK and never "+
			"touches the key.", plain.Escape(a.name), cmp.Or(w.Type, "?"), mastersText(w.Held))
		a.foreign()
	case w.Mode == quorum.Kept.String():
		a.add("Its last holder keeps it closed (UNLOCK with KEEP).")
		a.add("To open it earlier: LOCKPROXY RELEASE %s", a.key)
	case w.Held > 0:
		a.held()
	case w.Blocked:
		a.blocked()
	case w.Quorum && w.Waiting > 0:
		a.add("It is free, or changes hands just now: the first waiter asks the masters at least once a second.")
	case w.Quorum:
		a.add("It is free: LOCK can have it.")
	}
	if n := w.Others(); n > 0 && !w.Blocked {
		a.add("Something else has this name on %s. Until it ends they do not vote for this key.", mastersText(n))
	}
	return a.lines
}

// uncertain adds the consequences if masters that do not answer would decide.
func (a *advisor) uncertain() {
	switch {
	case a.Error == "":
	case !a.Quorum:
		a.add("No lock can be granted or released until %d of the %d masters vote: see the errors of the masters.",
			a.Needed(), a.Masters)
		if a.Held > 0 {
			a.add("This was seen on %d of %d masters. The others may have another lock, or none.", a.Held, a.Masters)
		}
	default:
		a.add("%s cannot have it now: it needs %d of the %d masters, and %d are free.", a.command(), a.Needed(),
			a.Masters, a.Free())
		if a.Mode != quorum.Foreign.String() {
			a.add("This was seen on %d of %d masters. If those that did not answer have it, too, it is held. Else it is "+
				"the rest of a lock.", a.Held, a.Masters)
		}
	}
}

// command is the LOCK that keys on the masters refuse.
func (a *advisor) command() string {
	joins := func(mode string) bool { return mode == quorum.Shared.String() || mode == quorum.Limited.String() }
	if joins(a.Mode) || slices.ContainsFunc(a.Voters, func(v stat.WhyMaster) bool { return joins(v.Other) }) {
		return "LOCK without SHARED or LIMIT"
	}
	return "LOCK"
}

// foreign adds how to get another program's key out of the way.
func (a *advisor) foreign() {
	a.add("Give that program other names, or lockproxy another key-prefix.")
	a.add("If no program uses the key any more, delete it on these masters: DEL %s", plain.Arg(a.name))
}

// blocked adds what to do if no majority of the masters has one holder or one kind of key.
func (a *advisor) blocked() {
	a.add("Nobody holds it, but %s cannot have it: it needs %d of the %d masters, and %d are free of other keys with "+
		"this name.", a.command(), a.Needed(), a.Masters, a.Free())
	foreign := func(v stat.WhyMaster) bool { return v.Other == quorum.Foreign.String() }
	if slices.ContainsFunc(a.Voters, foreign) {
		a.add("%s is another program's key on some of them, which lockproxy never touches.", plain.Escape(a.name))
		a.foreign()
	}
	if slices.ContainsFunc(a.Voters, func(v stat.WhyMaster) bool { return v.Other != "" && !foreign(v) }) {
		a.add("To delete what looks like a lock there, if no client uses it: LOCKPROXY RELEASE %s", a.key)
	}
}

// held adds the advice about a lock that is held.
func (a *advisor) held() {
	if a.TTL < 0 {
		a.add("It has no expiry, so it does not end by itself.")
	}
	if held := time.Since(time.UnixMilli(a.Since)); a.Since > 0 && a.Granted > 0 &&
		held > time.Duration(a.Granted)*time.Millisecond {
		a.add("It is held for longer than its ttl of %s, so it is being extended.",
			plain.Duration(time.Duration(a.Granted)*time.Millisecond))
	}
	if a.Fence == 0 {
		a.add("It has no fence: a Redlock library or another program wrote it on the masters, or fencing is off.")
	}
	whose := "it while its holder"
	if len(a.Slots) > 0 {
		first := slices.MinFunc(a.Slots, func(s, t stat.WhySlot) int { return cmp.Compare(s.TTL, t.TTL) })
		a.add("Slot %d is the first to end, unless it is extended. LOCK with a LIMIT over %d can have another slot now; "+
			"LOCK without LIMIT needs all slots free.", first.Slot, len(a.Slots))
		whose = "all slots while their holders"
	} else if a.Holders > 1 {
		whose = "it while its holders"
	}
	if a.Quorum {
		a.add("To free %s may still work: LOCKPROXY RELEASE %s", whose, a.key)
	}
}

func mastersText(n int) string {
	if n == 1 {
		return "1 master"
	}
	return fmt.Sprintf("%d masters", n)
}
