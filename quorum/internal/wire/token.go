package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
)

// The value of a lock is the secret, the fence with leading zeros, and the owner's label; of an
// adopted lock the byte 1 and the value that its client chose.
const (
	SecretLen = 40 // hex digits of 20 random bytes
	FenceLen  = 16 // decimal digits, enough for every number under 2^53
)

// valueMark begins the owner of an adopted lock. No label has this byte.
const valueMark = "\x01"

// OwnerOf returns the owner of an adopted lock: what Op.Owner carries for that value.
func OwnerOf(value string) string { return valueMark + value }

// ValueOf returns the value of an adopted lock, whose owner OwnerOf made.
func ValueOf(owner string) (value string, adopted bool) { return strings.CutPrefix(owner, valueMark) }

// AppendFence writes a fence with leading zeros.
func AppendFence(b []byte, fence uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], fence, 10)
	for range FenceLen - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

// ParseFenceOwner parses the part of a value after the secret: the fence that this master
// counted, and the owner's label. ok is false for a value that lockproxy did not write.
func ParseFenceOwner(tail string) (fence uint64, owner string, ok bool) {
	if len(tail) < FenceLen {
		return 0, "", false
	}
	for _, c := range []byte(tail[:FenceLen]) {
		if c < '0' || c > '9' {
			return 0, "", false
		}
	}
	fence, err := strconv.ParseUint(tail[:FenceLen], 10, 64)
	return fence, tail[FenceLen:], err == nil
}

// ReleaseID returns the message that a master publishes when it deletes the lock with that
// secret: the first 16 hex digits of the secret's SHA-1, which do not reveal the secret.
func ReleaseID(secret string) string {
	sum := sha1.Sum([]byte(secret))
	return hex.EncodeToString(sum[:8])
}
