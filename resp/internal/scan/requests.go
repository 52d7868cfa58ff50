package scan

import (
	"bytes"
	"math"
	"strings"
)

// Event is why Requests.Scan or Requests.Collect returned.
type Event uint8

const (
	More      Event = iota // the rest of the bytes is not enough to go on
	Notable                // a request of a kind of its own ended here
	Own                    // the lock command that begins here is for the proxy: Collect reads it
	Done                   // Collect: the request is complete, in Argv
	Malformed              // no request is recognised from here on; Why has the reason
	Drop                   // leave out Dropped bytes at the front: blanks; if Strict, all bytes that Redis ignores
	Inline                 // Strict only: an inline request, Dropped bytes long, is in Argv
)

// Limits on the bytes kept of a lock command. The longest valid one has 26 arguments, 16 of them
// keys, of up to 1,024 bytes each. So a command of which something is cut off is refused anyway:
// it has too many arguments, or one that is too long.
const (
	keepArgs = 32
	keepArg  = 2048
)

// Limits on the bytes kept of CLIENT and SCRIPT, enough for CLIENT REPLY SKIP, and of XREAD and
// XREADGROUP, enough for all their options.
const (
	keepNotable    = 3
	keepStream     = 12
	keepNotableArg = 8
)

// Limits of a lock command, which the upstream does not get to see: Redis' default for the length
// of an argument, and its limits before authentication.
const (
	maxBulk         = 512 << 20
	limitedArgs     = 10
	limitedArgBytes = 16384
)

// Limits of the strict form, for an upstream whose own parser has none. They are
// Redis' defaults.
const (
	strictArgs = 1 << 20
	strictBulk = 512 << 20
)

// Requests finds the requests in a client's bytes, cutting exactly where Redis cuts
// (networking.c): bodies pass by unseen, the two bytes after a body are ignored, numbers
// are strict. It keeps no more than a few hundred bytes of a request that is no lock command.
// At a byte that is wrong for Redis it stops for good, so that it never takes data for a lock
// command.
//
// With Strict set it also prepares the bytes for a parser that cannot be trusted with all bytes
// that Redis accepts or refuses: line ends are mended in place, empty requests left out, inline
// requests handed over in Argv, limits enforced.
//
// The zero value is at the start of a connection. Not safe for concurrent use.
type Requests struct {
	Strict  bool
	Limited func() bool // reports whether lock commands are held to what Redis allows before authentication; nil: never

	Kind    Kind
	Argv    [][]byte // of a lock command, an inline one, CLIENT, SCRIPT, XREAD or XREADGROUP; cut to the limits
	Args    int64    // how many arguments a notable request or a lock command has, its name included
	Begun   uint64   // requests whose beginning was seen
	Ended   int64    // requests that ended since the caller last set it to 0
	Dropped int
	Why     string // Redis' words for what made it stop, empty if there are none

	count      int64 // a request's arguments, if that line has passed before the name is known; else 0
	long       bool  // the name is longer than all that have a kind: it is known when it has passed
	inRequest  bool  // between the start and the end of a request
	left       int64 // arguments still to come, the current one included
	body       int64 // bytes of the current argument still to come, its line end included; 0: its header comes next
	index      int   // place of the current argument
	malformed  bool
	collecting bool // between Own and Done: Collect must be called, not Scan
	inline     bool // the lock command is an inline one
}

// Collecting reports whether the next bytes are for Collect: a lock command has begun.
func (q *Requests) Collecting() bool { return q.collecting }

// Scan reads the front of b. The first n bytes must be forwarded, the rest is for the next call:
// after More with more bytes, after Own through Collect. It changes b only if Strict is
// set.
func (q *Requests) Scan(b []byte) (n int, ev Event) {
	i := 0
	for {
		switch {
		case q.malformed:
			return len(b), Malformed
		case i == len(b):
			return i, More
		case q.body > 0:
			i += q.skipBody(b[i:])
			if q.body == 0 && q.argEnded() {
				return i, Notable
			}
		case q.inRequest:
			size, used, ev := q.bulkHeader(b[i:])
			if ev != Done {
				return i, ev
			}
			q.body = size + 2
			i += used
		default:
			if i += q.passPlain(b[i:]); i == len(b) {
				return i, More
			}
			used, ev := q.begin(b[i:])
			i += used
			if ev != Done {
				return i, ev
			}
		}
	}
}

// skipBody passes over what b holds of the current argument and returns how much that is.
func (q *Requests) skipBody(b []byte) int {
	n := int(min(q.body, int64(len(b))))
	switch {
	case q.long:
		q.keep(b[:n], longestName+1)
	case q.index > 0 && q.index < q.Kind.keeps():
		q.keep(b[:n], keepNotableArg)
	}
	if q.Strict {
		mend(b[:n], q.body)
	}
	q.body -= int64(n)
	return n
}

// keeps returns how many arguments are kept of a notable request in the array form.
func (k Kind) keeps() int {
	switch k {
	case KindClient, KindScript:
		return keepNotable
	case KindStream:
		return keepStream
	}
	return 0
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
	text, _, _ := bytes.Cut(q.Argv[i][:min(len(q.Argv[i]), keepNotableArg)], []byte{0})
	return strings.ToLower(string(text))
}

// keep copies what b holds of the current argument to Argv, up to limit bytes of it. The line end,
// two bytes, is not part of it.
func (q *Requests) keep(b []byte, limit int) {
	for len(q.Argv) <= q.index {
		if len(q.Argv) < cap(q.Argv) { // take the memory of an earlier request again
			q.Argv = q.Argv[:len(q.Argv)+1]
			q.Argv[len(q.Argv)-1] = q.Argv[len(q.Argv)-1][:0]
		} else {
			q.Argv = append(q.Argv, nil)
		}
	}
	arg := &q.Argv[q.index]
	n := min(int64(len(b)), max(0, q.body-2), int64(limit-len(*arg)))
	*arg = append(*arg, b[:n]...)
}

// argEnded counts an argument whose body has ended and reports whether a notable request ended
// with it.
func (q *Requests) argEnded() bool {
	if q.long {
		q.Kind, q.long = Classify(q.Argv[0]), false
	}
	q.index++
	q.left--
	if q.left > 0 {
		return false
	}
	q.inRequest = false
	q.Ended++
	return q.Kind != KindPlain
}

// mend replaces the two bytes after a body with a line end. The line end ends left bytes after the
// front of b.
func mend(b []byte, left int64) {
	for k, c := range []byte("\r\n") {
		if at := left - 2 + int64(k); at >= 0 && at < int64(len(b)) {
			b[at] = c
		}
	}
}

// begin reads the start of a request up to its name. Done: n bytes of it may pass.
func (q *Requests) begin(b []byte) (n int, ev Event) {
	q.Kind = KindPlain // until its name is known: if it breaks off before that, it is no lock command
	count := q.count
	if count == 0 {
		if b[0] != '*' {
			return q.beginInline(b)
		}
		var more, ok bool
		count, n, more, ok = header(b)
		switch {
		case more:
			return 0, More
		case !ok || count > maxArgs || q.Strict && count > strictArgs:
			return q.stop("invalid multibulk length")
		case count <= 0:
			return q.leaveOut(n)
		}
	}
	k, at, size, ev := q.name(b, n)
	switch {
	case ev == More && n > 0 && count > limitedArgs && q.isLimited():
		q.count = count // the upstream refuses this many at once, for any name
		return n, Done
	case ev != Done:
		return 0, ev
	case q.count > 0 && k == KindLock:
		k = KindPlain // its beginning has passed; with so many arguments it was wrong
	}
	q.count = 0
	q.Kind, q.Args, q.left, q.index = k, count, count, 0
	q.Argv = q.Argv[:0]
	q.Begun++
	switch k {
	case KindLock:
		if count > limitedArgs && q.isLimited() {
			return q.stop("unauthenticated multibulk length")
		}
		q.collecting = true
		return 0, Own
	case KindHTTP:
		return q.stop("")
	}
	if n > 0 {
		q.endLine(b, n)
	}
	q.inRequest, q.body, q.long = true, size+2, size > longestName
	return at, Done
}

// name reads the first argument of a request, whose header is at b[n:]. Done: it is of the kind k
// and size bytes long, from b[at] on.
func (q *Requests) name(b []byte, n int) (k Kind, at int, size int64, ev Event) {
	if n == len(b) {
		return KindPlain, 0, 0, More
	}
	size, used, ev := q.bulkHeader(b[n:])
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

// endLine mends the line that ends before b[n].
func (q *Requests) endLine(b []byte, n int) {
	if q.Strict {
		b[n-1] = '\n'
	}
}

// bulkHeader reads the header of an argument at the front of b, which is not empty. Done: it is
// size bytes long, its header used.
func (q *Requests) bulkHeader(b []byte) (size int64, used int, ev Event) {
	if b[0] != '$' {
		_, ev = q.stop("expected '$', got '" + printable(b[0]) + "'")
		return 0, 0, ev
	}
	size, used, more, ok := header(b)
	switch {
	case more:
		return 0, 0, More
	case !ok || size < 0 || size > math.MaxInt64-2 || q.Strict && size > strictBulk:
		_, ev = q.stop("invalid bulk length")
		return 0, 0, ev
	}
	q.endLine(b, used)
	return size, used, Done
}

// printable is c as one character of an error message.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return "."
	}
	return string(rune(c))
}

// leaveOut passes over n bytes that Redis ignores.
func (q *Requests) leaveOut(n int) (int, Event) {
	if q.Strict {
		q.Dropped = n
		return 0, Drop
	}
	return n, Done
}

// stop ends recognising for good.
func (q *Requests) stop(why string) (int, Event) {
	q.malformed, q.Why, q.collecting = true, why, false
	return 0, Malformed
}

// beginInline reads an inline request, which is a whole line.
func (q *Requests) beginInline(b []byte) (n int, ev Event) {
	end := bytes.IndexByte(b, '\n')
	if zero := bytes.IndexByte(b[:max(0, end)], 0); zero >= 0 || end < 0 && bytes.IndexByte(b, 0) >= 0 {
		return q.stop("too big inline request") // Redis uses strchr, which never gets past a zero byte
	}
	switch {
	case end < 0 && len(b) > maxInline:
		return q.stop("too big inline request")
	case end < 0:
		return 0, More
	}
	line := bytes.TrimSuffix(b[:end], []byte("\r"))
	argv, err := splitInline(line)
	switch {
	case err != nil:
		return q.stop(err.Error())
	case len(line) == 0:
		return q.leaveOut(end + 1)
	case len(argv) == 0: // Redis ignores it as an empty line. Valkey 8 takes the next request for lines then
		q.Dropped = len(line)
		return 0, Drop
	}
	q.Kind, q.Dropped = Classify(argv[0]), end+1
	q.Begun++
	if q.Kind == KindHTTP {
		return q.stop("")
	}
	if q.Kind == KindPlain && !q.Strict {
		q.Ended++
		return end + 1, Done
	}
	q.Args = int64(len(argv))
	q.setArgv(argv)
	switch {
	case q.Kind == KindLock:
		q.collecting, q.inline = true, true
		return 0, Own
	case q.Strict:
		return 0, Inline
	}
	q.Ended++
	return end + 1, Notable
}

// Between reports whether the last request has ended and no other has begun.
func (q *Requests) Between() bool { return !q.inRequest && !q.collecting && q.count == 0 }

func (q *Requests) isLimited() bool { return q.Limited != nil && q.Limited() }

// setArgv keeps an inline request's arguments up to the limits, or all of them in the strict form.
func (q *Requests) setArgv(argv [][]byte) {
	most, size := max(keepNotable, q.Kind.keeps()), keepNotableArg
	switch {
	case q.Kind == KindLock:
		most, size = keepArgs, keepArg
	case q.Strict:
		q.Argv = argv
		return
	}
	q.Argv = q.Argv[:0]
	for _, arg := range argv[:min(len(argv), most)] {
		q.Argv = append(q.Argv, bytes.Clone(arg[:min(len(arg), size)]))
	}
}

// Collect reads the lock command at the front of b. The first n bytes of b are then used up and
// must not be forwarded. Done: Argv and Args hold the command. Malformed: it broke off with a byte
// that Redis refuses; Argv holds the arguments before that.
func (q *Requests) Collect(b []byte) (n int, ev Event) {
	if q.inline { // Scan has read it already
		q.collecting, q.inline = false, false
		return q.Dropped, Done
	}
	if !q.inRequest {
		_, n, _, _ = header(b)
		q.inRequest = true
	}
	for n < len(b) {
		if q.body == 0 {
			size, used, ev := q.bulkHeader(b[n:])
			switch {
			case ev == Done && size > maxBulk:
				_, ev = q.stop("invalid bulk length")
			case ev == Done && size > limitedArgBytes && q.isLimited():
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
		if q.index < keepArgs {
			q.keep(part, keepArg)
		}
		q.body -= int64(len(part))
		n += len(part)
		if q.body > 0 {
			continue
		}
		q.index++
		if q.left--; q.left == 0 {
			q.inRequest, q.collecting = false, false
			return n, Done
		}
	}
	return n, More
}
