package scan

import "bytes"

// Verdict is the fate of a request that a gate holds back.
type Verdict uint8

const (
	Undecided Verdict = iota // more arguments are needed
	Pass                     // it is forwarded
	Take                     // it is for the proxy, like a lock command
)

// Limits of a gate. An argument is looked at if it begins within the first gateMost bytes of its
// request and either ends there or is short enough for a key. So a verdict does not depend on the
// pieces in which a request comes, and little more than gateMost is held back.
const (
	gateMost = 64 << 10 // also for the bytes that are kept of a request that Collect reads
	gateKey  = 1024     // the longest key of a lock
	gateArgs = 1024     // arguments that are kept of a request that Collect reads
	gateIdle = 4 << 10  // bytes of memory that stay for the next request
	gateFew  = 64       // arguments for which memory stays
)

// Judge decides about a request by the arguments that have come, each whole, of total. full: no
// more can be held back.
type Judge func(argv [][]byte, total int, full bool) Verdict

// requestGate holds each request back until it is judged.
type requestGate struct {
	judge  Judge
	absent func() bool // see Guard

	// The array at the front of the bytes.
	count   int      // its arguments
	read    int      // bytes of it that were read: the header and whole arguments; 0: none
	args    []extent // the arguments that were read
	judged  int      // how many of them the last judgement had
	full    bool     // no more arguments are looked at
	verdict Verdict

	argv [][]byte // memory for a judgement
	kept int      // bytes in Argv of the request that Collect reads
}

// extent is the place of an argument in a request.
type extent struct{ from, to int }

// Guard makes q judge each request before any byte of it is forwarded. Lock commands are for the
// proxy in any case. absent is called for each request before it passes; if it returns true, Own
// is returned and Collect reads the request, whose Kind is not KindLock then. Call Guard before
// anything is read.
func (q *Requests) Guard(judge Judge, absent func() bool) {
	q.gate = &requestGate{judge: judge, absent: absent}
}

// WholeOwn reports whether b begins with a request for the proxy that is complete and an array. If
// it returns false, b may begin with one too. No request may have begun before b.
func (q *Requests) WholeOwn(b []byte) bool {
	switch {
	case q.gate == nil:
		return WholeLock(b)
	case len(b) == 0 || b[0] != '*':
		return false
	}
	return q.gate.look(b) == "" && q.gate.verdict == Take && q.gate.whole()
}

// admit judges the request at the front of b. Done: if n is 0, begin reads it; otherwise it was a
// plain one of n bytes.
func (q *Requests) admit(b []byte) (n int, ev Found) {
	g := q.gate
	if g.kept > gateIdle || len(q.Argv) > gateFew {
		q.Argv = nil
	}
	g.kept = 0
	if b[0] != '*' {
		return 0, Done // beginInline judges
	}
	why := g.look(b)
	switch {
	case why != "":
		return q.stop(why)
	case g.verdict == Undecided:
		return 0, More
	case g.count == 0: // Redis ignores it
		g.forget()
		return 0, Done
	}
	kind := KindLock
	if g.verdict == Pass {
		kind = Classify(g.arg(b, 0))
	}
	if kind == KindHTTP {
		return q.stop("")
	}
	count, n, plain := int64(g.count), g.read, kind == KindPlain && g.whole()
	g.forget()
	switch {
	case kind == KindLock || g.absent():
		q.Kind, q.Args, q.left, q.Argv = kind, count, count, q.Argv[:0]
		q.Begun++
		return q.own()
	case plain:
		q.Kind = KindPlain
		q.Begun++
		q.Ended++
		return n, Done
	}
	return 0, Done
}

// look reads on in the array at the front of b, and judges it. why is Redis' reason for refusing
// b, or empty.
func (g *requestGate) look(b []byte) (why string) {
	if g.verdict != Undecided {
		return ""
	}
	if g.read == 0 {
		count, n, more, why := multibulkLength(b, maxArgs)
		switch {
		case more || why != "":
			return why
		case count <= 0:
			g.verdict = Pass
			return ""
		}
		g.count, g.read = int(count), n
	}
	if why := g.readArgs(b); why != "" {
		return why
	}
	if known := len(g.args); g.whole() || g.full || known > g.judged+g.judged/8 { // each time takes long for many
		g.judged = known
		g.verdict = g.decide(b)
	}
	return ""
}

// readArgs reads the arguments that have come.
func (g *requestGate) readArgs(b []byte) (why string) {
	for !g.full && !g.whole() && g.read < len(b) {
		if g.read >= gateMost {
			g.full = true
			return ""
		}
		size, n, more, why := bulkLength(b[g.read:], maxSize)
		if more || why != "" {
			return why
		}
		from := g.read + n
		if size > gateKey && size > int64(gateMost-from) {
			g.full = true
			return ""
		}
		to := from + int(size)
		if to+2 > len(b) {
			return ""
		}
		g.args = append(g.args, extent{from, to})
		g.read = to + 2
	}
	return ""
}

// whole reports whether all arguments were read.
func (g *requestGate) whole() bool { return len(g.args) == g.count }

// arg returns argument i of the array at the front of b.
func (g *requestGate) arg(b []byte, i int) []byte { return b[g.args[i].from:g.args[i].to] }

// decide judges the array at the front of b by the arguments that were read.
func (g *requestGate) decide(b []byte) Verdict {
	if len(g.args) == 0 {
		return Take // its name is too long
	}
	g.argv = g.argv[:0]
	for i := range g.args {
		g.argv = append(g.argv, g.arg(b, i))
	}
	verdict := g.decideOn(g.argv, g.count, g.full)
	clear(g.argv)
	if verdict == Undecided && (g.full || g.whole()) {
		return Take
	}
	return verdict
}

// decideOn judges a request of which some arguments are known. Redis ends names of commands at a
// zero byte in some cases (see Classify), which no judge could know; and a debugger of scripts
// runs commands of a form of its own.
func (g *requestGate) decideOn(argv [][]byte, total int, full bool) Verdict {
	kind := Classify(argv[0])
	switch {
	case kind == KindHTTP:
		return Pass // Redis closes
	case kind == KindLock, bytes.IndexByte(argv[0], 0) >= 0:
		return Take
	case kind == KindScript && len(argv) < min(total, 3):
		if !full {
			return Undecided
		}
		if len(argv) == 1 || folded(argv[1]) == "debug" {
			return Take
		}
	case kind == KindScript && total > 1 && folded(argv[1]) == "debug":
		if total == 2 || folded(argv[2]) != "no" {
			return Take
		}
	}
	return g.judge(argv, total, full)
}

// ownsLine judges an inline request. It reports whether Collect reads it, and sets its kind then.
func (g *requestGate) ownsLine(q *Requests, argv [][]byte) bool {
	for _, arg := range argv {
		g.kept += len(arg)
	}
	if g.decideOn(argv, len(argv), false) != Pass {
		q.Kind = KindLock
		return true
	}
	return g.absent()
}

// collect keeps what b holds of the current argument, while there is room.
func (g *requestGate) collect(q *Requests, b []byte) {
	have := 0
	if at := q.index(); at < len(q.Argv) {
		have = len(q.Argv[at])
	}
	kept, cut := q.keep(b, have+gateMost-g.kept)
	g.kept += kept
	q.Cut = q.Cut || cut
}

// forget prepares for the next request.
func (g *requestGate) forget() {
	if cap(g.args) > gateFew {
		g.args, g.argv = nil, nil
	}
	g.count, g.read, g.args, g.judged, g.full, g.verdict = 0, 0, g.args[:0], 0, false, Undecided
}
