package protocol

import "bytes"

// answers finds the answers to queries among the upstream's frames. It is the copier's.
type answers struct {
	stage  answersStage
	passed bool   // the marker after CLIENT REPLY SKIP has come
	number uint64 // of the query that stage or passed is about
	count  int    // answers that have begun
	head   [2][]byte
}

// answersStage is the place of the next frame among the answers.
type answersStage uint8

const (
	closed    answersStage = iota // no opening marker has come, or the ending one has
	opened                        // between the opening marker and the ending one: frames are answers
	answering                     // in a frame that is an answer
)

// interrupt ends the current answer before its frame has ended.
func (a *answers) interrupt() {
	if a.stage == answering {
		a.stage = opened
	}
}

// frameFate is the fate of a frame.
type frameFate uint8

const (
	pass   frameFate = iota // the client gets it
	remove                  // it is an answer to a query
	wait                    // more bytes are needed to decide
)

// line returns the line at the front of b with its end; nil if it is not complete. long: it is too
// long for an answer with a marker.
func line(b []byte) (text []byte, long bool) {
	end := bytes.IndexByte(b[:min(len(b), maxAnswer)], '\n')
	if end < 0 {
		return nil, len(b) >= maxAnswer
	}
	return b[:end+1], false
}

// judge decides about the frame that begins with b, or if nested is set about an element of one,
// while q is pending. If n is positive, the first n bytes are removed at once; otherwise the frame
// is. answered is the number of the query whose answers are complete with it; 0: none.
func (a *answers) judge(qs *queries, q *query, b []byte, nested bool) (v frameFate, n int, answered uint64) {
	if b[0] == '-' {
		text, long := line(b)
		if text == nil && !long {
			return wait, 0, 0
		}
		if role, number, ok := q.marked(text); ok {
			return remove, len(text), a.marker(qs, q, role, number)
		}
		if a.stage == closed && bytes.HasPrefix(text, []byte("-NOAUTH")) {
			return a.refused(qs, q, b)
		}
	}
	if nested || a.stage == closed {
		return pass, 0, 0
	}
	v, n = judgeOpen(qs, q, b)
	return v, n, 0
}

// judgeOpen decides about a frame after the opening marker: it is an answer unless it is a message
// or a line of MONITOR.
func judgeOpen(qs *queries, q *query, b []byte) (v frameFate, n int) {
	switch {
	case b[0] == '>':
		return pass, 0
	case b[0] != '*' && b[0] != '+':
		return remove, 0
	case len(b) < 4:
		return wait, 0
	case b[0] == '+' && '0' <= b[1] && b[1] <= '9':
		return judgeMonitored(qs, q, b)
	case b[0] == '*' && (b[1] == '3' || b[1] == '4') && b[2] == '\r': // a message: answers have 2 elements or many
		return pass, 0
	}
	return remove, 0
}

// judgeMonitored decides about a line of MONITOR. Lines that show the query are removed.
//
//	< +1700000000.123456 [0 127.0.0.1:51234] "HELLO"\r\n
func judgeMonitored(qs *queries, q *query, b []byte) (v frameFate, n int) {
	text, long := line(b)
	if text == nil && !long {
		return wait, 0
	}
	_, command, _ := bytes.Cut(text, qs.from)
	switch string(command) {
	case `"HELLO"` + "\r\n", `"PING"` + "\r\n", `"ACL" "WHOAMI"` + "\r\n":
		return remove, len(text)
	}
	if bytes.Contains(text, q.hello[:]) {
		return remove, len(text)
	}
	return pass, 0
}

// marker takes a marker. It returns the number of the pending query if that is answered with it.
func (a *answers) marker(qs *queries, q *query, role byte, number uint64) (answered uint64) {
	switch role {
	case roleSkip:
		a.passed, a.number = true, number
	case roleOpen:
		a.stage, a.count, a.passed = opened, 0, a.passed && a.number == number
		a.number = number
	case roleEnd:
		if a.stage == closed || a.number != number {
			a.count = 0
		}
		a.stage = closed
		return a.complete(qs, q, number)
	}
	return 0
}

// complete hands the answers over if they are those of the pending query, and returns its number.
func (a *answers) complete(qs *queries, q *query, number uint64) uint64 {
	if q.number != number || !qs.pending.CompareAndSwap(q, nil) {
		return 0
	}
	for i := range qs.head {
		qs.head[i] = nil
		if i < a.count {
			qs.head[i] = bytes.Clone(a.head[i])
		}
	}
	qs.passed = a.passed && a.number == number
	a.passed = false
	return number
}

// refused looks for the answers of an upstream that wants a login first, at the front of b: it
// refuses each request of the query with -NOAUTH, except HELLO's marker.
func (a *answers) refused(qs *queries, q *query, b []byte) (v frameFate, n int, answered uint64) {
	if q.lines == 0 {
		return pass, 0, 0
	}
	for i := range q.lines + 2 {
		text, long := line(b[n:])
		switch {
		case text == nil && !long && !q.givenUp && (n == len(b) || b[n] == '-'):
			return wait, 0, 0
		case text == nil:
			return pass, 0, 0
		}
		role, number, ok := q.marked(text)
		marks := ok && role == roleHello && number == q.number
		if marks != (i == q.lines) || !marks && !bytes.HasPrefix(text, []byte("-NOAUTH")) {
			return pass, 0, 0
		}
		n += len(text)
	}
	a.count, a.passed = 0, true
	a.number = q.number
	return remove, n, a.complete(qs, q, q.number)
}

// record keeps the beginning of an answer.
func (a *answers) record(b []byte) {
	if i := a.count - 1; i < len(a.head) {
		a.head[i] = append(a.head[i], b[:min(len(b), maxAnswer-len(a.head[i]))]...)
	}
}

// begin starts an answer.
func (a *answers) begin() {
	a.stage = answering
	if a.count < len(a.head) {
		a.head[a.count] = a.head[a.count][:0]
	}
	a.count++
}
