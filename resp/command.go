package resp

// kind says what a request means for the state of its connection. Nearly all commands are plain.
type kind uint8

const (
	plain      kind = iota
	ours            // answered by the proxy, never forwarded
	kAuth           // AUTH
	kHello          // HELLO
	kReset          // RESET
	kMulti          // MULTI
	kExec           // EXEC
	kDiscard        // DISCARD
	kSubscribe      // SUBSCRIBE, UNSUBSCRIBE and their P forms
	kShard          // their S forms
	kMonitor        // MONITOR
	kClient         // CLIENT: of interest is CLIENT REPLY
	kScript         // SCRIPT: of interest is SCRIPT DEBUG
	kDebug          // DEBUG
	kSync           // SYNC, PSYNC, REPLCONF: a replica speaks
	kQuit           // QUIT
	kHTTP           // POST, Host:
)

// longestName is the length of the longest command name that has a kind of its own: PUNSUBSCRIBE.
const longestName = 12

// notableNames are the names that classify does not call plain.
var notableNames = append([]string{"auth", "hello", "reset", "multi", "exec", "discard", "subscribe", "psubscribe", "unsubscribe", "punsubscribe",
	"ssubscribe", "sunsubscribe", "monitor", "client", "script", "debug", "sync", "psync", "replconf", "quit", "post", "host:"}, CommandNames...)

// CommandNames are the commands that a Server gives to its handler, in lower case. All others go to the upstream.
var CommandNames = []string{"lock", "unlock", "extend", "lockinfo", "lockproxy"}

// notableLengths has, for the first letter of each name with a kind of its own, the lengths of those names, as bits.
var notableLengths = func() (lengths [32]uint16) {
	for _, name := range notableNames {
		lengths[name[0]&31] |= 1 << len(name)
	}
	return lengths
}()

// mayBeNotable is false for most names that classify calls plain. It says so quickly.
func mayBeNotable(name []byte) bool {
	return len(name) >= 4 && len(name) <= longestName && notableLengths[name[0]&31]&(1<<len(name)) != 0
}

// classify tells what the command called name is, in whatever case it is written. It does not allocate.
func classify(name []byte) kind {
	if len(name) < 4 || len(name) > longestName {
		return plain
	}
	var text [longestName]byte
	known := text[:copy(text[:], name)]
	lower(known)
	switch string(known) {
	case "lock", "unlock", "extend", "lockinfo", "lockproxy":
		return ours
	case "auth":
		return kAuth
	case "hello":
		return kHello
	case "reset":
		return kReset
	case "multi":
		return kMulti
	case "exec":
		return kExec
	case "discard":
		return kDiscard
	case "subscribe", "psubscribe", "unsubscribe", "punsubscribe":
		return kSubscribe
	case "ssubscribe", "sunsubscribe":
		return kShard
	case "monitor":
		return kMonitor
	case "client":
		return kClient
	case "script":
		return kScript
	case "debug":
		return kDebug
	case "sync", "psync", "replconf": // REPLCONF ACK has no reply, and no place in that of EXEC
		return kSync
	case "quit":
		return kQuit
	case "post", "host:":
		return kHTTP
	}
	return plain
}

// lower writes the letters of name in lower case.
func lower(name []byte) {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + ('a' - 'A')
		}
	}
}
