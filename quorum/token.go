package quorum

import (
	"errors"
	"strconv"
)

const (
	secretLen = 40 // hex digits of the 20 random bytes
	fenceLen  = 16 // decimal digits
	tokenLen  = fenceLen + 1 + secretLen
)

// errTokenForm is what ParseToken fails with; it never quotes the token.
var errTokenForm = errors.New("want 16 decimal digits, a colon and 40 lower-case hex digits")

// Token proves who holds a key. It belongs to one attempt of one Acquire. The zero value is no token.
type Token struct {
	Fence  uint64 // rises from holder to holder of a key, under 2^53; 0 with fencing off. Public, proves nothing
	Secret string // 40 lower-case hex digits of 20 bytes from crypto/rand. Only this decides
}

// String is the token as clients get it: of two tokens of a key, as plain strings, the later holder's is greater.
func (t Token) String() string {
	var b [tokenLen]byte
	return string(append(append(appendFence(b[:0], t.Fence), ':'), t.Secret...))
}

// appendFence writes a fence with leading zeros.
func appendFence(b []byte, fence uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], fence, 10)
	for range fenceLen - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

// ParseToken reads what String wrote: exactly 16 decimal digits, a colon, 40 lower-case hex digits. It keeps no
// part of b.
func ParseToken(b []byte) (Token, error) {
	if len(b) != tokenLen || b[fenceLen] != ':' {
		return Token{}, errTokenForm
	}
	for _, c := range b[:fenceLen] {
		if c < '0' || c > '9' {
			return Token{}, errTokenForm
		}
	}
	for _, c := range b[fenceLen+1:] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Token{}, errTokenForm
		}
	}
	fence, err := strconv.ParseUint(string(b[:fenceLen]), 10, 64)
	if err != nil {
		return Token{}, errTokenForm
	}
	return Token{Fence: fence, Secret: string(b[fenceLen+1:])}, nil
}

// behindSecret reads what stands behind the secret in a value: the fence as that master counted it and the owner
// label; ok is false for a value that is not of our making.
func behindSecret(tail string) (fence uint64, owner string, ok bool) {
	if len(tail) < fenceLen {
		return 0, "", false
	}
	for _, c := range []byte(tail[:fenceLen]) {
		if c < '0' || c > '9' {
			return 0, "", false
		}
	}
	fence, err := strconv.ParseUint(tail[:fenceLen], 10, 64)
	return fence, tail[fenceLen:], err == nil
}
