package commands

import (
	"fmt"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// advice returns sentences for people: what to expect of the lock, and what to do.
func (o *operators) advice(w *stat.Why, info *quorum.Info) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !w.Quorum {
		add("No lock can be granted or released until %d of the %d masters vote: see the errors of the masters.",
			w.Masters/2+1, w.Masters)
		if w.Held > 0 {
			add("This was seen on %d of %d masters. The others may have another lock, or none.", w.Held, w.Masters)
		}
	}
	switch {
	case w.Mode == quorum.Foreign.String():
		name := plain.Escape(o.opts.KeyPrefix + info.Key)
		add("%s is a key of type %s that another program wrote on %s. lockproxy refuses LOCK and never "+
			"touches the key.", name, w.Type, mastersText(w.Held))
		add("Give that program other names, or lockproxy another key-prefix. If no program uses the key any more, " +
			"delete it on these masters.")
	case w.Mode == quorum.Kept.String():
		add("Its last holder keeps it closed (UNLOCK with KEEP). %s", o.end(w))
		add("To open it earlier: LOCKPROXY RELEASE %s.", w.Key)
	case w.Held > 0:
		o.adviseHeld(w, info, add)
	case w.Quorum && w.Blocked():
		add("Nobody holds it, but LOCK cannot have it: too few masters are free of other keys with this name.")
	case w.Quorum && w.Waiting > 0:
		add("It is free, or changes hands just now: the first waiter asks the masters at least once a second.")
	case w.Quorum:
		add("It is free: LOCK can have it.")
	}
	if n := w.Others(); n > 0 {
		add("Something else has this name on %s. Until it ends they do not vote for this key.", mastersText(n))
	}
	return lines
}

// adviseHeld adds the advice about a lock that is held.
func (o *operators) adviseHeld(w *stat.Why, info *quorum.Info, add func(string, ...any)) {
	add("%s", o.end(w))
	if held := time.Since(time.UnixMilli(w.Since)); w.Since > 0 && w.Granted > 0 &&
		held > time.Duration(w.Granted)*time.Millisecond {
		add("It is held for longer than its ttl of %s, so it is being extended.",
			plain.Duration(time.Duration(w.Granted)*time.Millisecond))
	}
	if info.Fence == 0 {
		add("It has no fence: a Redlock library or another program wrote it on the masters, or fencing is off.")
	}
	if w.Quorum {
		add("To free it while its holder may still work: LOCKPROXY RELEASE %s.", w.Key)
	}
}

// end says when the lock ends.
func (o *operators) end(w *stat.Why) string {
	switch {
	case w.TTL < 0:
		return "It has no expiry, so it does not end by itself."
	case w.Mode == quorum.Kept.String():
		return fmt.Sprintf("It opens in %.1f s.", float64(w.TTL)/1000)
	}
	return fmt.Sprintf("It ends in %.1f s unless it is extended.", float64(w.TTL)/1000)
}

func mastersText(n int) string {
	if n == 1 {
		return "1 master"
	}
	return fmt.Sprintf("%d masters", n)
}
