package quorum

import (
	"errors"
	"strconv"

	"lockproxy/quorum/internal/wire"
)

const (
	secretLen = wire.SecretLen
	fenceLen  = wire.FenceLen
	tokenLen  = fenceLen + 1 + secretLen
)

// errTokenForm is what ParseToken fails with; it never quotes the token.
var errTokenForm = errors.New("want 16 decimal digits, a colon and 40 lower-case hex digits")

// Token proves who holds a key. It belongs to one attempt of one Acquire. The zero value is no
// token.
type Token struct {
	// Fence rises from holder to holder of a key. It is under 2^53, and 0 with fencing off. It is
	// public and no proof.
	Fence uint64
	// Secret is 20 bytes from crypto/rand as 40 lower-case hex digits. It alone proves ownership.
	Secret string
}

// String returns the token in the form that clients get. Compared as strings, the token of a later
// holder of a key is greater.
func (t Token) String() string {
	var b [tokenLen]byte
	return string(append(append(wire.AppendFence(b[:0], t.Fence), ':'), t.Secret...))
}

// ParseToken parses the result of String: exactly 16 decimal digits, a colon, 40 lower-case hex
// digits. It keeps no part of b.
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
