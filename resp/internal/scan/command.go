package scan

import (
	"bytes"

	"lockproxy/stat"
)

// CommandKind classifies requests by their effect on the standing of a connection. Nearly all
// commands are KindPlain: each has one reply of its own and does not change the standing.
type CommandKind uint8

const (
	KindPlain       CommandKind = iota
	KindLock                    // a lock command: the proxy runs it, and forwards it only where it can insert no reply
	KindLogin                   // AUTH: who is logged in
	KindHello                   // HELLO: likewise, and which protocol
	KindReset                   // RESET
	KindMulti                   // MULTI
	KindExec                    // EXEC, DISCARD: the end of a transaction
	KindSubscribe               // the SUBSCRIBE family: answered by any number of frames
	KindMonitor                 // MONITOR: frames without a request
	KindClient                  // CLIENT: of interest is CLIENT REPLY
	KindScript                  // SCRIPT: of interest is SCRIPT DEBUG
	KindCommand                 // COMMAND: its reply may get the lock commands
	KindDebug                   // DEBUG: may send frames of any kind
	KindBlocking                // BLPOP and the like: may wait for another client before it is answered
	KindStream                  // XREAD, XREADGROUP: likewise with BLOCK
	KindReplication             // SYNC, PSYNC, REPLCONF: a replica speaks, and later bytes are not requests and replies
	KindQuit                    // QUIT
	KindHTTP                    // POST, Host: a browser was led here, and Redis closes
	KindUnclear                 // one of these names followed by a zero byte: only the upstream knows
)

// longestName is the length of the longest command name that has a kind of its own: PUNSUBSCRIBE.
const longestName = 12

// kinds has the names that are not KindPlain.
var kinds = withLockCommands(map[string]CommandKind{
	"auth": KindLogin, "hello": KindHello, "reset": KindReset,
	"multi": KindMulti, "exec": KindExec, "discard": KindExec,
	"subscribe": KindSubscribe, "psubscribe": KindSubscribe, "ssubscribe": KindSubscribe,
	"unsubscribe": KindSubscribe, "punsubscribe": KindSubscribe, "sunsubscribe": KindSubscribe,
	"monitor": KindMonitor, "client": KindClient, "script": KindScript, "debug": KindDebug,
	"command": KindCommand,
	"sync":    KindReplication, "psync": KindReplication, "replconf": KindReplication, // REPLCONF ACK has no reply
	"blpop": KindBlocking, "brpop": KindBlocking, "brpoplpush": KindBlocking, "blmove": KindBlocking,
	"blmpop": KindBlocking, "bzpopmin": KindBlocking, "bzpopmax": KindBlocking, "bzmpop": KindBlocking,
	"wait": KindBlocking, "waitaof": KindBlocking,
	"xread": KindStream, "xreadgroup": KindStream,
	"quit": KindQuit, "post": KindHTTP, "host:": KindHTTP,
})

func withLockCommands(kinds map[string]CommandKind) map[string]CommandKind {
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

// shortestName is the length of the shortest name in kinds.
const shortestName = 4

// Classify returns the kind of the command called name, in upper or lower case. It does
// not allocate, and says quickly that most names are plain. The first longestName+1 bytes decide.
//
// Redis looks names up in a hash table, and compares them like C strings, up to a zero byte. So a
// name like "auth\x0042" is AUTH if both have the same place in the table.
func Classify(name []byte) CommandKind {
	if len(name) < shortestName || notableLengths[name[0]&31] == 0 {
		return KindPlain
	}
	if kind := kindOf(name); kind != KindPlain || len(name) == shortestName {
		return kind
	}
	zero := bytes.IndexByte(name[shortestName:min(len(name), longestName+1)], 0)
	if zero < 0 {
		return KindPlain
	}
	switch kindOf(name[:shortestName+zero]) {
	case KindPlain, KindBlocking, KindStream, KindCommand:
		return KindPlain
	}
	return KindUnclear
}

// kindOf looks name up in kinds.
func kindOf(name []byte) CommandKind {
	if notableLengths[name[0]&31]&(1<<len(name)) == 0 {
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
