package scan

import (
	"bytes"
	"math"
	"strings"
)

// Found is why Requests.Scan or Requests.Collect returned.
type Found uint8

const (
	More      Found = iota // the rest of the bytes is not enough to go on
	Notable                // a request of a kind of its own ended here
	Own                    // the lock command that begins here is for the proxy: Collect reads it
	Done                   // Collect: the request is complete, in Argv
	Malformed              // no request is recognised from here on; Why has the reason
	Drop                   // leave out Dropped bytes at the front: blanks before the end of an empty line
)

// Limits on the bytes kept of a lock command. The longest valid one has 26 arguments, 16 of them
// keys, of up to 1,024 bytes each. So a command of which something is cut off is refused anyway:
// it has too many arguments, or one that is too long.
const (
	keepArgs = 32
	keepArg  = 2048
)

// Limits on the bytes kept of CLIENT and SCRIPT, enough for CLIENT REPLY SKIP, of XREAD and
// XREADGROUP, enough for all their options, and of COMMAND.
const (
	keepNotable    = 3
	keepStream     = 12
	keepNotableArg = 8
	keepCommand    = 34 // COMMAND INFO and 32 names
	keepCommandArg = 16
)

// Limits of a lock command, which the upstream does not get to see: Redis' default for the length
// of an argument, and its limits before authentication.
const (
	maxBulk         = 512 << 20
	limitedArgs     = 10
	limitedArgBytes = 16384
)

// Requests finds the requests in a client's bytes, cutting exactly where Redis cuts
// (networking.c): it does not look at bodies, ignores the two bytes after a body, and reads
// numbers strictly. It keeps at most 600 bytes of a request that is no lock command,
// unless Guard has Collect read it.
// At a byte that Redis refuses it stops for good, so that it never takes data for a lock command.
//
// The zero value is at the start of a connection. Not safe for concurrent use.
type Requests struct {
	Limited func() bool // reports whether lock commands are held to what Redis allows before authentication; nil: never

	Argv    [][]byte // of a lock command, CLIENT, SCRIPT, XREAD, XREADGROUP or COMMAND; cut to the limits
	Args    int64    // how many arguments a notable request or a lock command has, its name included
	Begun   uint64   // requests whose beginning was seen
	Ended   int64    // requests that ended since the caller last set it to 0
	Dropped int      // see Drop
	Why     string   // Redis' words for what made it stop, empty if there are none
	Kind    CommandKind
	Broken  bool // Malformed came in a request whose beginning was forwarded
	Cut     bool // arguments of the collected command, or parts of them, are not in Argv

	place position
	gate  *requestGate // nil: all requests but lock commands pass
	left  int64        // arguments still to come, the current one included
	body  int64        // bytes of the current argument still to come, its line end included; 0: its header comes next
}

// position is the place of the next byte in a request.
type position uint8

const (
	between       position = iota // no request has begun
	counted                       // the number of arguments has passed, the name has not begun
	longName                      // the name is longer than all that have a kind: it is known when it has passed
	arguments                     // in a request that is forwarded
	lockBegins                    // Own was returned; Collect reads the command from its beginning
	lockLine                      // the same; the command is an inline one, Dropped bytes long, and in Argv
	lockArguments                 // Collect has read the beginning
	malformed                     // Malformed was returned
)

// Collecting reports whether the next bytes are for Collect: a lock command has begun.
func (q *Requests) Collecting() bool { return lockBegins <= q.place && q.place <= lockArguments }

// Between reports whether the last request has ended, or was malformed, and no other has begun.
func (q *Requests) Between() bool { return q.place == between || q.place == malformed }

// Scan reads the front of b. The first n bytes must be forwarded, the rest is for the next call:
// after More with more bytes, after Own through Collect.
func (q *Requests) Scan(b []byte) (n int, ev Found) {
	i := 0
	for {
		switch {
		case q.place == malformed:
			return len(b), Malformed
		case i == len(b):
			return i, More
		case q.body > 0:
			i += q.skipBody(b[i:])
			if q.body == 0 && q.argEnded() {
				return i, Notable
			}
		case q.place == arguments:
			size, used, ev := q.bulkHeader(b[i:], maxSize)
			if ev != Done {
				return i, ev
			}
			q.body = size + 2
			i += used
		default:
			used, ev := q.next(b[i:])
			i += used
			if ev != Done {
				return i, ev
			}
		}
	}
}

// next reads the requests at the front of b, which are whole, or the start of one. Done: n bytes
// may pass.
func (q *Requests) next(b []byte) (n int, ev Found) {
	if q.gate != nil {
		if n, ev = q.admit(b); n > 0 || ev != Done {
			return n, ev
		}
	} else if n = q.passPlain(b); n == len(b) {
		return n, More
	}
	used, ev := q.begin(b[n:])
	return n + used, ev
}

// skipBody passes over what b holds of the current argument and returns how much that is.
func (q *Requests) skipBody(b []byte) int {
	n := int(min(q.body, int64(len(b))))
	switch at := q.index(); {
	case q.place == longName:
		q.keep(b[:n], longestName+1)
	case at > 0 && at < q.Kind.keeps():
		q.keep(b[:n], q.Kind.keepsOfArg())
	}
	q.body -= int64(n)
	return n
}

// index returns the place of the current argument; that of the name is 0.
func (q *Requests) index() int { return int(q.Args - q.left) }

// keeps returns how many arguments are kept of a notable request in the array form.
func (k CommandKind) keeps() int {
	switch k {
	case KindClient, KindScript:
		return keepNotable
	case KindStream:
		return keepStream
	case KindCommand:
		return keepCommand
	}
	return 0
}

// keepsOfArg returns how many bytes are kept of each of them.
func (k CommandKind) keepsOfArg() int {
	if k == KindCommand {
		return keepCommandArg
	}
	return keepNotableArg
}

// MayBlock reports whether the notable request that has ended may wait for another client before
// it is answered.
//
//	> XREAD [COUNT n] [BLOCK ms] STREAMS key id
//	> XREADGROUP GROUP name consumer [COUNT n] [BLOCK ms] [NOACK] STREAMS key id
func (q *Requests) MayBlock() bool {
	if q.Kind != KindStream {
		return q.Kind == KindBlocking
	}
	for i := 1; i < len(q.Argv); i++ {
		switch q.Arg(i) {
		case "group":
			i += 2 // the names may be any
		case "block":
			return true
		case "streams":
			return false
		}
	}
	return int64(len(q.Argv)) < q.Args // BLOCK may be an argument that was not kept
}

// Arg returns argument i of a request whose arguments are kept, in the form that Redis compares:
// in lower case, up to a zero byte.
func (q *Requests) Arg(i int) string {
	if i >= len(q.Argv) {
		return ""
	}
	return folded(q.Argv[i])
}

// folded returns the form of an option that Redis compares: in lower case, up to a zero byte. It
// is cut to keepNotableArg bytes.
func folded(arg []byte) string {
	text, _, _ := bytes.Cut(arg[:min(len(arg), keepNotableArg)], []byte{0})
	return strings.ToLower(string(text))
}

// keep copies what b holds of the current argument to Argv, up to limit bytes of it. The line end,
// two bytes, is not part of it. It returns how much it copied, and whether the limit left out any.
func (q *Requests) keep(b []byte, limit int) (kept int, cut bool) {
	at := q.index()
	for len(q.Argv) <= at {
		if len(q.Argv) < cap(q.Argv) { // take the memory of an earlier request again
			q.Argv = q.Argv[:len(q.Argv)+1]
			q.Argv[len(q.Argv)-1] = q.Argv[len(q.Argv)-1][:0]
		} else {
			q.Argv = append(q.Argv, nil)
		}
	}
	arg := &q.Argv[at]
	all := int(min(int64(len(b)), max(0, q.body-2)))
	kept = min(all, limit-len(*arg))
	*arg = append(*arg, b[:kept]...)
	return kept, kept < all
}

// argEnded counts an argument whose body has ended and reports whether a notable request ended
// with it.
func (q *Requests) argEnded() bool {
	if q.place == longName {
		q.Kind, q.place = Classify(q.Argv[0]), arguments
	}
	q.left--
	if q.left > 0 {
		return false
	}
	q.place = between
	q.Ended++
	return q.Kind != KindPlain
}

// begin reads the start of a request up to its name. Done: n bytes of it may pass.
func (q *Requests) begin(b []byte) (n int, ev Found) {
	q.Kind = KindPlain // until its name is known: if it breaks off before that, it is no lock command
	count, passed := q.left, q.place == counted
	if !passed {
		if b[0] != '*' {
			return q.beginInline(b)
		}
		var more bool
		var why string
		count, n, more, why = multibulkLength(b, maxArgs)
		switch {
		case more:
			return 0, More
		case why != "":
			return q.stop(why)
		case count <= 0:
			return n, Done // Redis ignores it
		}
	}
	k, at, size, ev := q.name(b, n)
	switch {
	case ev == More && n > 0 && count > limitedArgs && q.isLimited():
		q.left, q.place = count, counted // the upstream refuses this many at once, for any name
		return n, Done
	case ev != Done:
		return 0, ev
	case passed && k == KindLock:
		k = KindPlain // its beginning has passed; with so many arguments it was wrong
	}
	q.Kind, q.Args, q.left = k, count, count
	q.Argv = q.Argv[:0]
	q.Begun++
	switch k {
	case KindLock:
		return q.own()
	case KindHTTP:
		return q.stop("")
	}
	q.place, q.body = arguments, size+2
	if size > longestName {
		q.place = longName
	}
	return at, Done
}

// own leaves the request at the front, of Args arguments, to Collect.
func (q *Requests) own() (int, Found) {
	if q.Args > limitedArgs && q.isLimited() {
		return q.stop("unauthenticated multibulk length")
	}
	q.place, q.Cut = lockBegins, false
	return 0, Own
}

// name reads the first argument of a request, whose header is at b[n:]. Done: it is of the kind k
// and size bytes long, from b[at] on.
func (q *Requests) name(b []byte, n int) (k CommandKind, at int, size int64, ev Found) {
	if n == len(b) {
		return KindPlain, 0, 0, More
	}
	size, used, ev := q.bulkHeader(b[n:], maxSize)
	if ev != Done {
		return KindPlain, 0, 0, ev
	}
	at = n + used
	if size > longestName {
		return KindPlain, at, size, Done
	}
	if int64(len(b)-at) < size {
		return KindPlain, 0, 0, More
	}
	return Classify(b[at : at+int(size)]), at, size, Done
}

// bulkHeader reads the header of an argument at the front of b, which is not empty. Done: it is
// size bytes long, its header used. More than most are refused.
func (q *Requests) bulkHeader(b []byte, most int64) (size int64, used int, ev Found) {
	size, used, more, why := bulkLength(b, most)
	switch {
	case more:
		return 0, 0, More
	case why != "":
		_, ev = q.stop(why)
		return 0, 0, ev
	}
	return size, used, Done
}

// stop ends recognising for good.
func (q *Requests) stop(why string) (int, Found) {
	q.Broken = q.place == arguments
	q.place, q.Why = malformed, why
	return 0, Malformed
}

// beginInline reads an inline request, which is a whole line.
func (q *Requests) beginInline(b []byte) (n int, ev Found) {
	line, n, more, why := inlineLine(b)
	switch {
	case more:
		return 0, More
	case why != "":
		return q.stop(why)
	}
	argv, err := splitInline(line)
	switch {
	case err != nil:
		return q.stop(err.Error())
	case len(line) == 0:
		return n, Done // Redis ignores it
	case len(argv) == 0: // Redis ignores it as an empty line. Valkey 8 takes the next request for lines then
		q.Dropped = len(line)
		return 0, Drop
	}
	q.Kind = Classify(argv[0])
	q.Begun++
	switch {
	case q.Kind == KindHTTP:
		return q.stop("")
	case q.gate == nil && q.Kind == KindLock, q.gate != nil && q.gate.ownsLine(q, argv):
		q.keepInline(argv, q.limits())
		q.place, q.Dropped = lockLine, n
		return 0, Own
	case q.Kind == KindPlain:
		q.Ended++
		return n, Done
	}
	q.keepInline(argv, limits{args: max(keepNotable, q.Kind.keeps()), arg: q.Kind.keepsOfArg()})
	q.Ended++
	return n, Notable
}

// limits bound what is kept of a request.
type limits struct {
	args int // arguments
	arg  int // bytes of each
}

// limits returns the limits of a request that Collect reads.
func (q *Requests) limits() limits {
	if q.gate != nil {
		return limits{args: gateArgs, arg: gateMost}
	}
	return limits{args: keepArgs, arg: keepArg}
}

// keepInline keeps the arguments of an inline request, up to the limits.
func (q *Requests) keepInline(argv [][]byte, most limits) {
	q.Args = int64(len(argv))
	q.Argv, q.Cut = q.Argv[:0], len(argv) > most.args
	for _, arg := range argv[:min(len(argv), most.args)] {
		q.Argv = append(q.Argv, bytes.Clone(arg[:min(len(arg), most.arg)]))
		q.Cut = q.Cut || len(arg) > most.arg
	}
}

func (q *Requests) isLimited() bool { return q.Limited != nil && q.Limited() }

// Collect reads the lock command at the front of b. The first n bytes of b are then used up and
// must not be forwarded. Done: Argv and Args hold the command. Malformed: it broke off with a byte
// that Redis refuses; Argv holds the arguments before that.
func (q *Requests) Collect(b []byte) (n int, ev Found) {
	switch q.place {
	case lockLine: // Scan has read it already
		q.place = between
		return q.Dropped, Done
	case lockBegins:
		_, n, _, _ = header(b)
		q.place = lockArguments
	}
	for n < len(b) {
		if q.body == 0 {
			size, used, ev := q.bulkHeader(b[n:], maxBulk)
			if ev == Done && size > limitedArgBytes && q.isLimited() {
				_, ev = q.stop("unauthenticated bulk length")
			}
			if ev != Done {
				return n, ev
			}
			n += used
			q.body = size + 2
			continue
		}
		part := b[n:min(len(b), n+int(min(q.body, math.MaxInt32)))]
		q.collect(part)
		q.body -= int64(len(part))
		n += len(part)
		if q.body > 0 {
			continue
		}
		if q.left--; q.left == 0 {
			q.place = between
			return n, Done
		}
	}
	return n, More
}

// collect keeps what b holds of the current argument of a request that Collect reads.
func (q *Requests) collect(b []byte) {
	most := q.limits()
	switch {
	case q.index() >= most.args:
		q.Cut = true
	case q.gate == nil:
		_, cut := q.keep(b, most.arg)
		q.Cut = q.Cut || cut
	default:
		q.gate.collect(q, b)
	}
}
