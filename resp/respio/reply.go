package respio

import (
	"errors"
	"strconv"
	"strings"
)

// Errors of a reply. Its end is unknown then, so the connection is of no further use.
var (
	ErrMalformed = errors.New("not Redis' protocol")
	ErrTooLarge  = errors.New("a reply beyond the limits")
)

// Reply is one reply of RESP2 or RESP3, or a push of RESP3. Attributes are left out.
type Reply struct {
	Kind  byte    // its first byte, but '-' for a bulk error ('!')
	Null  bool    // of '$', '*' and '_'
	Int   int64   // of ':'
	Text  string  // of all but ':', '_' and lists; of an error of a script without the script's line
	Elems []Reply // of '*', '~', '>' and '%'; of a map, keys and values in turn
}

// IsError reports whether the reply is an error.
func (r *Reply) IsError() bool { return r.Kind == '-' }

// Code returns the first word of an error, and an empty text for other replies.
func (r *Reply) Code() string {
	if r.Kind != '-' {
		return ""
	}
	word, _, _ := strings.Cut(r.Text, " ")
	return word
}

// Is reports whether the reply is the integer n.
func (r *Reply) Is(n int64) bool { return r.Kind == ':' && r.Int == n }

// Scalar returns the text of the reply, of an integer its digits. Lists and nulls have none.
func (r *Reply) Scalar() string {
	if r.Kind == ':' {
		return strconv.FormatInt(r.Int, 10)
	}
	return r.Text
}

// Fields returns a map whose values are scalars. In RESP2 that is a flat array.
func (r *Reply) Fields() map[string]string {
	m := make(map[string]string, len(r.Elems)/2)
	for i := 0; i+1 < len(r.Elems); i += 2 {
		m[r.Elems[i].Scalar()] = r.Elems[i+1].Scalar()
	}
	return m
}
