package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// grammar writes commands by the syntax that COMMAND DOCS gives for their arguments: every option
// in every combination, most of them correct. Commands that must not be left to chance have
// hand-written calls, in specials.
type grammar struct {
	script
	commands map[string][]described // by group
	groups   []string
	payload  string // the reply to DUMP of a string
}

// anyOf returns a command of a group.
func (g grammar) anyOf(group string) described {
	return g.commands[group][g.IntN(len(g.commands[group]))]
}

// deal returns the commands with which a script of a group begins, by the number of the script
// among those of the group. They are the next eight of the group's commands, in an order that
// depends on the seed, so that few scripts suffice for all commands.
func (g grammar) deal(seed uint64, group string, number int) (hand []described) {
	list := g.commands[group]
	order := rand.New(rand.NewPCG(seed, uint64(slices.Index(g.groups, group)))).Perm(len(list))
	for i := range 8 {
		hand = append(hand, list[order[(8*number+i)%len(order)]])
	}
	return hand
}

// call is a command under construction.
type call struct {
	grammar
	command string
	group   string
	keys    int // how many keys numkeys announced; 0 without numkeys
}

// call writes one call of a command without its entry in specials.
func (g grammar) call(d described) []string {
	c := &call{grammar: g, command: d.String(), group: d.group}
	return append(c.cased(d.name), c.list(d.args)...)
}

// cased returns a name in upper, lower or mixed case.
func (g grammar) cased(name []string) (words []string) {
	for _, n := range name {
		switch g.IntN(6) {
		case 0:
		case 1:
			n = strings.ToUpper(n[:1]) + n[1:]
		default:
			n = strings.ToUpper(n)
		}
		words = append(words, n)
	}
	return words
}

func (c *call) list(list []syntax) (words []string) {
	for _, a := range list {
		if !a.optional || c.IntN(3) == 0 {
			words = append(words, c.argument(a)...)
		}
	}
	return words
}

func (c *call) argument(a syntax) (words []string) {
	times := 1
	if a.multiple {
		times += c.IntN(3)
		if a.kind == "key" && c.keys > 0 {
			times = c.keys
		}
	}
	for i := range times {
		if a.token != "" && a.kind != "pure-token" && (i == 0 || a.tokenEach) {
			words = append(words, a.token)
		}
		words = append(words, c.one(a)...)
	}
	return words
}

func (c *call) one(a syntax) []string {
	switch a.kind {
	case "pure-token":
		return []string{a.token}
	case "oneof":
		return c.argument(a.parts[c.IntN(len(a.parts))])
	case "block":
		return c.list(a.parts)
	case "key":
		return []string{c.keyOf(c.group)}
	}
	if a.name == "numkeys" {
		c.keys = 1 + c.IntN(3)
		return []string{strconv.Itoa(c.keys)}
	}
	for _, name := range []string{c.command + "." + a.name, c.group + "." + a.name, a.name} {
		if choices := argumentWords[name]; choices != nil {
			return []string{c.pick(choices...)}
		}
	}
	switch {
	case a.name == "serialized-value" && c.IntN(2) == 0:
		return []string{c.payload}
	case a.kind == "integer":
		return []string{c.number()}
	case a.kind == "double":
		return []string{c.pick("0", "1.5", "-2", "3e2", "x")}
	}
	return []string{c.value()}
}

// keyOf returns a key of the group, and sometimes one of another group: keys of one group mostly
// have the type that its commands want.
func (g grammar) keyOf(group string) string {
	if group == "generic" || g.IntN(8) == 0 {
		group = g.groups[g.IntN(len(g.groups))]
	}
	return fmt.Sprintf("%s:%d", group, g.IntN(3))
}

// argumentWords are values for arguments, by "command.argument", "group.argument" or "argument".
// Without an entry the argument's type decides. Sets hold only small integers, hashes only short
// values, and a channel has one name: otherwise the order would depend on a random seed of each
// server.
var argumentWords = map[string][]string{
	"set.member": {"1", "2", "3", "4", "-7"}, "sorted-set.member": {"m1", "m2", "m3", "m4"},
	"geo.member": {"P", "Q", "R"}, "member1": {"P", "Q"}, "member2": {"Q", "none"},
	"longitude": {"13.361389", "15.087269", "-120", "200"}, "latitude": {"38.115556", "37.502669", "-5", "100"},
	"radius": {"1", "200", "5000"}, "width": {"400"}, "height": {"400"},
	"field": {"f1", "f2", "f3"}, "hash.value": {"1", "2.5", "short", ""}, "stream.field": {"f"},
	"stream.value": {"v", ""},
	"channel":      {"a"}, "shardchannel": {"s"}, "pattern": {"a*"}, "keys.pattern": {"*", "string:*", "none*"},
	"message":       {"hello", "", "*1\r\n$4\r\nPING\r\n"},
	"generic.count": {"1", "100"}, "seconds": {"1000", "100000", "0", "x"}, "milliseconds": {"1000000", "0"},
	"unix-time-seconds": {"4102444800", "1"}, "unix-time-milliseconds": {"4102444800000", "1"}, "ttl": {"0", "1000000"},
	"xread.milliseconds": {"1", "2"}, "xreadgroup.milliseconds": {"1", "2"}, "timeout": {"0.001", "0.002", "-1", "x"},
	"id": {"1-1", "2-5", "3-0", "5-*", "0"}, "xread.id": {"0", "1-1", "$"}, "xreadgroup.id": {">", "0", "1-1"},
	"stream.start": {"-", "1-1", "0"}, "stream.end": {"+", "2"}, "threshold": {"1", "3", "2-5"},
	"group": {"g1", "g2"}, "groupname": {"g1", "g2"}, "consumer": {"c1"}, "consumername": {"c1"},
	"min-idle-time": {"0"}, "last-id": {"9-9", "1-1"}, "max_deleted_entry_id": {"0-0", "1-1"}, "entries_added": {"9"},
	"sorted-set.min": {"-inf", "0", "(1", "[a", "-"}, "sorted-set.max": {"+inf", "5", "(3", "[z", "+"},
	"score": {"1", "2.5", "-3", "inf", "x"}, "sorted-set.start": {"0", "-2", "1", "[a", "(1"},
	"sorted-set.stop": {"-1", "2", "[z"},
	"weight":          {"1", "2"}, "increment": {"1", "-2", "3"}, "string.increment": {"1", "1.5", "x"}, "decrement": {"1", "2"},
	"encoding": {"u8", "i5", "u63", "x9"}, "bit": {"0", "1"}, "setbit.value": {"0", "1", "2"},
	"offset":    {"0", "7", "100", "-1", "#1"},
	"operation": {"AND", "OR", "XOR", "NOT"}, "index": {"0", "1", "2", "99"}, "index1": {"0", "1"}, "index2": {"1", "2"},
	"db": {"1", "2"}, "destination-db": {"0", "1"}, "cursor": {"0"}, "type": {"string", "list"},
	"count": {"1", "2", "5", "-1"},
	"script": {"return 1", "return {KEYS[1] or false, ARGV[1] or 2}", "return redis.call('GET', KEYS[1])",
		"return redis.error_reply('MY err')", "bad("},
	"sha1": {"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "ffffffffffffffffffffffffffffffffffffffff"},
	"function-code": {"#!lua name=lib\nredis.register_function('fn', function(k, a) return #k end)",
		"#!lua name=x\nbad("},
	"function": {"fn", "none"}, "library-name": {"lib", "none"}, "library-name-pattern": {"l*"},
	"username": {"default", "alice", "nobody"}, "categoryname": {"read", "none"}, "category": {"read"},
	"command-name": {"get", "lpush", "none"},
	"command":      {"get", "none"}, "event": {"command", "none"}, "path": {"/none.so"}, "name": {"a", "none"},
	"connection-name": {"me", "a b"},
	"numreplicas":     {"0", "1"}, "version": {"5", "6"}, "bits": {"10"},
}
