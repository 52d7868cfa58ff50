package wire

import (
	"errors"
	"strings"
)

// ErrUnparsable says that a master sent bytes that are no reply. The end of a reply is unknown
// from then on, so it ends the connection.
var ErrUnparsable = errors.New("answered something that is not Redis' protocol")

// Reply is one reply of a master in RESP2. Parse reuses Elems from call to call.
type Reply struct {
	Kind  byte // '+', '-', ':', '$' or '*'
	Null  bool // of '$' and '*'
	Int   int64
	Text  string  // of '+', '-' and '$'
	Elems []Reply // of '*'
}

// IsError reports whether the master answered an error.
func (r *Reply) IsError() bool { return r.Kind == '-' }

// Code is the first word of an error, empty for other replies.
func (r *Reply) Code() string {
	if r.Kind != '-' {
		return ""
	}
	word, _, _ := strings.Cut(r.Text, " ")
	return word
}

// Is reports whether the reply is the integer n.
func (r *Reply) Is(n int64) bool { return r.Kind == ':' && r.Int == n }
