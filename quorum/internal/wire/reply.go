package wire

import (
	"errors"

	"lockproxy/resp/respio"
)

// ErrUnparsable says that a master sent bytes that are no reply. The end of a reply is unknown
// from then on, so it ends the connection.
var ErrUnparsable = errors.New("answered something that is not Redis' protocol")

// Reply is one reply of a master, in RESP2.
type Reply = respio.Reply
