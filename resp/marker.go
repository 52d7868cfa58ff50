package resp

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// markerLine bounds the error line that answers a marker; a longer line is none.
const markerLine = 512

// nonceDigits is the length of a marker's name: 40 decimal digits carry 132 random bits. Digits, because a server may change
// the case of letters when it repeats the name.
const nonceDigits = 40

// marker finds out how far the upstream has got. It is a command whose name is a random number. Redis refuses unknown commands in their
// turn, before it looks at authentication, permissions, transactions, subscriptions or busy scripts, and repeats the name in the error;
// the copier cuts that error out of the stream.
//
// The pump arms it, the copier meets it; no two are ever under way.
type marker struct {
	armed atomic.Bool
	nonce [nonceDigits]byte // written before armed is set
	met   chan struct{}     // capacity 1
}

// arm makes a new marker and returns the bytes to send.
func (m *marker) arm() []byte {
	var random [nonceDigits]byte
	for filled := 0; filled < nonceDigits; {
		rand.Read(random[:]) // never fails
		for _, r := range random {
			if r < 250 && filled < nonceDigits { // 250 is a multiple of 10: every digit is as likely
				m.nonce[filled] = '0' + r%10
				filled++
			}
		}
	}
	b := append([]byte("*1\r\n$"), strconv.Itoa(nonceDigits)...)
	b = append(b, "\r\n"...)
	b = append(b, m.nonce[:]...)
	b = append(b, "\r\n"...)
	m.armed.Store(true)
	return b
}

// find looks for the answer to the marker at the front of b, which is the start of a frame. n is its length, 0 if it is not there. more:
// it cannot be told before more bytes come.
func (m *marker) find(b []byte) (n int, more bool) {
	if b[0] != '-' {
		return 0, false
	}
	end := bytes.IndexByte(b[:min(len(b), markerLine)], '\n')
	if end < 0 {
		return 0, len(b) < markerLine
	}
	if !bytes.Contains(b[:end], m.nonce[:]) {
		return 0, false
	}
	return end + 1, false
}

// hit tells the pump. The marker is disarmed first, so that the next one is not lost.
func (m *marker) hit() {
	m.armed.Store(false)
	m.met <- struct{}{}
}
