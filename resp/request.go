package resp

import (
	"bytes"
	"math"
)

// event is why requestScanner.scan returned.
type event uint8

const (
	evMore    event = iota // the rest of the bytes is not enough to go on
	evNotable              // a request that matters to the connection's state ended here
	evOurs                 // the request that begins here is for the proxy: collect reads it
	evDone                 // collect: the request is complete, in argv
	evRaw                  // nothing is recognised from here on; why says what happened
	evDrop                 // strict only: the bytes at the front, drop of them, are no request and are left out
	evInline               // strict only: an inline request, drop bytes long, stands in argv
	evEmpty                // single only: a request without arguments ended here
)

// Limits of what is kept of a request of ours. The longest valid one has 9 arguments and a key of 1,024 bytes; what is cut off
// was wrong before: too many arguments, or one that is too long.
const (
	keepArgs = 16
	keepArg  = 2048
)

// What is kept of a notable request: enough for CLIENT REPLY SKIP and HELLO 3 SETNAME x AUTH. Names of users are kept as well.
const (
	keepNotable    = 5
	keepNotableArg = 8
)

// Limits of a request of ours, which the upstream does not get to see: Redis' default for the length of an argument, and what it allows
// before authentication.
const (
	maxBulk         = 512 << 20
	limitedArgs     = 10
	limitedArgBytes = 16384
)

// Limits of what the strict form lets through, for an upstream whose own parser has none. They are Redis' defaults.
const (
	strictArgs = 1 << 20
	strictBulk = 512 << 20
)

// requestScanner finds the requests in a client's bytes, cutting exactly where Redis cuts (networking.c): bodies pass by
// unseen, the two bytes behind a body are not looked at, numbers are strict. It keeps no more than a few hundred bytes of a request
// that is not ours. Where a byte is wrong for Redis it stops for good, so that what it takes for a request of ours never is data.
//
// With strict set it also prepares the bytes for a parser that cannot be trusted with whatever Redis accepts or refuses: line ends
// are mended in place, empty requests left out, inline requests handed over in argv, limits enforced.
//
// The zero value is at the start of a connection. Not safe for concurrent use.
type requestScanner struct {
	strict  bool
	limited func() bool // whether requests of ours are held to what Redis allows before authentication; nil: no

	count     int64 // of a request: its arguments, where that line has passed before the name is known; else 0
	inRequest bool  // between the start and the end of a request
	args      int64 // arguments still to come, the current one included
	body      int64 // bytes of the current argument still to come, its line end included; 0: its header comes next
	index     int   // place of the current argument; behind the last one, how many there were
	kind      kind
	raw       bool
	single    bool // the next request is notable, whatever it is, also an empty one

	begun    uint64 // requests whose beginning was seen
	requests int64  // requests ended since the caller last set it to 0
	drop     int
	why      string // Redis' words for what made it stop, empty if there are none

	collecting bool     // between evOurs and evDone: collect is to be called, not scan
	inline     bool     // the request of ours is an inline one
	total      int64    // arguments of the request of ours
	argv       [][]byte // of a request of ours, an inline one, or the first few of a notable one; cut to the limits
}

// scan reads the front of b. The first n bytes are to be forwarded, the rest is for the next call: after evMore with more
// bytes behind it, after evOurs through collect. It changes b only if strict is set.
func (q *requestScanner) scan(b []byte) (n int, ev event) {
	i := 0
	for {
		switch {
		case q.raw:
			return len(b), evRaw
		case i == len(b):
			return i, evMore
		case q.body > 0:
			i += q.skipBody(b[i:])
			if q.body == 0 && q.argEnded() {
				return i, evNotable
			}
		case q.inRequest:
			size, used, ev := q.bulkHeader(b[i:])
			if ev != evDone {
				return i, ev
			}
			q.body = size + 2
			i += used
		default:
			if i += q.passPlain(b[i:]); i == len(b) {
				return i, evMore
			}
			used, ev := q.begin(b[i:])
			i += used
			if ev != evDone {
				return i, ev
			}
		}
	}
}

// skipBody passes over what b holds of the current argument and returns how much that is.
func (q *requestScanner) skipBody(b []byte) int {
	n := int(min(q.body, int64(len(b))))
	if limit := q.keepsOf(); limit > 0 {
		q.keep(b[:n], limit)
	}
	if q.strict {
		mend(b[:n], q.body)
	}
	q.body -= int64(n)
	return n
}

// keep copies what b holds of the current argument to argv, up to limit bytes of it. The line end, two bytes, is not part of it.
func (q *requestScanner) keep(b []byte, limit int) {
	for len(q.argv) <= q.index {
		if len(q.argv) < cap(q.argv) { // take the memory of an earlier request again
			q.argv = q.argv[:len(q.argv)+1]
			q.argv[len(q.argv)-1] = q.argv[len(q.argv)-1][:0]
		} else {
			q.argv = append(q.argv, nil)
		}
	}
	arg := &q.argv[q.index]
	n := min(int64(len(b)), max(0, q.body-2), int64(limit-len(*arg)))
	*arg = append(*arg, b[:n]...)
}

// argEnded counts an argument whose body is over and tells whether a notable request ended with it.
func (q *requestScanner) argEnded() bool {
	q.index++
	q.args--
	if q.args > 0 {
		return false
	}
	q.inRequest = false
	q.requests++
	return q.kind != plain || q.single
}

// mend writes the line end that belongs behind a body over the two bytes that stand there; left counts from the front of b
// to behind the line end.
func mend(b []byte, left int64) {
	for k, c := range []byte("\r\n") {
		if at := left - 2 + int64(k); at >= 0 && at < int64(len(b)) {
			b[at] = c
		}
	}
}

// begin reads the start of a request up to its name. evDone: n bytes of it may pass.
func (q *requestScanner) begin(b []byte) (n int, ev event) {
	q.kind = plain // until its name is known: where it breaks off before that, it is no command of ours
	count := q.count
	if count == 0 {
		if b[0] != '*' {
			return q.beginInline(b)
		}
		var more, ok bool
		count, n, more, ok = header(b)
		switch {
		case more:
			return 0, evMore
		case !ok || count > maxArgs || q.strict && count > strictArgs:
			return q.stop("invalid multibulk length")
		case count <= 0:
			return q.leaveOut(n)
		}
	}
	k, at, size, ev := q.name(b, n)
	switch {
	case ev == evMore && n > 0 && count > limitedArgs && q.isLimited():
		q.count = count // the upstream refuses this many at once, whatever the name
		return n, evDone
	case ev != evDone:
		return 0, ev
	case q.count > 0 && k == ours:
		k = plain // its beginning has passed; with so many arguments it was wrong
	}
	q.count = 0
	q.kind, q.args, q.index = k, count, 0
	q.argv = q.argv[:0]
	q.begun++
	switch k {
	case ours:
		if count > limitedArgs && q.isLimited() {
			return q.stop("unauthenticated multibulk length")
		}
		q.collecting, q.total = true, count
		return 0, evOurs
	case kHTTP:
		return q.stop("")
	}
	if n > 0 {
		q.endLine(b, n)
	}
	q.inRequest, q.body = true, size+2
	return at, evDone
}

// name reads the first argument of a request, whose header is at b[n:]. evDone: it is of the kind k and size bytes long, from b[at] on.
func (q *requestScanner) name(b []byte, n int) (k kind, at int, size int64, ev event) {
	if n == len(b) {
		return plain, 0, 0, evMore
	}
	size, used, ev := q.bulkHeader(b[n:])
	if ev != evDone {
		return plain, 0, 0, ev
	}
	at = n + used
	if size > longestName {
		return plain, at, size, evDone
	}
	if int64(len(b)-at) < size {
		return plain, 0, 0, evMore
	}
	return classify(b[at : at+int(size)]), at, size, evDone
}

// endLine mends the line that ends before b[n].
func (q *requestScanner) endLine(b []byte, n int) {
	if q.strict {
		b[n-1] = '\n'
	}
}

// bulkHeader reads the header of an argument at the front of b, which is not empty. evDone: it is size bytes long, its header used.
func (q *requestScanner) bulkHeader(b []byte) (size int64, used int, ev event) {
	if b[0] != '$' {
		_, ev = q.stop("expected '$', got '" + printable(b[0]) + "'")
		return 0, 0, ev
	}
	size, used, more, ok := header(b)
	switch {
	case more:
		return 0, 0, evMore
	case !ok || size < 0 || size > math.MaxInt64-2 || q.strict && size > strictBulk:
		_, ev = q.stop("invalid bulk length")
		return 0, 0, ev
	}
	q.endLine(b, used)
	return size, used, evDone
}

// printable is c as one character of an error message.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return "."
	}
	return string(rune(c))
}

// leaveOut passes over n bytes that Redis ignores.
func (q *requestScanner) leaveOut(n int) (int, event) {
	if q.strict {
		q.drop = n
		return 0, evDrop
	}
	if q.single {
		return n, evEmpty
	}
	return n, evDone
}

// stop ends recognising for good.
func (q *requestScanner) stop(why string) (int, event) {
	q.raw, q.why, q.collecting = true, why, false
	return 0, evRaw
}

// beginInline reads an inline request, which is a whole line.
func (q *requestScanner) beginInline(b []byte) (n int, ev event) {
	end := bytes.IndexByte(b, '\n')
	if zero := bytes.IndexByte(b[:max(0, end)], 0); zero >= 0 || end < 0 && bytes.IndexByte(b, 0) >= 0 {
		return q.stop("too big inline request") // Redis looks for the line's end with strchr, which never gets past a zero byte
	}
	switch {
	case end < 0 && len(b) > maxInline:
		return q.stop("too big inline request")
	case end < 0:
		return 0, evMore
	}
	argv, err := splitInline(bytes.TrimSuffix(b[:end], []byte("\r")))
	switch {
	case err != nil:
		return q.stop(err.Error())
	case len(argv) == 0:
		return q.leaveOut(end + 1)
	}
	q.kind, q.drop = classify(argv[0]), end+1
	q.begun++
	if q.kind == kHTTP {
		return q.stop("")
	}
	if q.kind == plain && !q.single && !q.strict {
		q.requests++
		return end + 1, evDone
	}
	q.total, q.index = int64(len(argv)), len(argv)
	q.setArgv(argv)
	switch {
	case q.kind == ours:
		q.collecting, q.inline = true, true
		return 0, evOurs
	case q.strict:
		return 0, evInline
	}
	q.requests++
	return end + 1, evNotable
}

// between tells whether the last request is over and no other has begun.
func (q *requestScanner) between() bool { return !q.inRequest && !q.collecting && q.count == 0 }

func (q *requestScanner) isLimited() bool { return q.limited != nil && q.limited() }

// setArgv keeps the arguments of an inline request; those of a request of ours are cut to the limits.
func (q *requestScanner) setArgv(argv [][]byte) {
	if q.kind == ours {
		argv = argv[:min(len(argv), keepArgs)]
		for i := range argv {
			argv[i] = argv[i][:min(len(argv[i]), keepArg)]
		}
	}
	q.argv = argv
}

// collect reads the request of ours at the front of b, of which n bytes are then used up and must not be forwarded. evDone: argv
// and total tell what it is. evRaw: it broke off with a byte that Redis refuses; argv holds the arguments before that.
func (q *requestScanner) collect(b []byte) (n int, ev event) {
	if q.inline { // scan has read it already
		q.collecting, q.inline = false, false
		return q.drop, evDone
	}
	if !q.inRequest {
		_, n, _, _ = header(b)
		q.inRequest = true
	}
	for n < len(b) {
		if q.body == 0 {
			size, used, ev := q.bulkHeader(b[n:])
			switch {
			case ev == evDone && size > maxBulk:
				_, ev = q.stop("invalid bulk length")
			case ev == evDone && size > limitedArgBytes && q.isLimited():
				_, ev = q.stop("unauthenticated bulk length")
			}
			if ev != evDone {
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
		if q.body == 0 {
			q.index++
			if q.args--; q.args == 0 {
				q.inRequest, q.collecting = false, false
				return n, evDone
			}
		}
	}
	return n, evMore
}
