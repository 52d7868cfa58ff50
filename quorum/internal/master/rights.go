package master

import (
	"slices"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// needed lists the commands of the scripts, with INFO and EVALSHA, which a lane sends itself. A
// master that lacks one of these rights is refused. The commands change no key: XX wants a key
// that exists, and $lock never does, or arguments are invalid. Redis checks rights before
// arguments, memory and role, so a trial also works on a full or read-only master.
//
// trial.commands replaces words that begin with a $.
var needed = []string{
	"INFO server",
	"EVALSHA 0000000000000000000000000000000000000000 0",
	"TIME",
	"SET $lock 0 XX PX 1000",
	"GETRANGE $lock 0 39",
	"SETRANGE $lock -1 0",
	"TYPE $lock",
	"PTTL $lock",
	"PEXPIRE $lock 1000",
	"PEXPIREAT $lock 1000",
	"ZADD $lock XX 0 0",
	"ZSCORE $lock 0",
	"ZREM $lock 0",
	"ZREVRANGE $lock 0 0",
	"ZRANGEBYSCORE $lock 0 0",
	"ZCOUNT $lock 0 0",
	"HSET $hash 0 0 0",
	"HGET $hash 0",
	"HMGET $hash 0",
	"HDEL $hash 0",
	"HLEN $hash",
	"HGETALL $hash",
	"SET $intent 0 XX PX 1000",
	"GET $intent",
	"DEL $lock $hash $intent",
}

// useful lists the commands that the scripts can do without. Waiters learn of releases late if
// lockproxy may not publish. $key is a key with the prefix of locks, where an ACL may allow some
// keys only.
var useful = []string{
	"PUBSUB NUMSUB $released",
	"PUBLISH $released 0",
	"PUBLISH $changed 0",
	"SETRANGE $key -1 0",
}

// trial collects the rights that the master's ACL does not give to the lane's user, in the words
// of ACL SETUSER: +zadd, ~lockproxy:*.
type trial struct {
	lacks  []string // needed
	misses []string // useful
}

// commands returns the commands that try all rights, on reserved keys that have no other use.
func (t *trial) commands(prefix string) (all []handshakeCommand) {
	lock := wire.ReservedPrefix + "trial:" + prefix
	names := map[string]struct{ name, right string }{
		"$lock":     {lock, reserved},
		"$hash":     {wire.ReservedPrefix + "trial:hash:" + prefix, reserved},
		"$intent":   {wire.ReservedPrefix + "intent:" + lock, reserved},
		"$released": {wire.ReleasedPrefix + lock, "&" + wire.ReleasedPrefix + "*"},
		"$changed":  {wire.ReservedPrefix + "changed:" + lock, "&" + wire.ReservedPrefix + "changed*"},
		"$key":      {prefix + wire.ReservedPrefix + "trial", "~" + prefix + "*"},
	}
	add := func(lines []string, found *[]string) {
		for _, line := range lines {
			args, right := strings.Fields(line), ""
			for i, arg := range args {
				if n, ok := names[arg]; ok {
					args[i], right = n.name, n.right
				}
			}
			all = append(all, handshakeCommand{try, args, func(r *wire.Reply) error {
				note(found, r, right)
				return nil
			}})
		}
	}
	add(needed, &t.lacks)
	add(useful, &t.misses)
	return all
}

// note adds the right that the reply to a command asks for. names is the right to the keys or the
// channel of the command.
func note(found *[]string, r *wire.Reply, names string) {
	if right := lacking(r, names); right != "" && !slices.Contains(*found, right) {
		*found = append(*found, right)
	}
}
