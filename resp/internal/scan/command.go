package scan

import "lockproxy/stat"

// Kind says what a request means for the standing of its connection. Nearly all commands are
// KindPlain: each has one reply of its own and changes nothing of what a connection is.
type Kind uint8

const (
	KindPlain       Kind = iota
	KindLock             // a lock command: answered by the proxy, never forwarded
	KindLogin            // AUTH: who is logged in
	KindHello            // HELLO: likewise, and which protocol
	KindReset            // RESET
	KindMulti            // MULTI
	KindExec             // EXEC, DISCARD: the end of a transaction
	KindSubscribe        // the SUBSCRIBE family: answered by any number of frames
	KindMonitor          // MONITOR: frames that nobody asked for
	KindClient           // CLIENT: of interest is CLIENT REPLY
	KindScript           // SCRIPT: of interest is SCRIPT DEBUG
	KindDebug            // DEBUG: may send frames of any kind
	KindReplication      // SYNC, PSYNC, REPLCONF: a replica speaks, and what follows is no requests and replies
	KindQuit             // QUIT
	KindHTTP             // POST, Host: a browser was led here, and Redis closes
)

// longestName is the length of the longest command name that has a kind of its own: PUNSUBSCRIBE.
const longestName = 12

// kinds has the names that are not KindPlain.
var kinds = withLockCommands(map[string]Kind{
	"auth": KindLogin, "hello": KindHello, "reset": KindReset,
	"multi": KindMulti, "exec": KindExec, "discard": KindExec,
	"subscribe": KindSubscribe, "psubscribe": KindSubscribe, "ssubscribe": KindSubscribe,
	"unsubscribe": KindSubscribe, "punsubscribe": KindSubscribe, "sunsubscribe": KindSubscribe,
	"monitor": KindMonitor, "client": KindClient, "script": KindScript, "debug": KindDebug,
	"sync": KindReplication, "psync": KindReplication, "replconf": KindReplication, // REPLCONF ACK has no reply, and no place in that of EXEC
	"quit": KindQuit, "post": KindHTTP, "host:": KindHTTP,
})

func withLockCommands(kinds map[string]Kind) map[string]Kind {
	for _, c := range stat.Commands {
		kinds[c.Name] = KindLock
	}
	return kinds
}

// notableLengths has, for the first letter of each name in kinds, the lengths of those names, as
// bits.
var notableLengths = func() (lengths [32]uint16) {
	for name := range kinds {
		lengths[name[0]&31] |= 1 << len(name)
	}
	return lengths
}()

// mayBeNotable is false for most names that Classify calls plain. It says so quickly.
func mayBeNotable(name []byte) bool {
	return len(name) >= 4 && len(name) <= longestName && notableLengths[name[0]&31]&(1<<len(name)) != 0
}

// Classify returns the kind of the command called name, in whatever case it is written. It does
// not allocate.
func Classify(name []byte) Kind {
	if !mayBeNotable(name) {
		return KindPlain
	}
	var text [longestName]byte
	known := text[:copy(text[:], name)]
	Lower(known)
	return kinds[string(known)]
}

// Lower writes the letters of name in lower case.
func Lower(name []byte) {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + ('a' - 'A')
		}
	}
}
