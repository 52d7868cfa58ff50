package protocol

import "lockproxy/resp/internal/scan"

// changes is the set of changes that the client's requests may have made to a connection since the
// upstream was asked. The replies to them are not looked at. A change noted in vain costs one
// query.
type changes uint8

const (
	unsure     changes = 1 << iota // the standing may have changed, or a request may not have exactly one reply
	mayBeOff                       // after CLIENT REPLY OFF: replies may be off
	repliesOff                     // a query was not answered, and no request since may have switched replies on
	skipNext                       // after CLIENT REPLY SKIP: the next request may get no reply
	monitor                        // after MONITOR: lines may come at any time, for the rest of the connection's life
	multi                          // the last of MULTI, EXEC, DISCARD and RESET is MULTI
	quit                           // after QUIT: the upstream is about to close
	irregular                      // a request may not have exactly one reply, for the rest of the connection's life
)

// has reports whether the set has the change.
func (c changes) has(one changes) bool { return c&one != 0 }

// after returns the set after a notable request, and the request's effect.
func (c changes) after(req *scan.Requests) (changes, Effect) {
	switch req.Kind {
	case scan.KindLogin, scan.KindHello:
		return c | unsure, EffectNone
	case scan.KindDebug:
		return c | unsure | irregular, EffectNone
	case scan.KindReset:
		effect := EffectNone
		if req.Args == 1 {
			effect = EffectReset
		}
		return c&^(multi|repliesOff) | unsure, effect
	case scan.KindMulti:
		return c | unsure | multi, EffectNone
	case scan.KindExec:
		return c&^(multi|repliesOff) | unsure | irregular, EffectNone
	case scan.KindMonitor:
		return c | unsure | monitor, EffectNone
	case scan.KindClient:
		return c.afterClient(req)
	case scan.KindReplication, scan.KindUnclear:
		return c, EffectOpaque
	case scan.KindScript:
		if req.Arg(1) == "debug" && req.Arg(2) != "no" {
			return c, EffectOpaque
		}
	case scan.KindQuit:
		return c | quit, EffectQuit
	}
	return c, EffectNone
}

// afterClient is after for CLIENT.
func (c changes) afterClient(req *scan.Requests) (changes, Effect) {
	if req.Arg(1) != "reply" {
		return c, EffectNone
	}
	c |= unsure | irregular
	switch req.Arg(2) {
	case "on":
		c &^= repliesOff
		if c.has(mayBeOff) && !c.has(multi) {
			return c, EffectAsk // a later request may keep the upstream from answering
		}
	case "off":
		c |= mayBeOff
	case "skip":
		c |= skipNext
	}
	return c, EffectNone
}
