package protocol

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
)

// query finds out how many requests the upstream has answered and, if it is a full one, the
// connection's standing. It is a run of requests that are written together; their answers are
// removed from the stream. docs/relay.md shows why they prove the conclusions.
//
// Its markers are commands whose names are secret numbers. Redis refuses unknown commands in their
// turn, before it looks at authentication, permissions, transactions, subscriptions or busy
// scripts, and repeats the name in the error. A server that checks authentication first (Valkey
// 9.1) answers a marker with -NOAUTH on a connection that is not logged in. It repeats an unknown
// option of HELLO instead, which may be sent without a login.
//
//	> *1\r\n$40\r\n<secret>3\r\n                              only after CLIENT REPLY SKIP, which this uses up
//	> *1\r\n$40\r\n<secret>0\r\n                              opens a full query
//	> *1\r\n$5\r\nHELLO\r\n                                   or PING, if a bare HELLO is not known
//	> *2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n                     with Options.AskUser or Facts.GuestsLimited
//	> *3\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$40\r\n<hello's>1\r\n
//	> *1\r\n$40\r\n<secret>2\r\n                              ends every query
//
// A query does not change after it was asked.
type query struct {
	number uint64
	asks   asks
	// secret names the markers that are unknown commands; no other client gets to see it. It stays
	// the same on a connection, so that late answers are recognised.
	secret digits
	// hello is in the marker that is an option of HELLO. MONITOR shows it, though not before the
	// opening marker was answered. So each query has another.
	hello   digits
	markers uint64 // requests of it that are markers
	lines   int    // requests of it that an upstream which wants a login refuses before HELLO's marker
	givenUp bool   // the pump does not wait for it any more
}

// asks are the facts that a query finds out.
type asks struct {
	standing     bool // the standing: a full query
	user         bool // with standing: the user, too
	skip         bool // whether CLIENT REPLY SKIP was used up before
	withoutHello bool // PING replaces a bare HELLO
}

// queries are the queries of a connection, one at a time. The pump asks, the copier finds the
// answers.
type queries struct {
	pending  atomic.Pointer[query] // the last one; nil: its answer has come
	last     *query                // the pump's
	from     []byte                // the end of the connection's address in lines of MONITOR, or a part of it
	answered chan uint64           // capacity 1: see Conn.Answered
	head     [2][]byte             // the beginnings of the answers; the copier sets them before it sends to answered
	passed   bool                  // the request after CLIENT REPLY SKIP was answered; set likewise
}

// digits are a secret.
type digits [secretDigits]byte

// Digits of a marker's name: 93 random bits, the query's number, and the role. They are digits as
// a server may change the case of letters.
const (
	secretDigits = 28
	numberDigits = 11

	// MarkerLength is the length of a marker's name.
	MarkerLength = secretDigits + numberDigits + 1
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
func (q *query) put(b []byte, role byte) []byte {
	q.markers++
	secret := &q.secret
	if role == roleHello {
		secret = &q.hello
		b = append(b, "*3\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$"...)
	} else {
		b = append(b, "*1\r\n$"...)
	}
	b = strconv.AppendInt(b, MarkerLength, 10)
	b = append(append(b, "\r\n"...), secret[:]...)
	return fmt.Appendf(b, "%0*d%c\r\n", numberDigits, q.number, role)
}

// ask makes the next query and returns its requests.
func (qs *queries) ask(what asks) []byte {
	q := &query{number: 1, asks: what, hello: randomDigits()}
	if qs.last == nil {
		q.secret = randomDigits()
	} else {
		q.number, q.secret = qs.last.number+1, qs.last.secret
	}
	var b []byte
	if what.skip {
		b = q.put(b, roleSkip)
		q.lines++
	}
	if what.standing {
		b = q.put(b, roleOpen)
		if what.withoutHello {
			b = append(b, "*1\r\n$4\r\nPING\r\n"...)
		} else {
			b = append(b, "*1\r\n$5\r\nHELLO\r\n"...)
		}
		q.lines += 2
		if what.user {
			b = append(b, "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n"...)
			q.lines++
		}
		b = q.put(b, roleHello)
	}
	b = q.put(b, roleEnd)
	qs.last = q
	qs.pending.Store(q)
	return b
}

// giveUp ends the waiting for the pending query. Its answers are still removed if they come, but
// no bytes are held back to recognise them: they may be the last that come for long.
func (qs *queries) giveUp() {
	if q := qs.pending.Load(); q != nil {
		given := *q
		given.givenUp = true
		qs.pending.CompareAndSwap(q, &given)
	}
}

// randomDigits draws digits, each with the same probability.
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

// marked returns the role and the query's number of the marker in line; ok is false if there is
// none.
func (q *query) marked(line []byte) (role byte, number uint64, ok bool) {
	for i, secret := range [...]*digits{&q.secret, &q.hello} {
		at := bytes.Index(line, secret[:])
		if at < 0 || len(line)-at < MarkerLength {
			continue
		}
		text := line[at+secretDigits:][:numberDigits+1]
		number, err := strconv.ParseUint(string(text[:numberDigits]), 10, 64)
		role = text[numberDigits]
		return role, number, err == nil && (i == 1) == (role == roleHello)
	}
	return 0, 0, false
}
