package adopt

import (
	"bytes"
	"strconv"
)

// Judgement is the fate of a request.
type Judgement uint8

const (
	More Judgement = iota // more arguments are needed
	Pass                  // the request names no lock key: relay it
	Own                   // the proxy runs or refuses it
)

// Judge decides on the arguments of a request that have been read so far (each whole), of total.
// full says that no more can be held back: then Judge does not return More. Nor does it if argv
// has total arguments. Judge neither changes nor keeps argv.
//
// Keys that cannot be held back are not examined, but a script whose keys cannot be is Own: see
// TooLong.
func (p Patterns) Judge(argv [][]byte, total int, full bool) Judgement {
	ended := full || len(argv) >= total
	switch {
	case total <= 0:
		return Pass
	case p.all:
		return judgeAll(argv, ended)
	case len(argv) == 0 && ended: // the name is too long
		return Own
	case len(argv) == 0:
		return More
	}
	at, unread := p.find(argv, total)
	switch {
	case at > 0:
		return Own
	case unread != allRead && !ended:
		return More
	case unread == countUnread && full:
		return Own
	}
	return Pass
}

// related are the commands that pass to the upstream although every key is a lock key.
var related = setOf("hello", "auth", "client", "ping", "echo", "info", "command", "role", "time", "select", "quit",
	"reset", "readonly", "script", "publish", "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe",
	"sunsubscribe", "multi", "exec", "discard")

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// judgeAll is Judge if every key is a lock key.
func judgeAll(argv [][]byte, ended bool) Judgement {
	var space [longestName]byte
	switch {
	case len(argv) == 0 && !ended:
		return More
	case len(argv) == 0:
		return Own
	}
	switch name := lower(&space, argv[0]); {
	case related[string(name)]:
		return Pass
	case string(name) != "config":
		return Own
	case len(argv) == 1 && !ended:
		return More
	case len(argv) > 1 && bytes.EqualFold(argv[1], []byte("get")):
		return Pass
	}
	return Own
}

// longestName is the length of the longest name in places and more: longer ones are unknown.
const longestName = 24

// lower returns name in lower case, or nil if it is longer than every name of a table.
func lower(space *[longestName]byte, name []byte) []byte {
	if len(name) > longestName {
		return nil
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		space[i] = c
	}
	return space[:len(name)]
}

// keyPlaces describes the positions of the keys of a command.
type keyPlaces struct {
	keyRange
	count     int // the argument that says how many keys follow it; 0: none does
	countStep int

	// options finds keys after words such as STORE.
	options func(argv [][]byte, total int, found []keyRange) ([]keyRange, left)
}

// keyRange is every step-th argument from first to last. A last below 0 counts from the end; a
// first of 0 is no key.
type keyRange struct{ first, last, step int }

// left is the part of the keys' positions that arguments not read yet determine.
type left uint8

const (
	allRead     left = iota
	someUnread       // some keys
	countUnread      // how many keys there are
)

// unknown is the place of commands that no table has: their first argument is their key.
var unknown = many(1, 1, 1)

// many returns the place of keys from first to last.
func many(first, last, step int) keyPlaces { return keyPlaces{keyRange: keyRange{first, last, step}} }

// counted returns the place of keys that a number counts.
func counted(count int) keyPlaces { return keyPlaces{count: count, countStep: 1} }

// storeCounted is the place of a key to write to, and keys to read, which a number counts.
var storeCounted = keyPlaces{keyRange: keyRange{1, 1, 1}, count: 2, countStep: 1}

// places has the commands with keys elsewhere than in their first argument alone, of Redis 7 and 8
// and Valkey, and of modules that come with them.
var places = map[string]keyPlaces{
	"bitop": many(2, -1, 1), "blmove": many(1, 2, 1), "blpop": many(1, -2, 1), "brpop": many(1, -2, 1),
	"brpoplpush": many(1, 2, 1), "bzpopmax": many(1, -2, 1), "bzpopmin": many(1, -2, 1), "copy": many(1, 2, 1),
	"del": many(1, -1, 1), "exists": many(1, -1, 1), "geosearchstore": many(1, 2, 1), "lcs": many(1, 2, 1),
	"lmove": many(1, 2, 1), "mget": many(1, -1, 1), "mset": many(1, -1, 2), "msetnx": many(1, -1, 2),
	"pfcount": many(1, -1, 1), "pfmerge": many(1, -1, 1), "rename": many(1, 2, 1), "renamenx": many(1, 2, 1),
	"rpoplpush": many(1, 2, 1), "sdiff": many(1, -1, 1), "sdiffstore": many(1, -1, 1), "sinter": many(1, -1, 1),
	"sinterstore": many(1, -1, 1), "smove": many(1, 2, 1), "sunion": many(1, -1, 1), "sunionstore": many(1, -1, 1),
	"touch": many(1, -1, 1), "unlink": many(1, -1, 1), "watch": many(1, -1, 1), "zrangestore": many(1, 2, 1),

	"blmpop": counted(2), "bzmpop": counted(2), "lmpop": counted(1), "zmpop": counted(1),
	"eval": counted(2), "eval_ro": counted(2), "evalsha": counted(2), "evalsha_ro": counted(2),
	"fcall": counted(2), "fcall_ro": counted(2), "sintercard": counted(1), "zdiff": counted(1), "zinter": counted(1),
	"zintercard": counted(1), "zunion": counted(1), "msetex": {count: 1, countStep: 2},
	"zdiffstore": storeCounted, "zinterstore": storeCounted, "zunionstore": storeCounted,

	"georadius": {options: storeKeys(6)}, "georadiusbymember": {options: storeKeys(5)}, "sort": {options: sortKeys},
	"migrate": {options: migrateKeys}, "xread": {options: streamKeys(1)}, "xreadgroup": {options: streamKeys(4)},

	"memory": {options: subcommandKeys("usage")}, "pfdebug": many(2, 2, 1),
	"object": {options: subcommandKeys("encoding", "freq", "idletime", "refcount")},
	"xgroup": {options: subcommandKeys("create", "createconsumer", "delconsumer", "destroy", "setid")},
	"xinfo":  {options: subcommandKeys("consumers", "groups", "stream")},
	"debug": {options: subcommandKeys("object", "sdslen", "ziplist", "listpack", "quicklist", "htstats-key",
		"digest-value")},

	"tfcall": counted(2), "tfcallasync": counted(2), "json.debug": many(2, 2, 1),
	"json.mget": many(1, -2, 1), "json.mset": many(1, -1, 3), "ts.madd": many(1, -1, 3),
	"ts.createrule": many(1, 2, 1), "ts.deleterule": many(1, 2, 1),
	"cms.merge": storeCounted, "tdigest.merge": storeCounted,
}

// keyless are the commands whose first argument is no key.
var keyless = setOf("acl", "asking", "auth", "bgrewriteaof", "bgsave", "client", "cluster", "command", "config",
	"dbsize", "discard", "echo", "exec", "failover", "flushall", "flushdb", "function", "hello", "info", "keys",
	"lastsave", "latency", "lolwut", "module", "monitor", "multi", "pfselftest", "ping", "psubscribe", "psync",
	"publish", "pubsub", "punsubscribe", "quit", "randomkey", "readonly", "readwrite", "replconf", "replicaof",
	"reset", "role", "save", "scan", "script", "select", "shutdown", "slaveof", "slowlog", "spublish", "ssubscribe",
	"subscribe", "sunsubscribe", "swapdb", "sync", "time", "unsubscribe", "unwatch", "wait", "waitaof")

// placeOf returns the place of the keys of the command called name; none: it has no keys.
func placeOf(name []byte) (where keyPlaces, none bool) {
	var space [longestName]byte
	known := lower(&space, name)
	if where, ok := places[string(known)]; ok {
		return where, false
	}
	if bytes.IndexByte(name, 0) >= 0 {
		// Redis compares names up to a zero byte, so this may be any command.
		return many(1, -1, 1), false
	}
	return unknown, keyless[string(known)]
}

// find returns the place of the first lock key, 0 if there is none among the arguments read, and
// what of the keys is unread.
func (p Patterns) find(argv [][]byte, total int) (at int, unread left) {
	if len(argv) == 0 {
		return 0, allRead
	}
	where, none := placeOf(argv[0])
	if none {
		return 0, allRead
	}
	if where.options != nil {
		ranges, unread := where.options(argv, total, nil)
		return p.findIn(ranges, argv, total, unread)
	}
	fixed := [...]keyRange{where.keyRange, {}}
	switch {
	case where.count == 0:
	case where.count >= len(argv):
		unread = countUnread
	default:
		fixed[1] = countedKeys(argv[where.count], where.count+1, where.countStep, total)
	}
	return p.findIn(fixed[:], argv, total, unread)
}

// findIn is find for keys in ranges. unread is what of the keys is not in ranges yet.
func (p Patterns) findIn(ranges []keyRange, argv [][]byte, total int, unread left) (int, left) {
	for _, r := range ranges {
		last := r.last
		if last < 0 {
			last += total
		}
		for i := r.first; r.first > 0 && i <= min(last, total-1); i += r.step {
			if i >= len(argv) {
				unread = max(unread, someUnread)
				break
			}
			if p.Match(argv[i]) {
				return i, unread
			}
		}
	}
	return 0, unread
}

// countedKeys returns the positions of the keys that number counts, from the argument first on. If
// the number is not one, or more than there are arguments, all of these may be keys.
func countedKeys(number []byte, first, step, total int) keyRange {
	n, err := strconv.ParseUint(string(number), 10, 31)
	if last := first + (int(n)-1)*step; err == nil && last < total {
		return keyRange{first, last, step}
	}
	return keyRange{first, -1, 1}
}

// rest says whether options may follow that are not read yet.
func rest(argv [][]byte, total int) left {
	if len(argv) < total {
		return someUnread
	}
	return allRead
}

// isWord reports whether arg is one of words, which are in lower case.
func isWord(arg []byte, words ...string) bool {
	for _, word := range words {
		if len(arg) == len(word) && bytes.EqualFold(arg, []byte(word)) {
			return true
		}
	}
	return false
}

// storeKeys finds the first argument and the keys after STORE and STOREDIST at first or later.
func storeKeys(first int) func([][]byte, int, []keyRange) ([]keyRange, left) {
	return func(argv [][]byte, total int, found []keyRange) ([]keyRange, left) {
		found = append(found, keyRange{1, 1, 1})
		for i := first; i < len(argv); i++ {
			if isWord(argv[i], "store", "storedist") {
				found = append(found, keyRange{i + 1, i + 1, 1})
			}
		}
		return found, rest(argv, total)
	}
}

// sortKeys finds the first argument and the keys after STORE. What BY and GET read are no keys.
func sortKeys(argv [][]byte, total int, found []keyRange) ([]keyRange, left) {
	found = append(found, keyRange{1, 1, 1})
	for i := 2; i < len(argv); i++ {
		switch {
		case isWord(argv[i], "limit"):
			i += 2
		case isWord(argv[i], "get", "by"):
			i++
		case isWord(argv[i], "store"):
			found = append(found, keyRange{i + 1, i + 1, 1})
		}
	}
	return found, rest(argv, total)
}

// migrateKeys finds the keys of MIGRATE host port key|"" db timeout [options] [KEYS key ...].
func migrateKeys(argv [][]byte, total int, found []keyRange) ([]keyRange, left) {
	found = append(found, keyRange{3, 3, 1})
	for i := 6; i < len(argv); i++ {
		switch {
		case isWord(argv[i], "auth"):
			i++
		case isWord(argv[i], "auth2"):
			i += 2
		case isWord(argv[i], "keys"):
			return append(found, keyRange{i + 1, -1, 1}), allRead
		}
	}
	return found, rest(argv, total)
}

// streamKeys finds the first half of the arguments after STREAMS, a word at first or later. In a
// request that Redis will refuse, all may be keys.
func streamKeys(first int) func([][]byte, int, []keyRange) ([]keyRange, left) {
	return func(argv [][]byte, total int, found []keyRange) ([]keyRange, left) {
		for i := 1; i < len(argv); i++ {
			streams := total - i - 1
			switch {
			case isWord(argv[i], "block", "count", "claim") && (i+1 >= len(argv) || !isWord(argv[i+1], "streams")):
				i++
			case isWord(argv[i], "group") && first > 1:
				i += 2
			case isWord(argv[i], "noack"):
			case isWord(argv[i], "streams") && i >= first && streams%2 == 0:
				return append(found, keyRange{i + 1, i + streams/2, 1}), allRead
			default:
				return append(found, keyRange{i, -1, 1}), allRead
			}
		}
		return found, rest(argv, total)
	}
}

// subcommandKeys finds the keys after the subcommands that have some.
func subcommandKeys(names ...string) func([][]byte, int, []keyRange) ([]keyRange, left) {
	return func(argv [][]byte, total int, found []keyRange) ([]keyRange, left) {
		switch {
		case len(argv) < 2:
			return found, rest(argv, total)
		case !isWord(argv[1], names...):
			return found, allRead
		case isWord(argv[1], "digest-value"):
			return append(found, keyRange{2, -1, 1}), allRead
		}
		return append(found, keyRange{2, 2, 1}), allRead
	}
}
