package scan

// Kind says what a request means for the standing of its connection. Nearly all commands are KindPlain: each has one reply of
// its own and changes nothing of what a connection is.
type Kind uint8

const (
	KindPlain       Kind = iota
	KindLock             // a lock command: answered by the proxy, never forwarded
	KindLogin            // AUTH, HELLO: who is logged in, which protocol
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

// LockCommands are the commands that are KindLock, in lower case.
var LockCommands = []string{"lock", "unlock", "extend", "lockinfo", "lockproxy"}

// notableNames are the names that Classify does not call plain.
var notableNames = append([]string{"auth", "hello", "reset", "multi", "exec", "discard", "subscribe", "psubscribe", "unsubscribe", "punsubscribe",
	"ssubscribe", "sunsubscribe", "monitor", "client", "script", "debug", "sync", "psync", "replconf", "quit", "post", "host:"}, LockCommands...)

// notableLengths has, for the first letter of each name with a kind of its own, the lengths of those names, as bits.
var notableLengths = func() (lengths [32]uint16) {
	for _, name := range notableNames {
		lengths[name[0]&31] |= 1 << len(name)
	}
	return lengths
}()

// mayBeNotable is false for most names that Classify calls plain. It says so quickly.
func mayBeNotable(name []byte) bool {
	return len(name) >= 4 && len(name) <= longestName && notableLengths[name[0]&31]&(1<<len(name)) != 0
}

// Classify returns the kind of the command called name, in whatever case it is written. It does not allocate.
func Classify(name []byte) Kind {
	if len(name) < 4 || len(name) > longestName {
		return KindPlain
	}
	var text [longestName]byte
	known := text[:copy(text[:], name)]
	Lower(known)
	switch string(known) {
	case "lock", "unlock", "extend", "lockinfo", "lockproxy":
		return KindLock
	case "auth", "hello":
		return KindLogin
	case "reset":
		return KindReset
	case "multi":
		return KindMulti
	case "exec", "discard":
		return KindExec
	case "subscribe", "psubscribe", "unsubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return KindSubscribe
	case "monitor":
		return KindMonitor
	case "client":
		return KindClient
	case "script":
		return KindScript
	case "debug":
		return KindDebug
	case "sync", "psync", "replconf": // REPLCONF ACK has no reply, and no place in that of EXEC
		return KindReplication
	case "quit":
		return KindQuit
	case "post", "host:":
		return KindHTTP
	}
	return KindPlain
}

// Lower writes the letters of name in lower case.
func Lower(name []byte) {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + ('a' - 'A')
		}
	}
}
