package resp

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
)

// A question finds out how far the upstream has got and, if it is a full one, what the
// connection's standing is. It is a run of requests that are written together; their answers are
// cut out of the stream. docs/relay.md has the argument why they prove what is concluded.
//
// Its markers are commands whose names are secret numbers. Redis refuses unknown commands in their
// turn, before it looks at authentication, permissions, transactions, subscriptions or busy
// scripts, and repeats the name in the error. A server that checks authentication first (Valkey
// 9.1) answers a marker with -NOAUTH on a connection that is not logged in. It repeats an unknown
// option of HELLO instead, which may be sent without a login.
//
//	> *1\r\n$40\r\n<secret>3\r\n                              only behind CLIENT REPLY SKIP, which this uses up
//	> *1\r\n$40\r\n<secret>0\r\n                              opens a full question
//	> *1\r\n$5\r\nHELLO\r\n                                   or PING, where a bare HELLO is not known
//	> *2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n                     with AskUser
//	> *3\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$40\r\n<hello's>1\r\n
//	> *1\r\n$40\r\n<secret>2\r\n                              ends every question
//
// The pump asks, the copier finds the answers.
type question struct {
	asked  atomic.Pointer[inquiry] // the last one; nil: its answer has come
	last   *inquiry                // the pump's
	from   []byte                  // how lines of MONITOR end the connection's address, as far as that is known
	met    chan uint64             // capacity 1: the number of the question whose answer has come
	head   [2][]byte               // the beginnings of its answers; the copier writes them before met
	passed bool                    // the request behind CLIENT REPLY SKIP was answered; likewise
}

// inquiry is a question that is asked, as the copier must know it. It does not change.
type inquiry struct {
	number uint64
	// secret names the markers that are unknown commands, which nobody else gets to see. It stays the
	// same on a connection, so that late answers are known.
	secret digits
	// hello is in the marker that is an option of HELLO. MONITOR shows it, though not before the
	// opening marker was answered. So each question has another.
	hello   digits
	lines   int  // requests of it that an upstream which wants a login refuses before HELLO's marker
	givenUp bool // nobody waits for it any more
}

// digits are a secret.
type digits [secretDigits]byte

// Digits of a marker's name: 93 random bits, which question, and the role. They are digits as a
// server may change the case of letters.
const (
	secretDigits = 28
	numberDigits = 11
	nameDigits   = secretDigits + numberDigits + 1
)

// Roles of a marker.
const (
	roleOpen  = '0'
	roleHello = '1'
	roleEnd   = '2'
	roleSkip  = '3'
)

// maxAnswer bounds how much of an answer is kept, and how long an error line with a marker may be.
const maxAnswer = 1024

// put appends a marker's request to b.
func (a *inquiry) put(b []byte, role byte) []byte {
	secret := &a.secret
	if role == roleHello {
		secret = &a.hello
		b = append(b, "*3\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$"...)
	} else {
		b = append(b, "*1\r\n$"...)
	}
	b = strconv.AppendInt(b, nameDigits, 10)
	b = append(append(b, "\r\n"...), secret[:]...)
	return fmt.Appendf(b, "%0*d%c\r\n", numberDigits, a.number, role)
}

// ask returns the requests of the next question. standing makes it a full one, user asks for the
// user, too.
func (q *question) ask(standing, user, skip, withoutHello bool) []byte {
	a := &inquiry{number: 1, hello: randomDigits()}
	if q.last == nil {
		a.secret = randomDigits()
	} else {
		a.number, a.secret = q.last.number+1, q.last.secret
	}
	var b []byte
	if skip {
		b = a.put(b, roleSkip)
		a.lines++
	}
	if standing {
		b = a.put(b, roleOpen)
		if withoutHello {
			b = append(b, "*1\r\n$4\r\nPING\r\n"...)
		} else {
			b = append(b, "*1\r\n$5\r\nHELLO\r\n"...)
		}
		a.lines += 2
		if user {
			b = append(b, "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n"...)
			a.lines++
		}
		b = a.put(b, roleHello)
	}
	b = a.put(b, roleEnd)
	q.last = a
	q.asked.Store(a)
	return b
}

// giveUp says that nobody waits for the answers any more. Should they come they are still cut out,
// but nothing is held back to know them: it may be the last that comes for long.
func (q *question) giveUp() {
	if asked := q.asked.Load(); asked != nil {
		given := *asked
		given.givenUp = true
		q.asked.CompareAndSwap(asked, &given)
	}
}

// randomDigits draws digits, each as likely.
func randomDigits() (all digits) {
	var random [2 * secretDigits]byte
	for filled := 0; filled < secretDigits; {
		rand.Read(random[:]) // never fails
		for _, r := range random {
			if r < 250 && filled < secretDigits { // 250 is a multiple of 10
				all[filled] = '0' + r%10
				filled++
			}
		}
	}
	return all
}

// answers is the copier's side of a question: what it has found.
type answers struct {
	open   bool   // the opening marker was met, the ending one not: frames are answers
	number uint64 // of the question that is open
	passed bool   // the marker behind CLIENT REPLY SKIP was met
	count  int    // answers that have begun
	cut    bool   // the frame that has begun is one of them
	head   [2][]byte
}

// verdict says what becomes of a frame.
type verdict uint8

const (
	forward verdict = iota
	cutOut          // it is an answer to a question
	unclear         // that cannot be told before more bytes come
)

// marked reports which role and which question the marker in line has; ok is false if there is
// none.
func (a *inquiry) marked(line []byte) (role byte, number uint64, ok bool) {
	for i, secret := range [...]*digits{&a.secret, &a.hello} {
		at := bytes.Index(line, secret[:])
		if at < 0 || len(line)-at < nameDigits {
			continue
		}
		text := line[at+secretDigits:][:numberDigits+1]
		number, err := strconv.ParseUint(string(text[:numberDigits]), 10, 64)
		role = text[numberDigits]
		return role, number, err == nil && (i == 1) == (role == roleHello)
	}
	return 0, 0, false
}

// line returns the line at the front of b with its end; nil if it is not complete. long: it is too
// long for an answer with a marker.
func line(b []byte) (text []byte, long bool) {
	end := bytes.IndexByte(b[:min(len(b), maxAnswer)], '\n')
	if end < 0 {
		return nil, len(b) >= maxAnswer
	}
	return b[:end+1], false
}

// judge decides about the frame that begins with b, or with nested set about an element of one,
// while a question is asked. n is the length of one that is to be cut out at once, and answered
// the number of the question whose answers are complete with it; 0: none.
func (a *answers) judge(q *question, asked *inquiry, b []byte, nested bool) (v verdict, n int, answered uint64) {
	if b[0] == '-' {
		text, long := line(b)
		if text == nil && !long {
			return unclear, 0, 0
		}
		if role, number, ok := asked.marked(text); ok {
			return cutOut, len(text), a.meet(q, asked, role, number)
		}
		if !a.open && bytes.HasPrefix(text, []byte("-NOAUTH")) {
			return a.refused(q, asked, b)
		}
	}
	if nested || !a.open {
		return forward, 0, 0
	}
	v, n = a.judgeOpen(q, asked, b)
	return v, n, 0
}

// judgeOpen decides about a frame behind the opening marker: it is an answer unless it is one that
// nobody asked for.
func (a *answers) judgeOpen(q *question, asked *inquiry, b []byte) (v verdict, n int) {
	switch {
	case b[0] == '>':
		return forward, 0
	case b[0] != '*' && b[0] != '+':
		return cutOut, 0
	case len(b) < 4:
		return unclear, 0
	case b[0] == '+' && '0' <= b[1] && b[1] <= '9':
		return q.judgeMonitored(asked, b)
	case b[0] == '*' && (b[1] == '3' || b[1] == '4') && b[2] == '\r': // a message of RESP2; HELLO's answer has more elements, PING's two
		return forward, 0
	}
	return cutOut, 0
}

// judgeMonitored decides about a line of MONITOR. Those that show the question are for nobody.
//
//	< +1700000000.123456 [0 127.0.0.1:51234] "HELLO"\r\n
func (q *question) judgeMonitored(asked *inquiry, b []byte) (v verdict, n int) {
	text, long := line(b)
	if text == nil && !long {
		return unclear, 0
	}
	_, command, _ := bytes.Cut(text, q.from)
	switch string(command) {
	case `"HELLO"` + "\r\n", `"PING"` + "\r\n", `"ACL" "WHOAMI"` + "\r\n":
		return cutOut, len(text)
	}
	if bytes.Contains(text, asked.hello[:]) {
		return cutOut, len(text)
	}
	return forward, 0
}

// meet is called for a marker. It returns the question that is asked if that is answered with it.
func (a *answers) meet(q *question, asked *inquiry, role byte, number uint64) (answered uint64) {
	switch role {
	case roleSkip:
		a.passed, a.number = true, number
	case roleOpen:
		a.open, a.count, a.passed = true, 0, a.passed && a.number == number
		a.number = number
	case roleEnd:
		if !a.open || a.number != number {
			a.count = 0
		}
		a.open = false
		return a.answer(q, asked, number)
	}
	return 0
}

// answer hands the answers of a question over, if that is the one that is asked.
func (a *answers) answer(q *question, asked *inquiry, number uint64) uint64 {
	if asked.number != number || !q.asked.CompareAndSwap(asked, nil) {
		return 0
	}
	for i := range q.head {
		q.head[i] = nil
		if i < a.count {
			q.head[i] = bytes.Clone(a.head[i])
		}
	}
	q.passed = a.passed && a.number == number
	a.passed = false
	return number
}

// refused looks for the answers of an upstream that wants a login first, at the front of b: each
// request of the question is answered -NOAUTH, but HELLO's marker.
func (a *answers) refused(q *question, asked *inquiry, b []byte) (v verdict, n int, answered uint64) {
	if asked.lines == 0 {
		return forward, 0, 0
	}
	for i := range asked.lines + 2 {
		text, long := line(b[n:])
		switch {
		case text == nil && !long && !asked.givenUp && (n == len(b) || b[n] == '-'):
			return unclear, 0, 0
		case text == nil:
			return forward, 0, 0
		}
		role, number, ok := asked.marked(text)
		marks := ok && role == roleHello && number == asked.number
		if marks != (i == asked.lines) || !marks && !bytes.HasPrefix(text, []byte("-NOAUTH")) {
			return forward, 0, 0
		}
		n += len(text)
	}
	a.count, a.passed = 0, true
	a.number = asked.number
	return cutOut, n, a.answer(q, asked, asked.number)
}

// record keeps the beginning of an answer that is cut out.
func (a *answers) record(b []byte) {
	if i := a.count - 1; i < len(a.head) {
		a.head[i] = append(a.head[i], b[:min(len(b), maxAnswer-len(a.head[i]))]...)
	}
}

// begin notes that an answer begins.
func (a *answers) begin() {
	a.cut = true
	if a.count < len(a.head) {
		a.head[a.count] = a.head[a.count][:0]
	}
	a.count++
}
