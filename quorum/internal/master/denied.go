package master

import (
	"fmt"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// Codes of errors that the master answers to a packet before it carries out anything.
const (
	codeNoScript = "NOSCRIPT" // it does not have the script
	codeNoPerm   = "NOPERM"   // lockproxy's user may not run it, or not use one of the keys
)

// reserved is the right to the keys that lockproxy keeps beside the locks.
const reserved = "~" + wire.ReservedPrefix + "*"

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
func withoutRights(o *Options, rights ...string) error {
	user, password := o.Credentials()
	if user == "" || password == "" {
		user = "default"
	}
	return refusedError{&rightsError{user, rights}}
}

// refusal returns the reason for an error reply to a command. The lane soon tries again if the
// error may pass by itself.
func refusal(o *Options, r *wire.Reply) error {
	switch r.Code() {
	case codeNoPerm:
		return withoutRights(o, lacking(r, reserved))
	case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "MISCONF", "OOM":
		return Answered(r)
	case "WRONGPASS":
		return refusedError{errPassword}
	case "NOAUTH":
		return refusedError{errWantPassword}
	}
	if strings.HasPrefix(r.Text, "ERR max number of clients") {
		return Answered(r)
	}
	return refusedError{Answered(r)}
}
