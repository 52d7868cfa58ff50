package master

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/wire"
)

// needed lists the commands of the scripts, with INFO and EVALSHA, which a lane sends itself. A master
// that lacks one of these rights is refused. The commands change no key: XX wants one that exists, as
// $lock never does, or arguments are invalid. Redis checks rights before arguments, memory and role,
// so a trial also works on a full or read-only master.
//
// trial.questions replaces words that begin with a $.
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

// useful lists what the scripts can do without. Waiters learn of releases late if lockproxy may not
// publish. $key is a key with the prefix of locks, where an ACL may allow some keys only.
var useful = []string{
	"PUBSUB NUMSUB $released",
	"PUBLISH $released 0",
	"PUBLISH $changed 0",
	"SETRANGE $key -1 0",
}

// trial collects the rights that the master's ACL does not give to the lane's user, in the words of
// ACL SETUSER: +zadd, ~lockproxy:*.
type trial struct {
	lacks  []string // needed
	misses []string // useful
}

// reserved is the right to the keys that lockproxy keeps beside the locks.
const reserved = "~" + wire.ReservedPrefix + "*"

// questions tries all rights, on reserved keys that have no other use.
func (t *trial) questions(prefix string) (all []question) {
	lock := wire.ReservedPrefix + "trial:" + prefix
	names := map[string]struct{ name, right string }{
		"$lock":     {lock, reserved},
		"$hash":     {wire.ReservedPrefix + "trial:hash:" + prefix, reserved},
		"$intent":   {wire.ReservedPrefix + "intent:" + lock, reserved},
		"$released": {wire.ReleasedPrefix + lock, "&" + wire.ReleasedPrefix + "*"},
		"$changed":  {wire.ReservedPrefix + "changed:" + lock, "&" + wire.ReservedPrefix + "changed*"},
		"$key":      {prefix + wire.ReservedPrefix + "trial", "~" + prefix + "*"},
	}
	add := func(commands []string, found *[]string) {
		for _, command := range commands {
			args, right := strings.Fields(command), ""
			for i, arg := range args {
				if n, ok := names[arg]; ok {
					args[i], right = n.name, n.right
				}
			}
			all = append(all, question{try, args, func(r *wire.Reply) error {
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

// lacking returns the right that the reply to a command asks for, or "" if the master refused no
// right. names is the right to the keys or the channel of the command.
//
//	< -NOPERM this user has no permissions to run the 'zadd' command
//	< -NOPERM User locks has no permissions to run the 'pubsub|numsub' command
//	< -NOPERM No permissions to access a key
func lacking(r *wire.Reply, names string) string {
	if r.Code() != codeNoPerm {
		return ""
	}
	_, rest, ok := strings.Cut(r.Text, " permissions to run the '")
	command, _, closed := strings.Cut(rest, "'")
	if ok && closed {
		return "+" + command
	}
	return names
}

// forbids reports whether a reply, or an element of it, says that an ACL forbids something. In a
// script the code is missing.
//
//	< -NOPERM this user has no permissions to access one of the keys used as arguments
//	< -ERR The user executing the script can't run this command or subcommand
//	< -ERR ACL failure in script: User locks has no permissions to run the 'zadd' command
func forbids(r *wire.Reply) bool {
	if r.IsError() {
		return r.Code() == codeNoPerm || strings.HasPrefix(r.Text, "ERR The user executing the script ") ||
			strings.HasPrefix(r.Text, "ERR ACL failure in script: ")
	}
	for i := range r.Elems {
		if forbids(&r.Elems[i]) {
			return true
		}
	}
	return false
}

// rightsError is the reason of a master that does not give lockproxy's user some rights.
type rightsError struct {
	User   string
	Rights []string // in the words of ACL SETUSER
}

// maxRights is how many rights the text of a rightsError names.
const maxRights = 6

// Error is the reason in words.
func (e *rightsError) Error() string {
	noun, more := "right", ""
	if len(e.Rights) > 1 {
		noun = "rights"
	}
	rights := e.Rights
	if n := len(rights) - maxRights; n > 0 {
		rights, more = rights[:maxRights], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("does not give user %s the %s %s%s", e.User, noun, strings.Join(rights, " "), more)
}

// withoutRights returns the reason of a master that refuses these rights.
func (l *Lane) withoutRights(rights ...string) error {
	user, password := l.cfg.Options.Credentials()
	if user == "" || password == "" {
		user = "default"
	}
	return refusedError{&rightsError{user, rights}}
}

// tried ends a trial that found every needed right. It logs the useful ones that are missing, once.
func (l *Lane) tried(t *trial) {
	misses := strings.Join(t.misses, " ")
	l.mu.Lock()
	l.untried = false
	known := l.misses == misses
	l.misses = misses
	l.mu.Unlock()
	if !known && misses != "" {
		l.cfg.Log.Warn("master lacks rights: clients wait longer, or cannot lock some keys",
			l.master(), zap.String("rights", misses))
	}
}
